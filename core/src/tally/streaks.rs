//! The streaks of all instances by length, so that the longest is at hand without walking over the instances.

use std::collections::BTreeMap;

/// How many instances are in a streak of which length. Those in none are not in here.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByLength(BTreeMap<u64, usize>);

impl ByLength {
    /// An instance's streak went from one length to another; zero is none.
    pub(crate) fn moved(&mut self, from: u64, to: u64) {
        if from == to {
            return;
        }
        if let Some(instances) = self.0.get_mut(&from) {
            *instances -= 1;
            if *instances == 0 {
                self.0.remove(&from);
            }
        }
        if to > 0 {
            *self.0.entry(to).or_default() += 1;
        }
    }

    /// The longest streak that an instance is in.
    pub(crate) fn longest(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(length, _)| *length)
    }
}
