//! YAML as a tree whose every node knows its line. What the values mean is not known here.
//!
//! Only what a policy needs is accepted: one document, words as keys, no alias. Without aliases a small file is a
//! small tree, whatever it says.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle};

/// A policy is five levels deep; what is far deeper is none, and walking it would cost stack.
const DEPTH_MAX: usize = 16;

const TOO_DEEP: &str = "is nested too deep for a policy file: a policy needs five levels";

/// A value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Where it begins, from 1.
    pub(crate) line: usize,
    pub(crate) content: Content,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// One value, as it is written; what type it has is decided by what is asked for.
    Scalar(String),
    /// A key without a value, `~` or `null`.
    Nothing,
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// Something that has been reported already.
    Refused,
}

/// The name before a colon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Something that is wrong with the file as YAML.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Reads a text; none if it holds no value or if there is no telling what it holds, which a flaw then says.
pub(crate) fn parse(text: &str) -> (Option<Node>, Vec<Flaw>) {
    let mut tree = Tree::default();
    let mut documents = 0;
    for step in Parser::new_from_str(text) {
        let (event, line) = match step {
            Ok((event, span)) => (event, span.start.line()),
            Err(error) if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) => {
                return tree.broken(error.marker().line(), TOO_DEEP.into());
            }
            Err(error) => {
                let message = format!("is not YAML: {}", error.info().replace('\n', ", "));
                return tree.broken(error.marker().line(), message);
            }
        };
        let tagged = match &event {
            Event::Scalar(_, _, _, tag)
            | Event::SequenceStart(_, _, tag)
            | Event::MappingStart(_, _, tag) => tag.is_some(),
            _ => false,
        };
        if tagged {
            tree.flaw(line, "a tag (!) says nothing here: remove it");
        }
        match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    tree.flaw(
                        line,
                        "a second document begins: put its policies into the first, or into a file",
                    );
                    break;
                }
            }
            Event::Scalar(text, style, ..) => {
                tree.scalar(text.into_owned(), style == ScalarStyle::Plain, line)
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                tree.flaw(line, "an alias (*) is not followed: write the value out");
                tree.value(Node { line, content: Content::Refused });
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if tree.open.len() == DEPTH_MAX => {
                return tree.broken(line, TOO_DEEP.into());
            }
            Event::SequenceStart(..) => tree.open.push(Open::List { line, items: Vec::new() }),
            Event::MappingStart(..) => tree.open.push(Open::map(line)),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = tree.open.pop() {
                    tree.value(open.close());
                }
            }
            // Ends, and what carries no value.
            _ => {}
        }
    }
    (tree.root, tree.flaws)
}

/// The tree as far as it has been read.
#[derive(Default)]
struct Tree {
    root: Option<Node>,
    open: Vec<Open>,
    flaws: Vec<Flaw>,
}

/// A list or map whose end has not been read.
enum Open {
    List {
        line: usize,
        items: Vec<Node>,
    },
    Map {
        line: usize,
        entries: Vec<(Key, Node)>,
        /// The line of each key so far.
        seen: HashMap<String, usize>,
        awaited: Awaited,
    },
}

/// What comes next in a map.
enum Awaited {
    Key,
    /// The value of this key.
    Value(Key),
    /// A value that is dropped: its key is no word, or was there before.
    Dropped,
}

impl Open {
    fn map(line: usize) -> Self {
        Self::Map { line, entries: Vec::new(), seen: HashMap::new(), awaited: Awaited::Key }
    }

    fn close(self) -> Node {
        match self {
            Self::List { line, items } => Node { line, content: Content::List(items) },
            Self::Map { line, entries, .. } => Node { line, content: Content::Map(entries) },
        }
    }
}

impl Tree {
    fn flaw(&mut self, line: usize, message: impl Into<String>) {
        self.flaws.push(Flaw { line, message: message.into() });
    }

    /// Nothing after this can be trusted, and what was read before it may be cut off.
    fn broken(mut self, line: usize, message: String) -> (Option<Node>, Vec<Flaw>) {
        self.flaw(line, message);
        (None, self.flaws)
    }

    fn scalar(&mut self, text: String, plain: bool, line: usize) {
        let nothing = plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL");
        let content = if nothing { Content::Nothing } else { Content::Scalar(text) };
        self.value(Node { line, content });
    }

