//! Durations as people write them: `500ms`, `1.5s`, `2m`, `1h`, `7d`.
//!
//! One grammar for flags, environment, configuration file and policies: a decimal number and one unit, nothing
//! between them. The arithmetic is on whole milliseconds, so that what is printed reads back as the same value.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The units, longest first, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Ten years. Adding more than that to a clock's reading could overflow it, and no wait of ours is that long.
const MAX: Duration = Duration::from_secs(3_650 * 86_400);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    /// There is no text.
    Empty,
    /// It does not begin with a decimal number.
    NotANumber {
        /// What was written.
        text: String,
    },
    /// There is a minus sign.
    Negative {
        /// What was written.
        text: String,
    },
    /// A number alone.
    NoUnit {
        /// What was written.
        text: String,
    },
    /// Something other than one unit behind the number.
    UnknownUnit {
        /// What was written.
        text: String,
        /// What stood where the unit belongs.
        unit: String,
        /// The number with the unit that was probably meant.
        hint: String,
    },
    /// Finer than a millisecond.
    TooFine {
        /// What was written.
        text: String,
    },
    /// Longer than any wait may be.
    TooLong {
        /// What was written.
        text: String,
    },
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an empty duration: write a number and a unit, such as 10s"),
            Self::NotANumber { text } => {
                write!(f, "{text:?} is not a duration: write a number and a unit, such as 10s or 1.5s")
            }
            Self::Negative { text } => write!(f, "{text:?} is negative: a duration is zero or more"),
            Self::NoUnit { text } => {
                write!(f, "{text:?} has no unit: write {text}s for seconds or {text}ms for milliseconds")
            }
            Self::UnknownUnit { text, unit, hint } => write!(
                f,
                "{text:?} has the unknown unit {unit:?}: one of ms, s, m, h, d belongs right behind the number, as \
                 in {hint}"
            ),
            Self::TooFine { text } => write!(f, "{text:?} is not a whole number of milliseconds"),
            Self::TooLong { text } => write!(f, "{text:?} is too long: the longest duration is 3650d"),
        }
    }
}

impl Error for DurationError {}

/// Reads a duration.
///
/// # Errors
/// What is wrong with the text, and the remedy.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let owned = || text.to_owned();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text.starts_with('-') {
        return Err(DurationError::Negative { text: owned() });
    }
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return Err(DurationError::NotANumber { text: owned() });
    }
    if unit.is_empty() {
        return Err(DurationError::NoUnit { text: owned() });
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let hint = format!("{number}{}", meant_unit(unit));
        return Err(DurationError::UnknownUnit { text: owned(), unit: unit.to_owned(), hint });
    };
    let whole_ms = whole
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(*unit_ms))
        .ok_or(DurationError::TooLong { text: owned() })?;
    let fraction_ms = fraction_ms(fraction, *unit_ms).ok_or(DurationError::TooFine { text: owned() })?;
    let total = Duration::from_millis(whole_ms.saturating_add(fraction_ms));
    if total > MAX {
        return Err(DurationError::TooLong { text: owned() });
    }
    Ok(total)
}

