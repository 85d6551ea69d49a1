//! All lanes of one breaker.

use std::sync::OnceLock;

use crate::{
    lane::Lane,
    thread::{THREADS_MAX, UNKNOWN, lanes_given, number_of_this_thread, take},
};

/// Lanes come in groups: the first one with the breaker, the others the first time that one of their threads needs it.
const GROUP: usize = 8;
const GROUPS: usize = THREADS_MAX / GROUP;

type Group = [Lane; GROUP];

/// The lanes of one breaker, one per thread.
#[derive(Debug)]
pub struct Lanes {
    first: Group,
    others: Box<[OnceLock<Box<Group>>]>,
}

impl Lanes {
    /// Nothing is counted yet.
    pub fn new() -> Self {
        Self { first: group(), others: (1..GROUPS).map(|_| OnceLock::new()).collect() }
    }

    /// The lane of this thread; none if too many threads have one, or if this one is at its end.
    #[inline]
    pub fn mine(&self) -> Option<&Lane> {
        let number = number_of_this_thread();
        match self.first.get(number) {
            Some(lane) => Some(lane),
            None => self.of_another_group(number),
        }
    }

    #[inline(never)]
    fn of_another_group(&self, number: usize) -> Option<&Lane> {
        let number = if number == UNKNOWN { take()? } else { number };
        if let Some(lane) = self.first.get(number) {
            return Some(lane);
        }
        let others = self.others.get(number / GROUP - 1)?;
        Some(&others.get_or_init(|| Box::new(group()))[number % GROUP])
    }

    /// Those that are there, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Lane)> {
        let given = lanes_given();
        let others = self.others.iter().take(given.div_ceil(GROUP).saturating_sub(1));
        let others = others.enumerate().filter_map(|(n, group)| Some((n + 1, &**group.get()?)));
        std::iter::once((0, &self.first))
            .chain(others)
            .flat_map(|(n, lanes)| {
                lanes.iter().enumerate().map(move |(place, lane)| (n * GROUP + place, lane))
            })
            .take_while(move |(number, _)| *number < given)
    }

    /// Changes with everything that is counted in any of them.
    pub fn stamp(&self) -> u64 {
        self.iter().fold(0, |stamp, (_, lane)| stamp.rotate_left(9).wrapping_add(lane.stamp()))
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self::new()
    }
}

fn group() -> Group {
    std::array::from_fn(|_| Lane::new())
}
