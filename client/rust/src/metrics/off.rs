//! Without the feature: nothing.

use panelboard_core::{Outcomes, Timestamp};
use panelboard_hotpath::Word;

use super::Flush;
use crate::{fallbacks::Missed, rejected::Rejected, state::Freshness};

#[derive(Debug)]
pub(crate) struct BreakerMeter;

impl BreakerMeter {
    #[inline]
    pub(crate) const fn new(_name: &'static str) -> Self {
        Self
    }

    #[inline]
    pub(crate) const fn shows(&self, _: Word) {}

    #[inline]
    pub(crate) const fn knows(&self, _: Freshness, _unknown: bool, _oldest_probe: Option<Timestamp>) {}

    #[inline]
    pub(crate) const fn collected(&self, _: Outcomes) {}

    #[inline]
    pub(crate) const fn admitted(&self) {}

    #[inline]
    pub(crate) const fn turned_away(&self, _: &Rejected) {}

    #[inline]
    pub(crate) const fn answered(&self) {}

    #[inline]
    pub(crate) const fn ages(&self, _now: Timestamp) {}
}

#[derive(Debug, Default)]
pub(crate) struct FallbackMeter;

impl FallbackMeter {
    #[inline]
    pub(crate) const fn new(_name: &str) -> Self {
        Self
    }

    #[inline]
    pub(crate) const fn fell_back(&self, _: Missed) {}
}

#[derive(Debug)]
pub(crate) struct AgentMeter;

impl AgentMeter {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline]
    pub(crate) const fn flushed(&self, _: Flush) {}

    #[inline]
    pub(crate) const fn opens(&self, _attempts: u32) {}
}
