//! Shipments are booked, now and then: 5 failures within 1 h, open for 30 s, 1 probe. The supplier takes 100 ms and
//! fails 30 %.

use std::time::Duration;

use panelboard_client::Breaker;
use shipping_quote::booking::{Booking, Bookings};
use shipping_quote::provider::{Answer, Behaviour};
use shipping_quote::upstream::UpstreamError;

use crate::stage::{Stage, down};

const OPEN: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_secs(60);

fn flaky() -> Behaviour {
    let fails_30_percent = Answer::Failing { percent: 30, status: 503, seed: None };
    Behaviour::answering(fails_30_percent).slow(Duration::from_millis(100))
}

async fn set() -> Stage {
    Stage::set("shipment-booking.yaml", "fulfilment/shipment-booking").await
}

/// Books until the breaker is OPEN, and gives what became of each booking.
async fn book_until_open(stage: &Stage) -> (Breaker, Bookings, Vec<Booking>) {
    let breaker = stage.join("office-1").await;
    let bookings = Bookings::new(breaker.clone(), stage.patient());
    stage.provider.switch(flaky());
    let mut made = Vec::new();
    // At 30 % the fifth failure is the seventeenth call.
    for order in 1..=17 {
        made.push(bookings.book(order).await);
    }
    stage.until_state("OPEN", &breaker).await;
    (breaker, bookings, made)
}

/// A booking that fails, by an office of its own.
async fn fail(stage: &Stage, office: &str) -> Breaker {
    let breaker = stage.join(office).await;
    let booking = Bookings::new(breaker.clone(), stage.patient()).book(1).await;
    assert!(matches!(booking, Booking::Failed { .. }), "{booking:?}");
    breaker
}

#[tokio::test]
async fn five_failures_among_any_number_of_good_bookings_open_it() {
    let stage = set().await;
    let (_, _, made) = book_until_open(&stage).await;
    let failed = made.iter().filter(|booking| matches!(booking, Booking::Failed { .. })).count();
    assert_eq!((failed, made.len()), (5, 17));
    assert_eq!(stage.requests(), 17);
}

#[tokio::test]
async fn temporarily_unavailable_and_failed_are_different_answers_and_neither_has_a_tracking_number() {
    let stage = set().await;
    let (_, bookings, made) = book_until_open(&stage).await;

    // A call was made, and its cause is told.
    let Booking::Failed { cause } = &made[16] else { panic!("{:?}", made[16]) };
    assert!(matches!(cause, UpstreamError::Status { status: 503, .. }), "{cause}");

    // No call is made, and it is told when there may be one.
    let Booking::TemporarilyUnavailable { retry_after } = bookings.book(18).await else {
        panic!("the breaker is open");
    };
    assert!(retry_after.is_some_and(|wait| wait <= OPEN), "{retry_after:?}");
    assert_eq!(stage.requests(), 17);

    // A tracking number exists exactly where there is a booking.
    let tracked = made.iter().filter_map(|booking| match booking {
        Booking::Booked { tracking } => Some(tracking.as_str()),
        Booking::TemporarilyUnavailable { .. } | Booking::Failed { .. } => None,
    });
    assert_eq!(tracked.count(), 12);
}

#[tokio::test]
async fn one_good_probe_closes_it() {
    let stage = set().await;
    let (breaker, bookings, _) = book_until_open(&stage).await;
    stage.advance(OPEN);
    stage.until_state("HALF_OPEN", &breaker).await;
    stage.provider.switch(Behaviour::good());
    assert_eq!(bookings.book(42).await, Booking::Booked { tracking: "TRACK-42".to_owned() });
    stage.until_state("CLOSED", &breaker).await;
}

#[tokio::test]
async fn five_failures_spread_over_an_hour_open_it() {
    let stage = set().await;
    stage.provider.switch(down());
    for office in 1..=4 {
        fail(&stage, &format!("office-{office}")).await;
        stage.counted(office, office).await;
        stage.advance(10 * MINUTE);
    }
    let breaker = fail(&stage, "office-5").await;
    stage.until_state("OPEN", &breaker).await;
}

#[tokio::test]
async fn five_failures_spread_over_more_than_an_hour_do_not() {
    let stage = set().await;
    stage.provider.switch(down());
    for office in 1..=4 {
        fail(&stage, &format!("office-{office}")).await;
        stage.counted(office, office).await;
        stage.advance(10 * MINUTE);
    }
    // The first of them is 65 minutes old by now.
    stage.advance(25 * MINUTE);
    fail(&stage, "office-5").await;
    stage.counted(4, 4).await;
    assert_eq!(stage.page().await["state"], "CLOSED");
}