/// Writes a duration so that [`parse`] reads the same milliseconds back; what is finer is cut off.
pub fn format(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".to_owned();
    }
    match UNITS.iter().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms)) {
        Some((unit, unit_ms)) if *unit != "ms" => format!("{}{unit}", ms / unit_ms),
        _ if ms < 1_000 => format!("{ms}ms"),
        _ => {
            let fraction = format!("{:03}", ms % 1_000);
            format!("{}.{}s", ms / 1_000, fraction.trim_end_matches('0'))
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `0.fraction` of a unit, if that is a whole number of milliseconds.
fn fraction_ms(fraction: &str, unit_ms: u64) -> Option<u64> {
    let digits = fraction.trim_end_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    // A day is 86,400,000 ms = 2^10 × 3^3 × 5^5 × 1 ms: a whole number of milliseconds never needs more digits.
    let scale = u32::try_from(digits.len()).ok().filter(|n| *n <= 10).map(|n| 10u64.pow(n))?;
    let scaled = digits.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    scaled.is_multiple_of(scale).then(|| scaled / scale)
}

/// The unit somebody probably meant.
fn meant_unit(unit: &str) -> &'static str {
    let lower = unit.trim().to_ascii_lowercase();
    if ["ms", "mil", "mic", "n", "u", "µ"].iter().any(|start| lower.starts_with(start)) {
        return "ms";
    }
    UNITS.iter().map(|(name, _)| *name).find(|name| lower.starts_with(name)).unwrap_or("s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, ms: u64) {
        assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
    }

    fn check_refused(text: &str, message: &str) {
        assert_eq!(parse(text).map_err(|err| err.to_string()), Err(message.to_owned()));
    }

    #[test]
    fn a_number_and_a_unit() {
        check("0s", 0);
        check("1ms", 1);
        check("500ms", 500);
        check("10s", 10_000);
        check("2m", 120_000);
        check("1h", 3_600_000);
        check("7d", 604_800_000);
        check("007s", 7_000);
        check("3650d", 315_360_000_000);
    }

    #[test]
    fn decimals_as_long_as_milliseconds_are_whole() {
        check("1.5s", 1_500);
        check("0.001s", 1);
        check("1.50s", 1_500);
        check("0.1m", 6_000);
        check("0.25h", 900_000);
        check("1.0ms", 1);
        check("0.00003125d", 2_700);
    }

    #[test]
    fn refusals_name_the_value_and_the_remedy() {
        check_refused("", "an empty duration: write a number and a unit, such as 10s");
        check_refused("10", r#""10" has no unit: write 10s for seconds or 10ms for milliseconds"#);
        check_refused("-5s", r#""-5s" is negative: a duration is zero or more"#);
        check_refused("fast", r#""fast" is not a duration: write a number and a unit, such as 10s or 1.5s"#);
        check_refused(".5s", r#"".5s" is not a duration: write a number and a unit, such as 10s or 1.5s"#);
        check_refused("5.s", r#""5.s" is not a duration: write a number and a unit, such as 10s or 1.5s"#);
        check_refused(
            "1.2.3s",
            r#""1.2.3s" is not a duration: write a number and a unit, such as 10s or 1.5s"#,
        );
        check_refused("0.5ms", r#""0.5ms" is not a whole number of milliseconds"#);
        check_refused("1.00001s", r#""1.00001s" is not a whole number of milliseconds"#);
        check_refused("3651d", r#""3651d" is too long: the longest duration is 3650d"#);
        check_refused(
            "99999999999999999999s",
            r#""99999999999999999999s" is too long: the longest duration is 3650d"#,
        );
        check_refused(
            "18446744073709551615h",
            r#""18446744073709551615h" is too long: the longest duration is 3650d"#,
        );
    }

    #[test]
    fn a_wrong_unit_gets_the_one_that_was_meant() {
        for (text, hint) in [
            ("10sec", "10s"),
            ("10 s", "10s"),
            ("10S", "10s"),
            ("3min", "3m"),
            ("3millis", "3ms"),
            ("2hours", "2h"),
            ("7days", "7d"),
            ("1h30m", "1h"),
            ("5µs", "5ms"),
        ] {
            let Err(DurationError::UnknownUnit { hint: found, .. }) = parse(text) else {
                panic!("{text} was read")
            };
            assert_eq!(found, hint, "{text}");
        }
    }

    #[test]
    fn printed_in_the_largest_unit_that_divides_it() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_500, "1.5s"),
            (1_001, "1.001s"),
            (90_000, "90s"),
            (60_000, "1m"),
            (86_400_000, "1d"),
            (604_800_000, "7d"),
        ] {
            assert_eq!(format(Duration::from_millis(ms)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(ms in 0u64..=315_360_000_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9.]{1,30}(ms|s|m|h|d)?") {
            let _ = parse(&text);
        }
    }
}
