//! Single values: what a field wants, read from what is written. Each message names the value and the remedy.
//!
//! A value is read as what its field wants, so `yes` is a text where a text is wanted, and quotes change nothing.

use std::time::Duration;

use panelboard_core::{MINIMUM_CALLS_MAX, OnDisconnect, Rate, RetryAfterScope};

use crate::duration;
use crate::nearest::nearest;
use crate::yaml::{Content, Node};

/// Why a value was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It has been reported already.
    Known,
    /// This is wrong with it.
    Because(String),
}

impl From<String> for Unread {
    fn from(message: String) -> Self {
        Self::Because(message)
    }
}

/// The text of a scalar.
pub(crate) fn scalar<'n>(node: &'n Node, wanted: &str) -> Result<&'n str, Unread> {
    let found = match &node.content {
        Content::Scalar(text) => return Ok(text),
        Content::Refused => return Err(Unread::Known),
        Content::Nothing => "nothing",
        Content::List(_) => "a list",
        Content::Map(_) => "a map",
    };
    Err(Unread::Because(format!("{found} stands where {wanted} belongs: write {wanted}")))
}

/// A text.
pub(crate) fn text(node: &Node) -> Result<String, Unread> {
    scalar(node, "a text").map(|text| text.trim().to_owned())
}

/// A text for people, which a policy can do without.
pub(crate) fn optional_text(node: &Node) -> Result<String, Unread> {
    match node.content {
        Content::Nothing => {
            Err("nothing stands where a text belongs: write a text, or remove the key".to_owned().into())
        }
        _ => text(node),
    }
}

/// `10s`.
pub(crate) fn duration(node: &Node) -> Result<Duration, Unread> {
    let text = scalar(node, "a duration such as 10s")?;
    duration::parse(text).map_err(|error| error.to_string().into())
}

/// `20`.
pub(crate) fn number(node: &Node) -> Result<u32, Unread> {
    let wanted = "a whole number such as 20";
    let text = scalar(node, wanted)?;
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not a whole number: write {wanted}").into());
    }
    digits
        .parse()
        .map_err(|_| format!("{text} is out of range: no number here is above {MINIMUM_CALLS_MAX}").into())
}

/// `2` or `1.5`, in hundredths.
pub(crate) fn factor(node: &Node) -> Result<u32, Unread> {
    let text = scalar(node, "a number such as 2 or 1.5")?;
    match hundredths(text) {
        Ok(hundredths) => Ok(hundredths),
        Err(Decimal::None) => {
            Err(format!("{text:?} is not a number: write one such as 2 or 1.5, without a unit").into())
        }
        Err(Decimal::TooFine) => Err(format!("{text} has more than two decimals: round it").into()),
    }
}

/// `50%` as a threshold, which zero is not.
pub(crate) fn rate(node: &Node) -> Result<Rate, Unread> {
    let hundredths = percent(node)?;
    Rate::from_hundredths(hundredths).ok_or_else(|| {
        let written = scalar(node, "a percentage such as 50%").unwrap_or_default();
        format!("{written} is out of range: a threshold is at least 0.01% and at most 100%").into()
    })
}

/// `50%` or `12.5%`, in hundredths of a percent.
pub(crate) fn percent(node: &Node) -> Result<u32, Unread> {
    let text = scalar(node, "a percentage such as 50%")?;
    let Some(number) = text.strip_suffix('%') else {
        return Err(match hundredths(text) {
            // Nobody can tell whether 0.5 means a half or five in a thousand.
            Ok(..=100) if text.contains('.') => {
                format!("{text} has no percent sign: write 50% for a half, {text}% for {text} of a hundred")
            }
            Ok(_) => format!("{text} has no percent sign: write {text}%"),
            Err(_) => format!("{text:?} is not a percentage: write one such as 50% or 12.5%"),
        }
        .into());
    };
    match hundredths(number) {
        Ok(hundredths) => Ok(hundredths),
        Err(Decimal::None) => {
            Err(format!("{text:?} is not a percentage: write one such as 50% or 12.5%").into())
        }
        Err(Decimal::TooFine) => {
            Err(format!("{text} is finer than a hundredth of a percent: round it").into())
        }
    }
}

/// A list of words, each with its line.
pub(crate) fn words(node: &Node) -> Result<Vec<(String, usize)>, Unread> {
    match &node.content {
        Content::List(items) => {
            let word = |item: &Node| Ok((scalar(item, "a word")?.to_owned(), item.line));
            items.iter().map(word).collect()
        }
        Content::Refused => Err(Unread::Known),
        Content::Scalar(text) => Err(format!("{text:?} is not a list: write [{text}]").into()),
        Content::Nothing => {
            Err("nothing stands where a list belongs: write one, or leave it out".to_owned().into())
        }
        Content::Map(_) => {
            Err("a map stands where a list belongs: write one such as [http_429]".to_owned().into())
        }
    }
}

