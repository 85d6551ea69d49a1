//! The calls that a process of the demo makes by itself: one customer after the other, at a steady rate.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::desk::Desk;

/// Customers who wait at the same time; more than these are not let in.
const WAITING_MAX: usize = 256;

/// Asks for `rate` quotes a second until it is dropped. The calls do not wait for each other, as customers do not.
pub async fn run(desk: Arc<Desk>, rate: u32, instance: &str) {
    if rate == 0 {
        return std::future::pending().await;
    }
    let period = Duration::from_secs(1) / rate;
    let mut customers = interval_at(Instant::now() + period.mul_f64(phase(instance)), period);
    customers.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    loop {
        customers.tick().await;
        let Ok(place) = Arc::clone(&waiting).try_acquire_owned() else { continue };
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            // What came of it is in the desk's counts.
            _ = desk.quote("12345").await;
            drop(place);
        });
    }
}

/// Where in its period an instance starts: a fleet that calls in step would be a poor fleet to learn from.
fn phase(instance: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    instance.hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}
