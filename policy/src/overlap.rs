//! Two policies for one name: which patterns are equal, or equally specific with a name that both match.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

use panelboard_core::{BreakerName, NAME_BYTES_MAX, Pattern};

use crate::limits::PATTERN_STEPS_MAX;

/// Two patterns of different policies between which specificity does not decide; by their places in what was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// They are the same.
    Same { first: usize, second: usize },
    /// They are equally specific, and both match this name.
    Tie { first: usize, second: usize, name: BreakerName },
    /// So many are equally specific and begin alike that not all of them were compared.
    TooMany {
        /// The first one that was not.
        at: usize,
    },
}

/// All conflicts among patterns, each given with the number of its policy. At most one for each pattern, with the
/// first that it conflicts with.
pub(crate) fn conflicts(patterns: &[(&Pattern, usize)]) -> Vec<Conflict> {
    // Of equally specific patterns the literal beginnings are equally long, so a common name has them in common.
    let mut alike: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, (pattern, _)) in patterns.iter().enumerate() {
        alike.entry(beginning(pattern)).or_default().push(index);
    }
    let mut found = Vec::new();
    let mut steps = PATTERN_STEPS_MAX;
    for mut group in alike.into_values() {
        let rank = |a: &usize, b: &usize| patterns[*a].0.specificity(patterns[*b].0);
        group.sort_by(|a, b| rank(a, b).then(a.cmp(b)));
        for equals in group.chunk_by(|a, b| rank(a, b) == Ordering::Equal) {
            among(equals, patterns, &mut steps, &mut found);
        }
    }
    found
}

fn among(equals: &[usize], patterns: &[(&Pattern, usize)], steps: &mut usize, found: &mut Vec<Conflict>) {
    // A name written out has no wildcard, so all that begin like it and rank like it are itself.
    if let [first, others @ ..] = equals
        && patterns[*first].0.exact().is_some()
    {
        let others = others.iter().filter(|other| patterns[**other].1 != patterns[*first].1);
        found.extend(others.map(|second| Conflict::Same { first: *first, second: *second }));
        return;
    }
    for (place, second) in equals.iter().enumerate() {
        let (pattern, policy) = patterns[*second];
        for first in equals[..place].iter().filter(|first| patterns[**first].1 != policy) {
            let other = patterns[*first].0;
            if other == pattern {
                found.push(Conflict::Same { first: *first, second: *second });
                break;
            }
            let ends_alike = ends_alike(other.as_str(), pattern.as_str());
            let cost = if ends_alike { other.as_str().len() * pattern.as_str().len() } else { 1 };
            let Some(left) = steps.checked_sub(cost) else {
                found.push(Conflict::TooMany { at: *second });
                return;
            };
            *steps = left;
            if let Some(name) = ends_alike.then(|| common_name(other, pattern)).flatten() {
                found.push(Conflict::Tie { first: *first, second: *second, name });
                break;
            }
        }
    }
}

/// Whether the characters behind the last wildcards agree as far as both have them. Else no name is common: most
/// pairs are told apart by this alone.
fn ends_alike(a: &str, b: &str) -> bool {
    let ending = |text: &str| text.bytes().rev().take_while(|byte| *byte != b'*').collect::<Vec<_>>();
    ending(a).iter().zip(&ending(b)).all(|(a, b)| a == b)
}

/// What a pattern's names begin with.
pub(crate) fn beginning(pattern: &Pattern) -> &str {
    let text = pattern.as_str();
    &text[..text.find('*').unwrap_or(text.len())]
}

/// One character of a pattern, or a wildcard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Atom {
    Char(u8),
    /// `*`.
    Segment,
    /// `**`.
    Deep,
}

impl Atom {
    fn all(pattern: &Pattern) -> Vec<Self> {
        let mut atoms: Vec<Self> = Vec::new();
        let mut after_star = false;
        for byte in pattern.as_str().bytes() {
            match (byte, after_star) {
                (b'*', false) => atoms.push(Self::Segment),
                (b'*', true) => {
                    atoms.pop();
                    atoms.push(Self::Deep);
                }
                _ => atoms.push(Self::Char(byte)),
            }
            after_star = byte == b'*';
        }
        atoms
    }

