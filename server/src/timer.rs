//! One timer for all breakers: the earliest deadline of all. A breaker checks its deadline in every call too, so a
//! late timer is never wrong, only late.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use panelboard_core::{BreakerName, Timestamp};
use tokio::sync::Notify;

use crate::clock::Clock;

/// The deadlines of all breakers: one for each that has any.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    deadlines: Mutex<BTreeSet<(Timestamp, BreakerName)>>,
    wake: Notify,
}

impl Timer {
    /// Arms the timer for a breaker, instead of for the later deadline that it was armed for `before`.
    pub(crate) fn arm(&self, at: Timestamp, name: BreakerName, before: Option<Timestamp>) {
        let is_first = {
            let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
            let first = deadlines.first().map(|(first, _)| *first);
            let entry = (before.unwrap_or(at), name);
            deadlines.remove(&entry);
            deadlines.insert((at, entry.1));
            first.is_none_or(|first| at < first)
        };
        if is_first {
            self.wake.notify_one();
        }
    }

    /// Waits until a deadline has come and takes all that have. For one task.
    pub(crate) async fn due(&self, clock: &Clock) -> Vec<(Timestamp, BreakerName)> {
        loop {
            let (due, next) = self.take(clock.now());
            if !due.is_empty() {
                return due;
            }
            let until_next = async {
                match next {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until_next => {}
                () = self.wake.notified() => {}
            }
        }
    }

    /// Takes all deadlines that have come, and says when the next one does.
    pub(crate) fn take(&self, now: Timestamp) -> (Vec<(Timestamp, BreakerName)>, Option<Timestamp>) {
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while let Some((at, _)) = deadlines.first() {
            if *at > now {
                return (due, Some(*at));
            }
            due.extend(deadlines.pop_first());
        }
        (due, None)
    }

    /// How many deadlines it holds.
    #[cfg(test)]
    pub(crate) fn armed(&self) -> usize {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn deadlines_come_in_order_and_an_earlier_one_wakes_the_timer() {
        let (clock, timer) = (Clock::manual(), Timer::default());
        let name = |text| BreakerName::parse(text).unwrap();
        timer.arm(Timestamp::from_millis(500), name("late"), None);
        let due = async { timer.due(&clock).await };
        let drive = async {
            tokio::task::yield_now().await;
            timer.arm(Timestamp::from_millis(100), name("early"), None);
            clock.advance(Duration::from_millis(100));
        };
        let (due, ()) = tokio::join!(due, drive);
        assert_eq!(due, [(Timestamp::from_millis(100), name("early"))]);
        clock.advance(Duration::from_secs(1));
        assert_eq!(timer.due(&clock).await, [(Timestamp::from_millis(500), name("late"))]);
    }
}
