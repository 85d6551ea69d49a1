//! What a shipping quote is, and what is not one.
//!
//! Nothing here knows of HTTP or of breakers. The rule that matters: an unavailable quote has *no* price, not a
//! price of zero, and no code path can read one out of it.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// What the customer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// The provider named this price, just now.
    Live(Price),
    /// There is no price at the moment.
    Unavailable,
}

/// A price that a provider named. Zero is a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The amount in hundredths of the currency.
    pub cents: u64,
    /// The currency of the amount.
    pub currency: Currency,
}

/// The currencies this shop sells in: one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Currency {
    /// The euro.
    Eur,
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Currency::Eur => f.write_str("EUR"),
        }
    }
}

/// A postcode of five digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postcode(String);

impl Postcode {
    /// The five digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Postcode {
    type Err = BadPostcode;

    fn from_str(text: &str) -> Result<Self, BadPostcode> {
        if text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Postcode(text.to_owned()));
        }
        // The text is hostile and is shown to people: it is cut short here.
        Err(BadPostcode { given: text.chars().take(20).collect() })
    }
}

/// A text that is no postcode. The caller's mistake: the provider is never asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("postcode {given:?} is not five digits: give one like 12345")]
pub struct BadPostcode {
    /// The beginning of what was given.
    pub given: String,
}

/// An answer of the provider that looks like success and is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The body is not the JSON object that was agreed on.
    #[error("the answer is not a JSON object with text fields")]
    NotJson,
    /// There is no amount.
    #[error("the answer has no amount")]
    MissingPrice,
    /// The amount is below zero.
    #[error("the amount {0:?} is negative")]
    NegativePrice(String),
    /// The amount is no decimal number with at most two places.
    #[error("the amount {0:?} is not a decimal number with at most two places")]
    InvalidPrice(String),
    /// There is no currency.
    #[error("the answer has no currency")]
    MissingCurrency,
    /// The currency is not ours.
    #[error("the currency {0:?} is not EUR")]
    WrongCurrency(String),
}

/// Reads the provider's answer, `{"amount": "12.34", "currency": "EUR"}`.
pub fn parse_answer(body: &[u8]) -> Result<Price, Malformed> {
    #[derive(Deserialize)]
    struct Answer {
        amount: Option<String>,
        currency: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(body).map_err(|_| Malformed::NotJson)?;
    let cents = parse_cents(&answer.amount.ok_or(Malformed::MissingPrice)?)?;
    match answer.currency {
        Some(currency) if currency == "EUR" => Ok(Price { cents, currency: Currency::Eur }),
        Some(currency) => Err(Malformed::WrongCurrency(shortened(&currency))),
        None => Err(Malformed::MissingCurrency),
    }
}

/// Reads a decimal amount exactly: money never passes through a float.
fn parse_cents(amount: &str) -> Result<u64, Malformed> {
    let invalid = || Malformed::InvalidPrice(shortened(amount));
    let (negative, digits) = match amount.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, amount),
    };
    let (whole, places) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(places) || places.len() > 2 {
        return Err(invalid());
    }
    if negative {
        return Err(Malformed::NegativePrice(shortened(amount)));
    }
    let whole: u64 = whole.parse().map_err(|_| invalid())?;
    let cents: u64 = format!("{places:0<2}").parse().map_err(|_| invalid())?;
    whole.checked_mul(100).and_then(|whole| whole.checked_add(cents)).ok_or_else(invalid)
}

/// What came from outside is quoted in errors, but never at length.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(amount: &str, expected: Result<u64, Malformed>) {
        let body = serde_json::json!({ "amount": amount, "currency": "EUR" }).to_string();
        let price = expected.map(|cents| Price { cents, currency: Currency::Eur });
        assert_eq!(parse_answer(body.as_bytes()), price, "{amount}");
    }

    #[test]
    fn amounts_are_read_exactly() {
        check("12.34", Ok(1234));
        check("12.3", Ok(1230));
        check("12", Ok(1200));
        check("0.07", Ok(7));
        check("0.00", Ok(0));
        check("184467440737095516.15", Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_amount_is_malformed() {
        for text in ["", ".", "1.", ".5", "1.234", "1,20", "+1", "1e3", "NaN", "--1", "184467440737095516.16"]
        {
            check(text, Err(Malformed::InvalidPrice(text.to_owned())));
        }
        for text in ["-1", "-0.01", "-0"] {
            check(text, Err(Malformed::NegativePrice(text.to_owned())));
        }
    }

    #[test]
    fn missing_and_wrong_fields_are_told_apart() {
        let parse = |body: &str| parse_answer(body.as_bytes());
        assert_eq!(parse(r#"{"currency":"EUR"}"#), Err(Malformed::MissingPrice));
        assert_eq!(parse(r#"{"amount":null,"currency":"EUR"}"#), Err(Malformed::MissingPrice));
        assert_eq!(parse(r#"{"amount":"1.00"}"#), Err(Malformed::MissingCurrency));
        assert_eq!(
            parse(r#"{"amount":"1.00","currency":"USD"}"#),
            Err(Malformed::WrongCurrency("USD".to_owned()))
        );
        for body in ["", "null", "[]", "12", r#"{"amount":12.34,"currency":"EUR"}"#, "<html>"] {
            assert_eq!(parse(body), Err(Malformed::NotJson), "{body}");
        }
    }

    #[test]
    fn a_postcode_is_five_ascii_digits() {
        assert!("12345".parse::<Postcode>().is_ok());
        for text in ["", "1234", "123456", "1234a", " 1234", "12345\n", "１２３４５", "12-45"] {
            assert!(text.parse::<Postcode>().is_err(), "{text:?}");
        }
        let long = "9".repeat(10_000).parse::<Postcode>().unwrap_err();
        assert_eq!(long.given.len(), 20);
    }
}