    fn value(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, seen, awaited, .. }) => {
                match std::mem::replace(awaited, Awaited::Key) {
                    Awaited::Value(key) => entries.push((key, node)),
                    Awaited::Dropped => {}
                    Awaited::Key => {
                        let line = node.line;
                        let (next, flaw) = key(node, seen);
                        *awaited = next;
                        if let Some(message) = flaw {
                            self.flaw(line, message);
                        }
                    }
                };
            }
        }
    }
}

/// What a node in the place of a key leads to, and what is wrong with it.
fn key(node: Node, seen: &mut HashMap<String, usize>) -> (Awaited, Option<String>) {
    let Node { line, content } = node;
    let text = match content {
        Content::Scalar(text) => text,
        Content::Refused => return (Awaited::Dropped, None),
        Content::Nothing | Content::List(_) | Content::Map(_) => {
            return (Awaited::Dropped, Some("a key is not a word: write one, such as name".into()));
        }
    };
    if let Some(first) = seen.get(&text) {
        let message = format!("{text:?} is given twice, first on line {first}: keep one");
        return (Awaited::Dropped, Some(message));
    }
    seen.insert(text.clone(), line);
    (Awaited::Value(Key { text, line }), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The tree on one line: `a@1: …` for an entry, the value with its line for a scalar.
    fn show(node: &Node) -> String {
        match &node.content {
            Content::Scalar(text) => format!("{text}@{}", node.line),
            Content::Nothing => format!("nothing@{}", node.line),
            Content::Refused => format!("refused@{}", node.line),
            Content::List(items) => {
                format!("[{}]@{}", items.iter().map(show).collect::<Vec<_>>().join(" "), node.line)
            }
            Content::Map(entries) => {
                let entry = |(key, node): &(Key, Node)| format!("{}@{}:{}", key.text, key.line, show(node));
                format!("{{{}}}@{}", entries.iter().map(entry).collect::<Vec<_>>().join(" "), node.line)
            }
        }
    }

    fn check(text: &str, tree: Option<&str>, flaws: &[(usize, &str)]) {
        let (root, found) = parse(text);
        assert_eq!(root.as_ref().map(show).as_deref(), tree, "{text}\n{found:?}");
        assert_eq!(found.len(), flaws.len(), "{found:?}");
        for (found, (line, message)) in found.iter().zip(flaws) {
            assert!(found.line == *line && found.message.contains(message), "{found:?} for {message:?}");
        }
    }

    #[test]
    fn every_value_knows_its_line() {
        check(
            "a: 1\nb:\n  - x\n  - {c: 'null',\n     d: }\n",
            Some("{a@1:1@1 b@2:[x@3 {c@4:null@4 d@5:nothing@5}@4]@3}@1"),
            &[],
        );
        check("# only\n\n# words\n", None, &[]);
        check("", None, &[]);
        check("---\n\nword", Some("word@3"), &[]);
        check("a: >\n  long\n  text\n", Some("{a@1:long text\n@2}@1"), &[]);
    }

    #[test]
    fn what_is_not_yaml_is_said_with_its_line() {
        check("a: 1\nb: [1, 2\nc: 3\n", None, &[(3, "is not YAML: ")]);
        check("a:\n  b: 1\n\tc: 2\n", None, &[(2, "is not YAML: ")]);
        check(&"[".repeat(100_000), None, &[(1, "nested too deep")]);
        check("a: 'x\n", None, &[(1, "is not YAML: ")]);
    }

    #[test]
    fn what_a_policy_does_not_need_is_refused() {
        check("a: &x 1\nb: *x\n", Some("{a@1:1@1 b@2:refused@2}@1"), &[(2, "alias")]);
        check("a: 1\nb: 2\na: 3\n", Some("{a@1:1@1 b@2:2@2}@1"), &[(3, "first on line 1")]);
        check("[a]: 1\nb: 2\n", Some("{b@2:2@2}@1"), &[(1, "not a word")]);
        check("a: 1\n---\nb: 2\n", Some("{a@1:1@1}@1"), &[(2, "second document")]);
        check("a: !special 1\n", Some("{a@1:1@1}@1"), &[(1, "tag")]);
        check(&format!("{}{}", "[".repeat(20), "]".repeat(20)), None, &[(1, "nested too deep")]);
    }

    #[test]
    fn a_bomb_of_aliases_stays_as_small_as_its_text() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..30 {
            let items = vec![format!("*a{}", level - 1); 9].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        let (_, flaws) = parse(&bomb);
        assert_eq!(flaws.len(), 29 * 9);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}|([-:?\\[\\]{}!&*#|>'\"%@`, \n\ta1]{0,60})") {
            let _ = parse(&text);
        }
    }
}
