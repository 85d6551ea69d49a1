//! What holds after any sequence of calls, whatever the rules in force. That a call makes one change at most and that a
//! generation begins with each transition and only with one is checked by [`World`] at each of them.

use proptest::prelude::*;

use crate::world::*;
use panelboard_core::*;
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];
const SESSIONS: [&str; 2] = ["1", "2"];

#[derive(Clone, Debug)]
enum Op {
    Pass(i64),
    ToDeadline,
    Tick,
    Acquire(usize, usize),
    /// Who, session, whether the current generation is named, with which probe that was granted, what.
    Report(usize, usize, bool, usize, Entry),
    Watch(usize, usize, bool),
    Move(u8, Option<Duration>),
    Reset,
    Override(u8, Option<Duration>),
    Clear(bool),
    Policy(PolicySpec),
    Restart,
}

fn times() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -200i64..500, 3 => 0i64..12_000, 1 => Just(-1_000_000), 1 => Just(100_000)]
}

fn entries() -> impl Strategy<Value = Entry> {
    let outcomes = (0u64..3, 0u64..6, 0u64..2, 0u64..2, 0u64..3, 0u64..2).prop_map(
        |(successes, failures, slow_successes, slow_failures, ignored, abandoned)| Outcomes {
            successes,
            failures,
            slow_successes,
            slow_failures,
            ignored,
            abandoned,
            rejected: 0,
        },
    );
    let retry = prop::option::weighted(0.1, (0u64..100_000).prop_map(Duration::from_millis));
    let late = prop::option::weighted(0.3, (0u64..200_000).prop_map(Timestamp::from_millis));
    (outcomes, retry, late, prop::option::of(0u64..40)).prop_map(|(outcomes, retry_after, at, sequence)| {
        Entry {
            outcomes,
            retry_after,
            at,
            sequence,
            causes: vec![(Classification::default().cause("timeout"), outcomes.failures)],
            ..Entry::default()
        }
    })
}

fn policies() -> impl Strategy<Value = PolicySpec> {
    let rule = prop_oneof![
        (1u32..=100, 1u32..10).prop_map(|(p, m)| rate(p, within(1_000), m)),
        (1u32..=100, 1u32..10).prop_map(|(p, m)| rate(p, Window::Last(20), m)),
        (1u32..=100, 1u32..10).prop_map(|(p, m)| slow_rate(p, within(5_000), m)),
        (1u32..10).prop_map(|threshold| Rule::ConsecutiveFailures { threshold }),
        (1u32..10).prop_map(|threshold| Rule::Failures { threshold, window: within(3_000) }),
    ];
    let half_open = (1u32..5, 100u64..20_000, prop::option::of(100u64..40_000)).prop_map(
        |(permitted_calls, timeout, limit)| HalfOpenSpec {
            permitted_calls,
            probe_timeout: ms(timeout),
            limit: limit.map(ms),
            ..HalfOpenSpec::default()
        },
    );
    let scope = prop_oneof![
        3 => Just(RetryAfterScope::Instance),
        1 => Just(RetryAfterScope::Fleet),
        1 => Just(RetryAfterScope::Off)
    ];
    let rest = (1u32..4, any::<bool>(), 0u64..5_000, 0u64..60_000, scope);
    (prop::collection::vec(rule, 1..4), half_open, rest).prop_map(
        |(trip, half_open, (min_instances, share, spread, retry_after_max, retry_after_scope))| PolicySpec {
            half_open,
            guard: GuardSpec { min_instances, share_hundredths: if share { 2_000 } else { 0 }, min_calls: 2 },
            spread: ms(spread),
            retry_after_scope,
            retry_after_max: ms(retry_after_max),
            open: OpenSpec::default(),
            ..spec(trip)
        },
    )
}

fn ops() -> impl Strategy<Value = Op> {
    let (who, session) = (0..NAMES.len(), 0..SESSIONS.len());
    let span = || prop::option::of((0u64..20_000).prop_map(Duration::from_millis));
    prop_oneof![
        6 => times().prop_map(Op::Pass),
        2 => Just(Op::ToDeadline),
        1 => Just(Op::Tick),
        8 => (who.clone(), session.clone()).prop_map(|(who, session)| Op::Acquire(who, session)),
        14 => (who.clone(), session.clone(), any::<bool>(), 0usize..4, entries())
            .prop_map(|(who, session, named, probe, entry)| Op::Report(who, session, named, probe, entry)),
        2 => (who, session, any::<bool>()).prop_map(|(who, session, starts)| Op::Watch(who, session, starts)),
        2 => (0u8..3, span()).prop_map(|(to, wait)| Op::Move(to, wait)),
        1 => Just(Op::Reset),
        1 => (0u8..3, span()).prop_map(|(kind, lasting)| Op::Override(kind, lasting)),
        2 => any::<bool>().prop_map(Op::Clear),
        1 => policies().prop_map(Op::Policy),
        1 => Just(Op::Restart),
    ]
}

