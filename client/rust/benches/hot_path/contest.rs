//! Nanoseconds per call, all contestants taking turns.

use std::hint::black_box;

use crate::{
    goals::{Goal, Goals, Outcome},
    measure::{Expected, Side, rounds},
    ours::{Caller, Ours},
    peers,
    plan::Plan,
    spread::{Spread, figure},
};

/// The sides, by their place in the rounds.
#[derive(Clone, Copy)]
enum Seat {
    Ours,
    OursTogether,
    OursTimed,
    OursOpen,
    Recloser,
    RecloserTogether,
    RecloserOpen,
    Failsafe,
    FailsafeOpen,
    CircuitbreakerRs,
    CircuitbreakerRsOpen,
    Tower,
    TowerOpen,
}

pub(crate) fn run(ours: &Ours, plan: Plan, goals: &mut Goals) -> Result<(), String> {
    // The allocator counts for another goal; here it is not to cost those who allocate.
    let mut result = Ok(Vec::new());
    allocation_counter::opt_out(|| result = figures(ours, plan));
    judge(&result?, goals);
    Ok(())
}

fn figures(ours: &Ours, plan: Plan) -> Result<Vec<Vec<f64>>, String> {
    use Expected::{Admitted, Rejected};
    let (recloser, recloser_open) = (peers::recloser::standard(), peers::recloser::strict());
    let (failsafe, failsafe_open) = (peers::failsafe::standard(), peers::failsafe::strict());
    let (timing, timing_open) = (peers::circuitbreaker_rs::standard(), peers::circuitbreaker_rs::strict());
    // In the order of the seats.
    let mut sides = [
        Side::alone(Caller(&ours.plain), Admitted),
        Side::together(|| Caller(&ours.plain)),
        Side::alone(Caller(&ours.timed), Admitted),
        Side::alone(Caller(&ours.open), Rejected),
        Side::alone(&recloser, Admitted),
        Side::together(|| &recloser),
        Side::alone(peers::opened(&recloser_open), Rejected),
        Side::alone(&failsafe, Admitted),
        Side::alone(peers::opened(&failsafe_open), Rejected),
        Side::alone(&timing, Admitted),
        Side::alone(peers::opened(&timing_open), Rejected),
        Side::alone(peers::tower_resilience::standard(), Admitted),
        Side::alone(peers::opened(peers::tower_resilience::strict()), Rejected),
    ];
    rounds(&mut sides, plan, || ours.is_fresh())?;
    Ok(sides.into_iter().map(|side| black_box(side.figures)).collect())
}

fn judge(figures: &[Vec<f64>], goals: &mut Goals) {
    let of = |seat: Seat| figures[seat as usize].as_slice();
    let median = |seat| Spread::of(of(seat)).median;
    let ns = |seat| format!("{} ns", figure(median(seat)));
    let duel = |name, ours: Seat, theirs: Seat, goal| {
        let ratio = Spread::of_ratios(of(theirs), of(ours));
        Goal { name, outcome: Outcome::Ratio { ours: ns(ours), theirs: ns(theirs), ratio, goal } }
    };
    goals.add(duel("recloser / ours, closed, 1 thread", Seat::Ours, Seat::Recloser, 5.0));
    goals.add(duel(
        "recloser / ours, closed, 2 threads sharing",
        Seat::OursTogether,
        Seat::RecloserTogether,
        60.0,
    ));
    goals.add(duel("failsafe (default policy) / ours, closed, 1 thread", Seat::Ours, Seat::Failsafe, 45.0));
    goals.add(Goal {
        name: "tower-resilience / ours, Layer against Layer",
        outcome: Outcome::LeftOut { why: "no Layer yet", goal: 3.0 },
    });
    goals.add(duel("tower-resilience's Service / our bare path", Seat::Ours, Seat::Tower, 120.0));
    goals.add(Goal {
        name: "ours, throughput of 2 threads / 1 thread",
        outcome: Outcome::Ratio {
            ours: ns(Seat::OursTogether),
            theirs: format!("ours alone {}", ns(Seat::Ours)),
            ratio: Spread::of_ratios(of(Seat::Ours), of(Seat::OursTogether)),
            goal: 1.8,
        },
    });
    let (fastest, its_name) = [
        (Seat::RecloserOpen, "recloser"),
        (Seat::FailsafeOpen, "failsafe"),
        (Seat::CircuitbreakerRsOpen, "circuitbreaker-rs"),
        (Seat::TowerOpen, "tower-resilience"),
    ]
    .into_iter()
    .min_by(|(a, _), (b, _)| median(*a).total_cmp(&median(*b)))
    .expect("there are four");
    goals.add(Goal {
        name: "open rejection with its retry_after: fastest peer / ours",
        outcome: Outcome::Ratio {
            ours: ns(Seat::OursOpen),
            theirs: format!("{} ({its_name})", ns(fastest)),
            ratio: Spread::of_ratios(of(fastest), of(Seat::OursOpen)),
            goal: 12.0,
        },
    });
    goals.add(duel(
        "every call timed: circuitbreaker-rs / ours",
        Seat::OursTimed,
        Seat::CircuitbreakerRs,
        4.0,
    ));
}
