//! The streaks of all instances by length, so that the longest is at hand without walking over the instances, and the
//! number of those that reach a rule's threshold without walking over the lengths.

use std::collections::BTreeMap;

use crate::policy::{Policy, Rule};

/// How many instances are in a streak of which length. Those in none are not in here.
#[derive(Clone, Debug)]
pub(crate) struct ByLength {
    lengths: BTreeMap<u64, usize>,
    /// Thresholds of rules, and how many instances reach each.
    reaching: Vec<(u64, u32)>,
}

impl ByLength {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self { lengths: BTreeMap::new(), reaching: thresholds(policy).map(|least| (least, 0)).collect() }
    }

    /// The same streaks under the rules of another policy.
    pub(crate) fn fit(&mut self, policy: &Policy) {
        let reaching = |least: u64| self.lengths.range(least..).map(|(_, n)| *n).sum::<usize>();
        let counted =
            thresholds(policy).map(|least| (least, u32::try_from(reaching(least)).unwrap_or(u32::MAX)));
        self.reaching = counted.collect();
    }

    /// An instance's streak went from one length to another; zero is none.
    pub(crate) fn moved(&mut self, from: u64, to: u64) {
        if from == to {
            return;
        }
        for (least, instances) in &mut self.reaching {
            match (from >= *least, to >= *least) {
                (true, false) => *instances = instances.saturating_sub(1),
                (false, true) => *instances = instances.saturating_add(1),
                _ => {}
            }
        }
        if let Some(instances) = self.lengths.get_mut(&from) {
            *instances -= 1;
            if *instances == 0 {
                self.lengths.remove(&from);
            }
        }
        if to > 0 {
            *self.lengths.entry(to).or_default() += 1;
        }
    }

    /// The longest streak that an instance is in.
    pub(crate) fn longest(&self) -> u64 {
        self.lengths.last_key_value().map_or(0, |(length, _)| *length)
    }

    /// Instances in a streak of at least so many failures, which is the threshold of a rule.
    pub(crate) fn reaching(&self, threshold: u64) -> u32 {
        self.reaching.iter().find(|(least, _)| *least == threshold).map_or(0, |(_, instances)| *instances)
    }
}

fn thresholds(policy: &Policy) -> impl Iterator<Item = u64> + '_ {
    policy.spec().trip.iter().filter_map(|rule| match rule {
        Rule::ConsecutiveFailures { threshold } => Some(u64::from(*threshold)),
        _ => None,
    })
}