#[derive(Clone)]
struct Run {
    world: World,
    /// Probes that were granted, with their generation.
    probes: Vec<Grant>,
    /// What each call answered.
    answers: Vec<String>,
}

impl Run {
    fn new(spec: PolicySpec) -> Self {
        Self { world: World::new(policy(spec)), probes: Vec::new(), answers: Vec::new() }
    }

    fn of(spec: PolicySpec, ops: &[Op]) -> Self {
        let mut run = Self::new(spec);
        for op in ops {
            run.step(op);
        }
        run
    }

    fn step(&mut self, op: &Op) {
        let world = &mut self.world;
        let answer = match op {
            Op::Pass(millis) => {
                world.now = world.now.saturating_add_signed(*millis);
                String::new()
            }
            Op::ToDeadline => {
                world.now = world.breaker.deadline().map_or(world.now, Timestamp::as_millis);
                format!("{:?}", world.tick())
            }
            Op::Tick => format!("{:?}", world.tick()),
            Op::Acquire(who, session) => {
                let decision = world.acquire_as(NAMES[*who], Some(SESSIONS[*session]));
                if let Decision::Granted(grant) = decision {
                    assert!(!["OPEN", "FORCED_OPEN"].contains(&world.state()), "OPEN admits: {grant:?}");
                    assert_eq!(grant.generation, world.breaker.generation());
                    assert_eq!(grant.probe.is_some(), world.state() == "HALF_OPEN");
                    self.probes.extend(grant.probe.map(|_| grant));
                }
                format!("{decision:?}")
            }
            Op::Report(who, session, named, probe, entry) => {
                let entry = Entry {
                    generation: named.then(|| world.breaker.generation()),
                    probe: self.probes.iter().rev().nth(*probe).and_then(|grant| grant.probe),
                    ..entry.clone()
                };
                format!("{:?}", world.report_as(NAMES[*who], Some(SESSIONS[*session]), &entry))
            }
            Op::Watch(who, session, starts) => {
                world.watch(NAMES[*who], SESSIONS[*session], *starts);
                String::new()
            }
            Op::Move(to, wait) => {
                let target =
                    [Target::Closed, Target::Open { wait: *wait }, Target::HalfOpen][usize::from(*to)];
                format!("{:?}", world.transition_to(target))
            }
            Op::Reset => {
                world.reset();
                String::new()
            }
            Op::Override(kind, lasting) => {
                let kinds = [OverrideKind::ForcedOpen, OverrideKind::Disabled, OverrideKind::MetricsOnly];
                world.set_override(kinds[usize::from(*kind)], *lasting);
                String::new()
            }
            Op::Clear(careful) => {
                let end = if *careful { OverrideEnd::Careful } else { OverrideEnd::Closed };
                format!("{:?}", world.clear_override(end))
            }
            Op::Policy(spec) => format!("{:?}", world.set_policy(policy(spec.clone()))),
            Op::Restart => {
                world.restart();
                String::new()
            }
        };
        self.answers.push(answer);
    }
}

