//! All lanes of one breaker.

use std::sync::OnceLock;

use crate::{
    lane::Lane,
    thread::{THREADS_MAX, lanes_given},
};

/// Lanes come in groups, the first time that a thread of the group needs one.
const GROUP: usize = 8;
const GROUPS: usize = THREADS_MAX / GROUP;

type Group = OnceLock<Box<[Lane; GROUP]>>;

/// The lanes of one breaker, one per thread.
#[derive(Debug)]
pub struct Lanes {
    groups: Box<[Group]>,
}

impl Lanes {
    /// None is there yet.
    pub fn new() -> Self {
        Self { groups: (0..GROUPS).map(|_| OnceLock::new()).collect() }
    }

    /// The lane of a thread's number, below [`THREADS_MAX`]. Allocates if its group is not there yet.
    #[inline]
    pub fn lane(&self, number: usize) -> Option<&Lane> {
        let group = self.groups.get(number / GROUP)?;
        let lanes = match group.get() {
            Some(lanes) => lanes.as_ref(),
            None => make(group),
        };
        Some(&lanes[number % GROUP])
    }

    /// Those that are there, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Lane)> {
        let groups = lanes_given().div_ceil(GROUP);
        self.groups.iter().take(groups).enumerate().filter_map(|(n, group)| Some((n, group.get()?))).flat_map(
            |(n, lanes)| lanes.iter().enumerate().map(move |(place, lane)| (n * GROUP + place, lane)),
        )
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

#[cold]
#[inline(never)]
fn make(group: &Group) -> &[Lane; GROUP] {
    group.get_or_init(|| Box::new(std::array::from_fn(|_| Lane::new())))
}
