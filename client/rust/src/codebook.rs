//! A policy's classification, looked up by number: what a fact means costs a caller no text and no allocation.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use panelboard_core::{Cause, Classification, Fact, Outcome};
use panelboard_hotpath::{BOOKS, CAUSES_MAX};

use crate::fact::Said;

const HTTP: std::ops::RangeInclusive<u16> = 100..=599;
const HTTP_CODES: usize = 500;
const GRPC_CODES: u8 = 17;
/// Words that are causes by themselves, and how.
const WORDS: [&str; 8] =
    ["timeout", "connect", "dns", "tls", "reset", "malformed", "cancelled", "pool_exhausted"];

/// No cause.
pub(crate) const NO_CAUSE: u16 = 0;
/// Every word outside of the vocabulary.
pub(crate) const OTHER: u16 = 1;
const FIRST_HTTP: u16 = 2;
const FIRST_GRPC: u16 = FIRST_HTTP + HTTP_CODES as u16;
const FIRST_WORD: u16 = FIRST_GRPC + GRPC_CODES as u16;
/// From here on a number means something in one book only.
const FIRST_OWN: u16 = FIRST_WORD + WORDS.len() as u16;

/// What a fact means: its outcome, none if the permit is abandoned, and its cause by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) outcome: Option<Outcome>,
    pub(crate) cause: u16,
    /// The edition of the book that the number is of.
    pub(crate) edition: u8,
}

impl Code {
    /// A plain success.
    pub(crate) const SUCCESS: Self = Self { outcome: Some(Outcome::Success), cause: NO_CAUSE, edition: 0 };
    /// A permit that came back without an outcome.
    pub(crate) const ABANDONED: Self = Self { outcome: None, cause: NO_CAUSE, edition: 0 };
}

#[derive(Debug)]
pub(crate) struct CodeBook {
    edition: u8,
    /// What each number means as a fact.
    codes: Vec<(Outcome, u16)>,
    causes: Vec<Cause>,
    numbers: HashMap<Arc<str>, u16>,
}

impl CodeBook {
    /// The book of policies that classify by the defaults.
    pub(crate) fn plain() -> Arc<Self> {
        Arc::clone(Self::plainly())
    }

    /// The same, only to read in.
    pub(crate) fn plainly() -> &'static Arc<Self> {
        static PLAIN: OnceLock<Arc<CodeBook>> = OnceLock::new();
        PLAIN.get_or_init(|| Arc::new(Self::write(&Classification::default(), 0)))
    }

    /// The book of a classification. `edition` tells it from the one before it at the same breaker.
    pub(crate) fn of(classification: &Classification, edition: u8) -> Arc<Self> {
        if is_plain(classification) {
            return Self::plain();
        }
        Arc::new(Self::write(classification, edition))
    }

    fn write(by: &Classification, edition: u8) -> Self {
        let http = HTTP.map(|status| format!("http_{status}"));
        let grpc = (0..GRPC_CODES).map(|code| grpc_word(code).to_string());
        let own = [&by.failure, &by.ignored, &by.success].into_iter().flatten().cloned();
        let words = [String::new(), Cause::OTHER.into()].into_iter().chain(http).chain(grpc);
        let words = words.chain(WORDS.map(String::from)).chain(own);
        let mut book =
            Self { edition: edition % BOOKS, codes: Vec::new(), causes: Vec::new(), numbers: HashMap::new() };
        for word in words {
            let Ok(number) = u16::try_from(book.codes.len()) else { break };
            let (outcome, cause) = by.classify(Fact::Cause(&word));
            // Past what a lane can hold: as if it were outside of the vocabulary.
            let number = if number < CAUSES_MAX { number } else { OTHER };
            book.codes.push((outcome, if cause.is_some() { number } else { NO_CAUSE }));
            book.causes.push(by.cause(&word));
            book.numbers.entry(word.into()).or_insert(number);
        }
        book.numbers.remove("");
        book
    }

    /// What a caller said, in this policy's terms.
    pub(crate) fn code(&self, said: Said<'_>) -> Code {
        let judged = |outcome, cause| Code { outcome: Some(outcome), cause, edition: self.edition };
        match said {
            Said::Success => Code::SUCCESS,
            Said::Failure(word) => judged(Outcome::Failure, self.number(word)),
            Said::Ignored(word) => judged(Outcome::Ignored, word.map_or(NO_CAUSE, |word| self.number(word))),
            Said::Abandoned => Code::ABANDONED,
            Said::Fact(fact) => {
                let number = match fact {
                    Fact::HttpStatus(status) if HTTP.contains(&status) => FIRST_HTTP + status - HTTP.start(),
                    Fact::HttpStatus(_) => self.number("malformed"),
                    Fact::GrpcCode(code) => FIRST_GRPC + u16::from(if code < GRPC_CODES { code } else { 2 }),
                    Fact::TimedOut => self.number("timeout"),
                    Fact::Cause(word) => self.number(word),
                };
                let (outcome, cause) =
                    self.codes.get(usize::from(number)).copied().unwrap_or((Outcome::Failure, OTHER));
                judged(outcome, cause)
            }
        }
    }

    /// The cause of a number that was written by the book of this edition.
    pub(crate) fn cause(&self, number: u16, edition: u8) -> Option<Cause> {
        if number == NO_CAUSE {
            return None;
        }
        let is_ours = number < FIRST_OWN || edition == self.edition;
        let cause = self.causes.get(usize::from(number)).filter(|_| is_ours);
        cause.or_else(|| self.causes.get(usize::from(OTHER))).cloned()
    }

    fn number(&self, word: &str) -> u16 {
        self.numbers.get(word).copied().unwrap_or(OTHER)
    }
}