/// What a caller can see of a breaker. Without its deadline, which may be that an instance lapses: that it was heard of
/// is true, whatever it said.
fn sight(breaker: &Breaker, now: u64) -> String {
    let now = Timestamp::from_millis(now);
    let status = breaker.status(now);
    format!("{status:?} {:?} {} {:?}", breaker.readings(now), breaker.probes_leased(), breaker.stored(now))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_comes_to_rest_when_nobody_calls(spec in policies(), ops in prop::collection::vec(ops(), 1..60)) {
        // Leases and news of them, a wait, an override, and each second of a crossed window.
        Run::of(spec, &ops).world.rest(100);
    }

    #[test]
    fn the_deadline_is_the_truth(spec in policies(), ops in prop::collection::vec(ops(), 1..60)) {
        let mut run = Run::new(spec);
        for op in &ops {
            run.step(op);
            let Some(deadline) = run.world.breaker.deadline() else {
                let mut later = run.world.clone();
                prop_assert_eq!(later.pass(10_000_000).tick(), None, "without a deadline nothing is due");
                continue;
            };
            let mut early = run.world.clone();
            if let Some(before) = deadline.as_millis().checked_sub(1).filter(|at| *at > latest(&early.breaker)) {
                early.now = before;
                prop_assert_eq!(early.tick(), None, "before the deadline");
                prop_assert!(early.breaker.deadline().is_none_or(|next| next >= deadline));
            }
            let mut due = run.world.clone();
            due.now = deadline.as_millis();
            let change = due.tick();
            let moved = due.breaker.deadline().is_none_or(|next| next > deadline);
            prop_assert!(change.is_some() || moved, "at {:?} nothing happened: {}", deadline, due.state());
        }
    }

    #[test]
    fn a_second_tick_does_nothing(spec in policies(), ops in prop::collection::vec(ops(), 1..60)) {
        let mut world = Run::of(spec, &ops).world;
        // One thing in a call: where several instances are due, each has its own.
        while let Some(Change::Quarantine(_)) = world.tick() {}
        let before = format!("{:?}", world.breaker);
        prop_assert_eq!(world.tick(), None);
        prop_assert_eq!(format!("{:?}", world.breaker), before);
    }

    #[test]
    fn a_report_that_is_not_counted_changes_nothing(
        spec in policies(),
        ops in prop::collection::vec(ops(), 1..60),
        entry in entries(),
        who in 0..NAMES.len(),
    ) {
        let mut world = Run::of(spec, &ops).world;
        // Known already, nothing due, and no news owed.
        let sequence = Some(1_000_000);
        world.report_as(NAMES[who], Some("1"), &Entry { sequence, outcomes: ignored(), ..Entry::default() });
        for _ in 0..3 {
            world.pass(100).tick();
        }
        world.report_as(NAMES[who], Some("1"), &Entry { sequence, ..Entry::default() });
        let current = world.breaker.generation();
        let early = Generation { revision: current.revision - 1, ..current };
        let late = Generation { epoch: current.epoch + 1, ..current };
        let entry = Entry { sequence: None, at: None, ..entry };
        let bad = [
            Entry { generation: Some(early), ..entry.clone() },
            Entry { generation: Some(late), ..entry.clone() },
            Entry { sequence, generation: Some(current), ..entry.clone() },
            Entry { sequence: Some(3), ..entry.clone() },
            Entry { at: Some(Timestamp::ZERO), ..entry.clone() },
            Entry { generation: Some(current), probe: Some(ProbeId(1)), ..entry },
        ];
        for entry in bad {
            let before = sight(&world.breaker, world.now);
            let reported = world.report_as(NAMES[who], Some("1"), &entry);
            if reported != Reported::Counted {
                prop_assert_eq!(sight(&world.breaker, world.now), before, "{:?} {:?}", reported, entry);
            } else {
                // A probe is no matter of CLOSED, and an entry without outcomes of none.
                prop_assert!(entry.generation.is_none_or(|generation| generation == current));
                break;
            }
        }
    }

    #[test]
    fn an_earlier_now_counts_as_the_last_one(
        spec in policies(),
        ops in prop::collection::vec(ops(), 1..60),
        back in 1u64..100_000,
        next in ops(),
    ) {
        let mut one = Run::of(spec, &ops);
        one.world.tick();
        let mut other = one.clone();
        // The breaker has seen the latest of all; the one run goes on from there, the other from before.
        one.world.now = one.world.now.max(latest(&one.world.breaker));
        other.world.now = one.world.now.saturating_sub(back);
        if !matches!(next, Op::Pass(_) | Op::Restart) {
            one.step(&next);
            other.step(&next);
            prop_assert_eq!(one.answers, other.answers);
            prop_assert_eq!(format!("{:?}", one.world.breaker), format!("{:?}", other.world.breaker));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(spec in policies(), ops in prop::collection::vec(ops(), 1..60)) {
        let (one, other) = (Run::of(spec.clone(), &ops), Run::of(spec, &ops));
        prop_assert_eq!(one.answers, other.answers);
        prop_assert_eq!(one.world.changes, other.world.changes);
    }

    #[test]
    fn what_is_restored_keeps_what_is_left_of_its_wait(
        spec in policies(),
        ops in prop::collection::vec(ops(), 1..60),
        clock in 0u64..1_000_000,
        tampered in 0u64..1_000_000_000,
    ) {
        let world = Run::of(spec, &ops).world;
        let now = world.now.max(latest(&world.breaker));
        let mut stored = world.breaker.stored(Timestamp::from_millis(now));
        let policy = std::sync::Arc::clone(world.breaker.policy());
        let timeout = policy.spec().half_open.probe_timeout;
        let at = Moment { now: Timestamp::from_millis(clock), next: Version { epoch: 2, revision: 1 } };
        let left = |breaker: &Breaker| breaker.status(at.now).deadline.map(|end| end.since(at.now));
        let restored = Breaker::restore(std::sync::Arc::clone(&policy), SETTINGS, &stored, at);
        prop_assert!(restored.generation() > world.breaker.generation());
        prop_assert_eq!(restored.probes_leased(), 0);
        match world.state() {
            "HALF_OPEN" => {
                prop_assert_eq!(restored.condition().as_str(), "OPEN");
                prop_assert_eq!(left(&restored), Some(timeout + LEASE_GRACE));
            }
            state => {
                let was = world.breaker.status(Timestamp::from_millis(now));
                prop_assert_eq!(restored.condition().as_str(), state);
                prop_assert_eq!(left(&restored), was.deadline.map(|end| end.since(Timestamp::from_millis(now))));
            }
        }
        if let StoredState::Open { wait, remaining } = &mut stored.state {
            *remaining = ms(tampered);
            let most = wait.total.min(ms(tampered));
            let restored = Breaker::restore(policy, SETTINGS, &stored, at);
            prop_assert_eq!(left(&restored), Some(most));
        }
    }
}

/// The latest time that a breaker has seen: what it says of a call that comes earlier.
fn latest(breaker: &Breaker) -> u64 {
    let mut breaker = breaker.clone();
    let at = Moment { now: Timestamp::ZERO, next: Version { epoch: u64::MAX, revision: 0 } };
    match breaker.reset(hand(), at) {
        Change::Transition(transition) => transition.at.as_millis(),
        change => panic!("a reset is a transition: {change:?}"),
    }
}

/// Numbers from the ends of their ranges, in every place that takes one.
mod extremes {
    use super::*;

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            Just(1),
            Just(u64::MAX),
            Just(u64::MAX - 1),
            Just(u64::MAX / 2 + 1),
            any::<u64>(),
            0u64..100
        ]
    }

    fn span() -> impl Strategy<Value = Duration> {
        prop_oneof![
            Just(Duration::MAX),
            Just(Duration::ZERO),
            Just(Duration::from_nanos(1)),
            number().prop_map(Duration::from_millis),
            number().prop_map(Duration::from_secs),
        ]
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let seven = (number(), number(), number(), number(), number(), number(), number());
        let outcomes = seven.prop_map(|(s, f, ss, sf, ignored, abandoned, rejected)| Outcomes {
            successes: s,
            failures: f,
            slow_successes: ss,
            slow_failures: sf,
            ignored,
            abandoned,
            rejected,
        });
        let streaks = (number(), number(), number()).prop_map(|(leading, longest, trailing)| Streaks {
            leading,
            longest,
            trailing,
        });
        let rest =
            (prop::option::of(span()), prop::option::of(number()), prop::option::of(number()), number());
        (outcomes, prop::option::of(streaks), rest).prop_map(
            |(outcomes, streaks, (retry_after, at, sequence, n))| Entry {
                outcomes,
                streaks,
                retry_after,
                at: at.map(Timestamp::from_millis),
                sequence,
                causes: vec![(Classification::default().cause("dns"), n)],
                ..Entry::default()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_number_panics(
            spec in policies(),
            steps in prop::collection::vec((number(), 0usize..8, entry(), prop::option::of(span())), 1..25),
        ) {
            let mut run = Run::new(spec);
            for (now, what, entry, wait) in steps {
                run.world.now = now;
                let op = match what {
                    0 => Op::Acquire(0, 0),
                    1 | 2 => Op::Report(0, 0, true, 0, entry),
                    3 => Op::Report(1, 1, false, 0, entry),
                    4 => Op::Move(1, wait),
                    5 => Op::Override(2, wait),
                    6 => Op::Move(2, None),
                    _ => Op::Restart,
                };
                run.step(&op);
                run.world.status();
                run.world.readings();
                let shown = run.world.breaker.progress(Timestamp::from_millis(now));
                prop_assert!(!shown.is_empty());
                if let Some(Change::Transition(transition)) = run.world.changes.last() {
                    prop_assert!(transition.to_string().contains("(was "));
                }
            }
        }
    }
}