    const fn takes(self, byte: u8) -> bool {
        match self {
            Self::Char(own) => own == byte,
            Self::Segment => byte != b'/',
            Self::Deep => true,
        }
    }

    const fn is_wildcard(self) -> bool {
        !matches!(self, Self::Char(_))
    }
}

/// Stands for every character that neither pattern names.
const ANY: u8 = b'x';

/// A shortest name that both patterns match, if there is one.
///
/// Both patterns are walked side by side, shortest names first: a state is a place in each and whether the name has
/// begun, which matters because a name begins with a letter or a digit.
fn common_name(a: &Pattern, b: &Pattern) -> Option<BreakerName> {
    let (a, b) = (Atom::all(a), Atom::all(b));
    let width = b.len() + 1;
    let number = |(i, j, begun): (usize, usize, bool)| (i * width + j) * 2 + usize::from(begun);
    // How each state was reached: from where, with which character.
    let mut reached: Vec<Option<(usize, Option<u8>)>> = vec![None; (a.len() + 1) * width * 2];
    let mut open = VecDeque::from([((0, 0, false), 0)]);
    let start = number((0, 0, false));
    reached[start] = Some((start, None));
    let mut done = vec![false; reached.len()];
    while let Some((state, length)) = open.pop_front() {
        let here = number(state);
        if std::mem::replace(&mut done[here], true) {
            continue;
        }
        let (i, j, begun) = state;
        let (next_a, next_b) = (a.get(i).copied(), b.get(j).copied());
        if next_a.is_none() && next_b.is_none() && begun {
            return BreakerName::parse(&spell(&reached, here)).ok();
        }
        let mut steps: Vec<((usize, usize, bool), Option<u8>)> = Vec::new();
        // A wildcard may stand for nothing more.
        if next_a.is_some_and(Atom::is_wildcard) {
            steps.push(((i + 1, j, begun), None));
        }
        if next_b.is_some_and(Atom::is_wildcard) {
            steps.push(((i, j + 1, begun), None));
        }
        // Or both patterns take one character; a wildcard then stays where it is.
        if let (Some(one), Some(other)) = (next_a, next_b) {
            let byte = match (one, other) {
                (Atom::Char(byte), _) | (_, Atom::Char(byte)) => byte,
                _ => ANY,
            };
            let begins = begun || byte.is_ascii_alphanumeric();
            if begins && length < NAME_BYTES_MAX && one.takes(byte) && other.takes(byte) {
                let on = |place: usize, atom: Atom| if atom.is_wildcard() { place } else { place + 1 };
                steps.push(((on(i, one), on(j, other), true), Some(byte)));
            }
        }
        for (next, byte) in steps {
            let there = number(next);
            if done[there] {
                continue;
            }
            match byte {
                // No character: as near as this state, so before all that are one further.
                None => {
                    reached[there] = Some((here, None));
                    open.push_front((next, length));
                }
                Some(byte) => {
                    if reached[there].is_none() {
                        reached[there] = Some((here, Some(byte)));
                    }
                    open.push_back((next, length + 1));
                }
            }
        }
    }
    None
}

