//! The nameplate of a breaker: its name, and the sentences that lately explained why it rejects.
//!
//! A rejection costs no allocation and no reference count, and yet can be kept, sent and shown later: it points to the
//! plate of its breaker's name, which is never taken down. There are as many plates as a process has distinct names of
//! breakers, and at most [`PLATES_MAX`].

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::limits::{PLATES_MAX, SENTENCES_KEPT};

/// Stands for all names past a limit.
pub(crate) const NAMELESS: &str = "(one of too many)";

#[derive(Debug)]
pub(crate) struct Plate {
    name: Box<str>,
    sentences: Mutex<Sentences>,
}

#[derive(Debug, Default)]
struct Sentences {
    /// The newest last.
    kept: VecDeque<Arc<str>>,
    /// The number of the newest.
    newest: u8,
}

impl Plate {
    /// The plate of a name.
    pub(crate) fn of(name: &str) -> &'static Self {
        static PLATES: Mutex<Option<HashMap<&'static str, &'static Plate>>> = Mutex::new(None);
        let mut plates = lock(&PLATES);
        let plates = plates.get_or_insert_default();
        if let Some(plate) = plates.get(name) {
            return plate;
        }
        if plates.len() >= PLATES_MAX {
            static OTHERS: OnceLock<Plate> = OnceLock::new();
            return OTHERS.get_or_init(|| Self::new(NAMELESS));
        }
        let plate: &'static Self = Box::leak(Box::new(Self::new(name)));
        plates.insert(&plate.name, plate);
        plate
    }

    fn new(name: &str) -> Self {
        Self { name: name.into(), sentences: Mutex::default() }
    }

    pub(crate) fn name(&'static self) -> &'static str {
        &self.name
    }

    /// Puts a sentence up. Returns its number, which is 0 for an empty one.
    pub(crate) fn put(&self, sentence: &Arc<str>) -> u8 {
        if sentence.is_empty() {
            return 0;
        }
        let mut sentences = lock(&self.sentences);
        if sentences.kept.back() != Some(sentence) {
            if sentences.kept.len() >= SENTENCES_KEPT {
                sentences.kept.pop_front();
            }
            sentences.kept.push_back(Arc::clone(sentence));
            sentences.newest = sentences.newest % u8::MAX + 1;
        }
        sentences.newest
    }

    /// The sentence of a number; empty if it was too long ago.
    pub(crate) fn sentence(&self, number: u8) -> Arc<str> {
        if number == 0 {
            return "".into();
        }
        let sentences = lock(&self.sentences);
        let newest = sentences.newest;
        // From 1 to 255, and on from 1.
        let age = usize::from(if newest >= number { newest - number } else { newest + (u8::MAX - number) });
        let place = sentences.kept.len().checked_sub(1 + age);
        place.and_then(|place| sentences.kept.get(place)).cloned().unwrap_or_else(|| "".into())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_one_plate() {
        assert!(std::ptr::eq(Plate::of("plate/a"), Plate::of("plate/a")));
        assert_eq!((Plate::of("plate/a").name(), Plate::of("plate/b").name()), ("plate/a", "plate/b"));
    }

    #[test]
    fn a_sentence_is_found_by_its_number_for_a_while() {
        let plate = Plate::new("x");
        let put = |n: usize| plate.put(&format!("sentence {n}").into());
        let first = put(0);
        assert_eq!(put(0), first, "the same again");
        let numbers: Vec<u8> = (1..1_000).map(put).collect();
        assert_eq!(&*plate.sentence(numbers[998]), "sentence 999");
        assert_eq!(
            &*plate.sentence(numbers[998 - SENTENCES_KEPT + 1]),
            format!("sentence {}", 1_000 - SENTENCES_KEPT)
        );
        assert_eq!(&*plate.sentence(numbers[998 - SENTENCES_KEPT]), "");
    }
}
