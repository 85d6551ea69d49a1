//! Nanoseconds per call, all contestants taking turns.

use crate::{
    goals::{Goal, Goals, Outcome},
    measure::{Expected, Side, rounds},
    ours::{Caller, Ours, layered},
    peers,
    plan::Plan,
    seat::Seat,
    spread::{Spread, figure},
};

/// Nanoseconds per call, one figure per round.
struct Figures(Vec<(Seat, Vec<f64>)>);

/// Adds the goals and returns the table of costs.
pub(crate) fn run(ours: &Ours, plan: Plan, goals: &mut Goals) -> Result<String, String> {
    // The allocator counts for another goal; here it is not to cost those who allocate.
    let mut result = Err(String::new());
    allocation_counter::opt_out(|| result = measured(ours, plan));
    let figures = result?;
    judge(&figures, goals);
    Ok(costs(&figures, plan))
}

fn measured(ours: &Ours, plan: Plan) -> Result<Figures, String> {
    use Expected::{Admitted, Rejected};
    let (recloser, recloser_open) = (peers::recloser::standard(), peers::recloser::strict());
    let (failsafe, failsafe_open) = (peers::failsafe::standard(), peers::failsafe::strict());
    let (timing, timing_open) = (peers::circuitbreaker_rs::standard(), peers::circuitbreaker_rs::strict());
    let mut sides = [
        Side::alone(Seat::Ours, Caller(&ours.plain), Admitted),
        Side::together(Seat::OursTogether, || Caller(&ours.plain)),
        Side::alone(Seat::OursLayered, layered(&ours.plain), Admitted),
        Side::alone(Seat::OursTimed, Caller(&ours.timed), Admitted),
        Side::alone(Seat::OursOpen, Caller(&ours.open), Rejected),
        Side::alone(Seat::Recloser, &recloser, Admitted),
        Side::together(Seat::RecloserTogether, || &recloser),
        Side::alone(Seat::RecloserOpen, peers::opened(&recloser_open), Rejected),
        Side::alone(Seat::Failsafe, &failsafe, Admitted),
        Side::alone(Seat::FailsafeOpen, peers::opened(&failsafe_open), Rejected),
        Side::alone(Seat::CircuitbreakerRs, &timing, Admitted),
        Side::alone(Seat::CircuitbreakerRsOpen, peers::opened(&timing_open), Rejected),
        Side::alone(Seat::Tower, peers::tower_resilience::standard(), Admitted),
        Side::alone(Seat::TowerOpen, peers::opened(peers::tower_resilience::strict()), Rejected),
    ];
    rounds(&mut sides, plan, || ours.is_fresh())?;
    Ok(Figures(sides.into_iter().map(|side| (side.seat, side.figures)).collect()))
}

fn judge(figures: &Figures, goals: &mut Goals) {
    let mut duel = |name, ours: Seat, theirs: Seat, goal| {
        let shown = |seat: Seat| format!("{} ns", figure(figures.spread(seat).median));
        let ratio = Spread::of_ratios(figures.of(theirs), figures.of(ours));
        goals.add(Goal {
            name,
            outcome: Outcome::Ratio { ours: shown(ours), theirs: shown(theirs), ratio, goal },
        });
    };
    duel("recloser / ours, closed, 1 thread", Seat::Ours, Seat::Recloser, 5.0);
    duel("recloser / ours, closed, 2 threads sharing", Seat::OursTogether, Seat::RecloserTogether, 60.0);
    duel("failsafe (default policy) / ours, closed, 1 thread", Seat::Ours, Seat::Failsafe, 45.0);
    duel("tower-resilience / ours, Layer against Layer, closed", Seat::OursLayered, Seat::Tower, 3.0);
    duel("tower-resilience's Service / our bare path, closed", Seat::Ours, Seat::Tower, 120.0);
    // Throughput is calls of both by time: one over the figure.
    duel("ours, throughput of 2 threads / 1 thread", Seat::OursTogether, Seat::Ours, 1.8);
    let fastest = figures.fastest(Seat::OPEN_PEERS);
    duel("open rejection with its retry_after: fastest peer / ours", Seat::OursOpen, fastest, 12.0);
    duel("every call timed: circuitbreaker-rs / ours", Seat::OursTimed, Seat::CircuitbreakerRs, 4.0);
}

fn costs(figures: &Figures, plan: Plan) -> String {
    let mut lines = vec![format!("ns per call, median (middle half) of {} rounds:", plan.rounds)];
    for (seat, _) in &figures.0 {
        lines.push(format!("  {:45} {}", seat.label(), figures.spread(*seat)));
    }
    lines.join("\n")
}

impl Figures {
    fn of(&self, seat: Seat) -> &[f64] {
        self.0.iter().find(|(known, _)| *known == seat).map_or(&[], |(_, figures)| figures)
    }

    fn spread(&self, seat: Seat) -> Spread {
        Spread::of(self.of(seat))
    }

    fn fastest<const N: usize>(&self, seats: [Seat; N]) -> Seat {
        let by_median = |a: &Seat, b: &Seat| self.spread(*a).median.total_cmp(&self.spread(*b).median);
        seats.into_iter().min_by(by_median).expect("there are some")
    }
}