/// The characters on the way to a state.
fn spell(reached: &[Option<(usize, Option<u8>)>], end: usize) -> String {
    let mut name = Vec::new();
    let mut at = end;
    while let Some((before, byte)) = reached[at] {
        name.extend(byte.map(char::from));
        if before == at {
            break;
        }
        at = before;
    }
    name.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect(text)
    }

    fn check(a: &str, b: &str, name: Option<&str>) {
        let found = common_name(&pattern(a), &pattern(b));
        assert_eq!(found.as_ref().map(BreakerName::as_str), name, "{a} and {b}");
    }

    #[test]
    fn two_patterns_meet_in_a_shortest_name() {
        check("a/*x", "a/*y", None);
        check("a/*x", "a/x*", Some("a/x"));
        check("a/*b*", "a/*c*", Some("a/cb"));
        check("*/b", "a/*", Some("a/b"));
        check("**/b", "a/**", Some("a/b"));
        check("*-a", "**-a", Some("x-a"));
        check("*", "*", Some("x"));
        check("a*", "b*", None);
        check("a/*", "a/*/c", None);
        check("a/**", "a/*/c", Some("a//c"));
        check("***", "**", Some("x"));
    }

    #[test]
    fn a_common_name_would_be_too_long() {
        let (a, b) = (format!("*{}", "a".repeat(100)), format!("{}*", "b".repeat(28)));
        check(&a, &b, Some(&format!("{}{}", "b".repeat(28), "a".repeat(100))));
        let b = format!("{}*", "b".repeat(29));
        check(&a, &b, None);
    }

    #[test]
    fn only_equally_specific_patterns_of_different_policies_conflict() {
        let texts =
            [("a/*x", 0), ("a/x*", 0), ("a/*x", 1), ("a/**", 1), ("b", 0), ("b", 1), ("b", 1), ("**", 2)];
        let patterns: Vec<Pattern> = texts.iter().map(|(text, _)| pattern(text)).collect();
        let given: Vec<(&Pattern, usize)> = patterns.iter().zip(texts.iter().map(|t| t.1)).collect();
        let mut found = conflicts(&given);
        found.sort_by_key(|conflict| match conflict {
            Conflict::Same { second, .. } | Conflict::Tie { second, .. } => *second,
            Conflict::TooMany { at } => *at,
        });
        assert_eq!(
            found,
            [
                Conflict::Same { first: 0, second: 2 },
                Conflict::Same { first: 4, second: 5 },
                Conflict::Same { first: 4, second: 6 },
            ]
        );
        let (x, y) = (pattern("a/*x"), pattern("a/*y*"));
        let name = BreakerName::parse("a/yx").expect("a name");
        assert_eq!(conflicts(&[(&x, 0), (&y, 1)]), [Conflict::Tie { first: 0, second: 1, name }]);
    }

    #[test]
    fn more_than_can_be_compared_is_refused() {
        let given = |patterns: &[Pattern]| {
            let given: Vec<(&Pattern, usize)> = patterns.iter().zip(0..).collect();
            conflicts(&given)
        };
        let told_apart: Vec<Pattern> = (1_000..3_000).map(|n| pattern(&format!("*-{n}"))).collect();
        assert_eq!(given(&told_apart), []);
        // Each has its number too often for a name to hold that of another as well.
        let long: Vec<Pattern> =
            (1_000..1_100).map(|n| pattern(&format!("*{}*", n.to_string().repeat(25)))).collect();
        assert_eq!(given(&long[..40]), []);
        assert!(matches!(given(&long)[..], [Conflict::TooMany { at: 62 }]), "{:?}", given(&long));
    }

    /// Every name of these letters up to this length.
    fn names(length: usize) -> Vec<BreakerName> {
        let mut texts = vec![String::new()];
        let mut all = Vec::new();
        for _ in 0..length {
            texts = texts.iter().flat_map(|t| ["a", "x", "/", "-"].map(|c| format!("{t}{c}"))).collect();
            all.extend(texts.iter().filter_map(|text| BreakerName::parse(text).ok()));
        }
        all
    }

    proptest! {
        #[test]
        fn a_common_name_is_found_exactly_if_there_is_one(a in "[ax*][ax/*-]{0,4}", b in "[ax*][ax/*-]{0,4}") {
            let (Ok(a), Ok(b)) = (Pattern::parse(&a), Pattern::parse(&b)) else { return Ok(()) };
            let shortest = names(6).into_iter().find(|name| a.matches(name) && b.matches(name));
            let found = common_name(&a, &b);
            if let Some(name) = &found {
                prop_assert!(a.matches(name) && b.matches(name), "{a} {b} {name}");
            }
            match shortest {
                Some(shortest) => prop_assert_eq!(found.map(|n| n.as_str().len()), Some(shortest.as_str().len())),
                None => prop_assert!(found.is_none_or(|name| name.as_str().len() > 6)),
            }
        }
    }
}
