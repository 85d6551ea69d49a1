//! Patterns over names: `*` does not cross a slash, `**` does.

use std::{cmp::Ordering, fmt};

use crate::name::{BreakerName, NAME_BYTES_MAX, NameError};

/// The most wildcards of one pattern: bounds the time that matching takes.
pub const WILDCARDS_MAX: usize = 8;

/// A name or a pattern over names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Literal(String),
    /// `*`: any run of characters but a slash.
    Segment,
    /// `**`: any run of characters.
    Deep,
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// Without its wildcards it would not be a name.
    Name(NameError),
    /// It has more than [`WILDCARDS_MAX`] wildcards.
    Wildcards {
        /// How many it has.
        found: usize,
    },
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Wildcards { found } => {
                write!(f, "the pattern has {found} wildcards, {WILDCARDS_MAX} are allowed: use ** once")
            }
        }
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// Parses a name or a pattern.
    ///
    /// # Errors
    /// [`PatternError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Name(NameError::Empty));
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(PatternError::Name(NameError::TooLong { bytes: text.len() }));
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().enumerate().peekable();
        while let Some((at, c)) = chars.next() {
            if c == '*' {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                let mut stars = 1;
                while chars.next_if(|&(_, c)| c == '*').is_some() {
                    stars += 1;
                }
                parts.push(if stars > 1 { Part::Deep } else { Part::Segment });
            } else if c.is_ascii_alphanumeric() || at > 0 && matches!(c, '.' | '_' | '/' | '-') {
                literal.push(c);
            } else {
                return Err(PatternError::Name(NameError::Character { found: c, at }));
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        let found = parts.iter().filter(|part| !matches!(part, Part::Literal(_))).count();
        if found > WILDCARDS_MAX {
            return Err(PatternError::Wildcards { found });
        }
        Ok(Self { text: text.into(), parts })
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The one name it stands for, if it has no wildcard.
    pub fn exact(&self) -> Option<BreakerName> {
        match self.parts.as_slice() {
            [Part::Literal(name)] => BreakerName::parse(name).ok(),
            _ => None,
        }
    }

    /// Whether `name` matches.
    pub fn matches(&self, name: &BreakerName) -> bool {
        matches(&self.parts, name.as_str())
    }

    /// Orders patterns that match one name: the greater one wins. An exact name beats all, then the longest
    /// literal prefix, then `*` over `**`, then more literal characters. Equal means a tie.
    pub fn specificity(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }

    fn rank(&self) -> (bool, usize, bool, usize) {
        let exact = matches!(self.parts.as_slice(), [Part::Literal(_)]);
        let prefix = match self.parts.first() {
            Some(Part::Literal(text)) => text.len(),
            _ => 0,
        };
        let shallow = !self.parts.contains(&Part::Deep);
        let literals =
            self.parts.iter().map(|part| if let Part::Literal(t) = part { t.len() } else { 0 }).sum();
        (exact, prefix, shallow, literals)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Walks the parts once over the set of places where a match can stand, so its time is parts x length.
fn matches(parts: &[Part], name: &str) -> bool {
    let name = name.as_bytes();
    // On the stack: a watch of patterns compares each with every breaker there is.
    let mut reached = [false; NAME_BYTES_MAX + 1];
    reached[0] = true;
    for part in parts {
        let mut next = [false; NAME_BYTES_MAX + 1];
        match part {
            Part::Literal(literal) => {
                for at in (0..=name.len()).filter(|&at| reached[at]) {
                    if name[at..].starts_with(literal.as_bytes()) {
                        next[at + literal.len()] = true;
                    }
                }
            }
            Part::Segment | Part::Deep => {
                let mut open = false;
                for at in 0..=name.len() {
                    open |= reached[at];
                    next[at] = open;
                    let stops = *part == Part::Segment && name.get(at) == Some(&b'/');
                    open &= !stops;
                }
            }
        }
        reached = next;
    }
    reached[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(&BreakerName::parse(name).unwrap())
    }

    #[test]
    fn one_star_stays_within_a_segment_and_two_cross() {
        assert!(check("checkout/*", "checkout/quote"));
        assert!(!check("checkout/*", "checkout/a/b"));
        assert!(check("checkout/**", "checkout/a/b"));
        assert!(check("**", "anything/at/all"));
        assert!(check("*", "flat"));
        assert!(!check("*", "a/b"));
        assert!(check("a*c", "abc") && check("a*c", "ac") && !check("a*c", "a/c"));
        assert!(check("**/quote", "x/y/quote") && !check("**/quote", "x/quotes"));
    }

    #[test]
    fn the_more_specific_pattern_wins() {
        let order = ["**", "*/quote", "checkout/**", "checkout/*", "checkout/*e", "checkout/quote"];
        for pair in order.windows(2) {
            let (less, more) = (Pattern::parse(pair[0]).unwrap(), Pattern::parse(pair[1]).unwrap());
            assert_eq!(more.specificity(&less), Ordering::Greater, "{more} over {less}");
        }
        let (a, b) = (Pattern::parse("a/*x").unwrap(), Pattern::parse("a/*y").unwrap());
        assert_eq!(a.specificity(&b), Ordering::Equal);
    }

    #[test]
    fn matching_is_bounded() {
        assert_eq!(Pattern::parse(&"a*".repeat(9)), Err(PatternError::Wildcards { found: 9 }));
        let worst = Pattern::parse("**a**a**a**a**a**a**a**b").unwrap();
        assert!(!worst.matches(&BreakerName::parse(&"a".repeat(128)).unwrap()));
    }
}