/// `local`, `allow` or `deny`.
pub(crate) fn on_disconnect(node: &Node) -> Result<OnDisconnect, Unread> {
    one_of(
        node,
        [("local", OnDisconnect::Local), ("allow", OnDisconnect::Allow), ("deny", OnDisconnect::Deny)],
    )
}

/// `instance`, `fleet` or `off`.
pub(crate) fn retry_after_scope(node: &Node) -> Result<RetryAfterScope, Unread> {
    one_of(
        node,
        [
            ("instance", RetryAfterScope::Instance),
            ("fleet", RetryAfterScope::Fleet),
            ("off", RetryAfterScope::Off),
        ],
    )
}

/// One of three words.
fn one_of<T: Copy>(node: &Node, known: [(&str, T); 3]) -> Result<T, Unread> {
    let [a, b, c] = known.map(|(word, _)| word);
    let text = scalar(node, &format!("one of {a}, {b}, {c}"))?;
    known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let remedy = match nearest(text, [a, b, c]) {
            Some(word) => format!("did you mean {word}?"),
            None => format!("write {a}, {b} or {c}"),
        };
        format!("{text:?} is none of {a}, {b}, {c}: {remedy}").into()
    })
}

/// Why a text is no decimal number of hundredths.
enum Decimal {
    None,
    TooFine,
}

/// `12`, `12.5` or `12.25` as hundredths; what is too large for that is the largest, which no range allows.
fn hundredths(text: &str) -> Result<u32, Decimal> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(part) {
        return Err(Decimal::None);
    }
    let part = part.trim_end_matches('0');
    if part.len() > 2 {
        return Err(Decimal::TooFine);
    }
    let part: u32 = format!("{part:0<2}").parse().unwrap_or(0);
    let whole: u32 = whole.parse().unwrap_or(u32::MAX);
    Ok(whole.saturating_mul(100).saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        Node { line: 1, content: Content::Scalar(text.into()) }
    }

    fn because<T: std::fmt::Debug>(result: Result<T, Unread>) -> String {
        match result {
            Err(Unread::Because(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_percentage_has_its_sign_and_two_decimals_at_most() {
        for (text, hundredths) in [
            ("50%", 5_000),
            ("12.5%", 1_250),
            ("0.01%", 1),
            ("100%", 10_000),
            ("0%", 0),
            ("07.50%", 750),
            ("101%", 10_100),
        ] {
            assert_eq!(percent(&node(text)), Ok(hundredths), "{text}");
        }
        for (text, part) in [
            ("50", "write 50%"),
            ("50 %", "is not a percentage"),
            ("-1%", "is not a percentage"),
            ("%", "is not a percentage"),
            ("half", "is not a percentage"),
            ("1.%", "is not a percentage"),
            ("33.333%", "finer than"),
            ("0.5", "write 50% for a half"),
            ("99999999999%", "out of range"),
            ("0%", "0% is out of range"),
            ("0.00%", "0.00% is out of range"),
            ("101%", "101% is out of range"),
        ] {
            let message = because(rate(&node(text)));
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn a_number_is_whole() {
        assert_eq!(number(&node("20")), Ok(20));
        for (text, part) in [
            ("-1", "not a whole number"),
            ("1.5", "not a whole number"),
            ("1_000", "not a whole number"),
            ("", "not a whole number"),
            ("many", "not a whole number"),
            ("4294967296", "out of range"),
        ] {
            let message = because(number(&node(text)));
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn a_factor_has_no_unit() {
        assert_eq!(
            [factor(&node("2")), factor(&node("1.5")), factor(&node("1.25"))],
            [Ok(200), Ok(150), Ok(125)]
        );
        for text in ["2x", "200%", "-2", "1.005", ""] {
            because(factor(&node(text)));
        }
    }

    #[test]
    fn a_wrong_kind_is_named() {
        let list = Node { line: 1, content: Content::List(Vec::new()) };
        assert_eq!(
            because(duration(&list)),
            "a list stands where a duration such as 10s belongs: write a duration such as 10s"
        );
        assert!(because(on_disconnect(&node("locale"))).contains("did you mean local?"));
        assert_eq!(because(words(&node("http_429"))), "\"http_429\" is not a list: write [http_429]");
    }
}