/// Whether it is the default one.
pub(crate) fn is_plain(classification: &Classification) -> bool {
    *classification == Classification::default()
}

/// The cause's word of a gRPC code.
fn grpc_word(code: u8) -> Cause {
    let (_, cause) = Classification::default().classify(Fact::GrpcCode(code));
    // OK is the only one without a cause.
    cause.unwrap_or_else(|| Classification::default().cause("grpc_ok"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Classification {
        Classification {
            failure: vec!["http_429".into(), "stock_lock".into()],
            ignored: vec!["grpc_internal".into(), "timeout".into()],
            success: vec!["http_404".into(), "cache_miss".into()],
        }
    }

    fn every_fact() -> Vec<Said<'static>> {
        let words = ["timeout", "dns", "stock_lock", "cache_miss", "http_503", "grpc_ok", "no_such_word", ""];
        let mut facts: Vec<_> = (0..=700).map(|status| Said::Fact(Fact::HttpStatus(status))).collect();
        facts.extend((0..=30).map(|code| Said::Fact(Fact::GrpcCode(code))));
        facts.extend(words.map(|word| Said::Fact(Fact::Cause(word))));
        facts.extend(words.map(Said::Failure));
        facts.extend(words.map(|word| Said::Ignored(Some(word))));
        facts.extend([Said::Fact(Fact::TimedOut), Said::Success, Said::Abandoned, Said::Ignored(None)]);
        facts
    }

    #[test]
    fn a_book_says_what_its_classification_says() {
        for classification in [Classification::default(), own()] {
            let book = CodeBook::of(&classification, 3);
            for said in every_fact() {
                let (outcome, cause) = said.classified(&classification);
                let code = book.code(said);
                assert_eq!(code.outcome, outcome, "{said:?}");
                assert_eq!(book.cause(code.cause, code.edition), cause, "{said:?}");
            }
        }
    }

    #[test]
    fn a_number_of_another_edition_is_not_taken_for_a_word_of_this_one() {
        let before = CodeBook::of(&own(), 1);
        let after = CodeBook::of(&Classification { ignored: vec!["other_word".into()], ..own() }, 2);
        let code = before.code(Said::Failure("stock_lock"));
        assert_eq!(after.cause(code.cause, code.edition).unwrap().as_str(), Cause::OTHER);
        let code = before.code(Said::Failure("dns"));
        assert_eq!(after.cause(code.cause, code.edition).unwrap().as_str(), "dns");
    }

    #[test]
    fn the_largest_vocabulary_fits() {
        let many = |list: &str| (0..panelboard_core::CAUSES_MAX).map(|n| format!("{list}_{n}")).collect();
        let classification =
            Classification { failure: many("failure"), ignored: many("ignored"), success: many("success") };
        let book = CodeBook::of(&classification, 1);
        assert!(book.causes.len() < usize::from(CAUSES_MAX));
    }
}
