//! Every state and every input: what comes of it.
//!
//! A row is an input, a column a state it comes in. A cell is `RESULT STATE`, where the state is left out if no
//! generation began, and `=` stands for "nothing changed": no state, no generation, no version. `~` is a change that is not a
//! transition. [`crate::world::World`] checks at each call that it makes one change at most, and that a new generation
//! begins with each transition and only with one.

use crate::world::*;
use panelboard_core::*;
use std::time::Duration;

/// The columns. In each, the stretch began at 10,000 ms, and "a" and "b" are known.
const STATES: [&str; 9] =
    ["CLOSED", "recovering", "OPEN", "HO empty", "HO leased", "HO full", "FORCED", "DISABLED", "METRICS"];

/// When each column's stretch ends by itself, if it does: the open wait is 5 s, the overrides are for 5 s.
const LASTS: u64 = 5_000;
/// The half-open limit, and the end of a lease.
const LIMIT: u64 = 30_000;
const LEASE: u64 = 11_000;

const TABLE: &str = "
input                  | CLOSED      | recovering  | OPEN        | HO empty    | HO leased   | HO full     | FORCED      | DISABLED    | METRICS
acquire                | grant =     | turn =      | OPEN =      | probe =     | probe ~     | taken =     | FORCED =    | grant =     | grant =
success                | counted =   | counted =   | stale =     | unknown =   | counted =   | counted CLOSED | stale =  | none =      | counted =
failure                | counted =   | counted =   | stale =     | unknown =   | counted =   | counted ~   | stale =     | none =      | counted =
enough failures        | counted =   | counted =   | stale =     | unknown =   | counted =   | counted ~   | stale =     | none =      | counted =
ignored                | counted =   | counted =   | counted =   | counted =   | counted =   | counted ~   | counted =   | none =      | counted =
abandoned              | counted =   | counted =   | counted =   | counted =   | counted =   | counted ~   | counted =   | none =      | counted =
rejected               | counted =   | counted =   | counted =   | counted =   | counted =   | counted ~   | counted =   | none =      | counted =
by hand success        | counted =   | counted =   | stale =     | stale =     | stale =     | stale =     | stale =     | none =      | counted =
by hand failures       | counted =   | counted =   | stale =     | stale =     | stale =     | stale =     | stale =     | none =      | counted =
failures of both       | counted OPEN | counted OPEN | stale =   | stale =     | stale =     | stale =     | stale =     | none =      | counted ~
own crossing lasts     | ~           | ~           | =           | =           | =           | =           | =           | =           | =
acquire, kept out      | kept out ~  | kept out ~  | OPEN =      | probe =     | taken =     | taken =     | FORCED =    | grant =     | grant =
old generation         | stale =     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =
made-up generation     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =     | stale =
duplicate              | duplicate = | duplicate = | duplicate = | duplicate = | duplicate = | duplicate = | duplicate = | duplicate = | duplicate =
from before the stretch| too old =   | too old =   | stale =     | unknown =   | unknown =   | unknown =   | stale =     | none =      | too old =
made-up probe          | counted =   | counted =   | stale =     | unknown =   | unknown =   | unknown =   | stale =     | none =      | counted =
another's probe        | counted =   | counted =   | stale =     | unknown =   | unknown =   | unknown =   | stale =     | none =      | counted =
tick                   | =           | =           | =           | =           | =           | =           | =           | =           | =
tick before the end    | =           | =           | =           | =           | =           | =           | =           | =           | =
tick at the end        | =           | =           | HALF_OPEN   | =           | =           | =           | HALF_OPEN   | CLOSED      | CLOSED
tick after the end     | =           | =           | HALF_OPEN   | =           | =           | =           | HALF_OPEN   | CLOSED      | CLOSED
acquire at the end     | grant =     | grant =     | probe HALF_OPEN | probe = | taken =     | turn CLOSED | probe HALF_OPEN | grant CLOSED | grant CLOSED
tick an hour later     | =           | =           | HALF_OPEN   | =           | =           | CLOSED      | HALF_OPEN   | CLOSED      | CLOSED
to CLOSED              | =           | =           | CLOSED      | CLOSED      | CLOSED      | CLOSED      | refused =   | refused =   | refused =
to OPEN                | OPEN        | OPEN        | ~           | OPEN        | OPEN        | OPEN        | refused =   | refused =   | refused =
to OPEN for 9 s        | OPEN        | OPEN        | ~           | OPEN        | OPEN        | OPEN        | refused =   | refused =   | refused =
to HALF_OPEN           | HALF_OPEN   | HALF_OPEN   | HALF_OPEN   | =           | =           | =           | refused =   | refused =   | refused =
reset                  | CLOSED      | CLOSED      | CLOSED      | CLOSED      | CLOSED      | CLOSED      | CLOSED      | CLOSED      | CLOSED
force open             | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN | FORCED_OPEN
disable                | DISABLED    | DISABLED    | DISABLED    | DISABLED    | DISABLED    | DISABLED    | DISABLED    | DISABLED    | DISABLED
metrics only           | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY | METRICS_ONLY
clear                  | refused =   | refused =   | refused =   | refused =   | refused =   | refused =   | HALF_OPEN   | CLOSED      | CLOSED
clear to CLOSED        | refused =   | refused =   | refused =   | refused =   | refused =   | refused =   | CLOSED      | CLOSED      | CLOSED
an equal policy        | =           | =           | =           | =           | =           | =           | =           | =           | =
another policy         | ~           | ~           | ~           | ~           | ~           | ~           | ~           | ~           | ~
watch started          | =           | =           | =           | =           | =           | =           | =           | =           | =
watch ended            | =           | =           | =           | =           | =           | =           | =           | =           | =
restart                | CLOSED      | CLOSED      | OPEN        | OPEN        | OPEN        | OPEN        | FORCED_OPEN | DISABLED    | METRICS_ONLY
";

fn settings() -> PolicySpec {
    PolicySpec {
        spread: ms(60_000),
        half_open: HalfOpenSpec { permitted_calls: 2, ..HalfOpenSpec::default() },
        ..spec(vec![rate(50, within(10_000), 10)])
    }
}

/// A state to begin with, the grant that "a" holds in it, and one of an earlier stretch.
struct Start {
    world: World,
    grant: Option<Grant>,
    old: Generation,
    /// An entry that has been counted, numbered in session "1" of "a".
    counted: Entry,
}

fn start(state: &str) -> Start {
    let mut world = World::new(policy(settings()));
    let old = world.breaker.generation();
    let counted = Entry { sequence: Some(1), outcomes: ignored(), ..Entry::default() };
    world.report_as("a", Some("1"), &counted);
    world.watch("a", "w", true);
    world.watch("b", "w", true);
    let before = world.breaker.clone();
    world.pass(10_000);
    let lasting = Some(ms(LASTS));
    match state {
        "CLOSED" => no_answer(world.reset()),
        "recovering" => {
            world.transition_to(Target::Open { wait: None }).unwrap();
            world.transition_to(Target::Closed).unwrap();
            assert!(world.status().recovery.is_some());
            ""
        }
        "OPEN" => no_answer(world.transition_to(Target::Open { wait: None }).unwrap()),
        "HO empty" | "HO leased" | "HO full" => no_answer(world.transition_to(Target::HalfOpen).unwrap()),
        "FORCED" => no_answer(world.set_override(OverrideKind::ForcedOpen, lasting)),
        "DISABLED" => no_answer(world.set_override(OverrideKind::Disabled, lasting)),
        "METRICS" => no_answer(world.set_override(OverrideKind::MetricsOnly, lasting)),
        other => panic!("no state {other}"),
    };
    assert!(world.breaker.generation() > before.generation());
    // Full: of the two places, one went to a success of "a", and the other is leased to it.
    let grant = match state {
        "HO leased" => {
            let grant = Some(world.grant("a"));
            world.pass(100);
            grant
        }
        "HO full" => {
            let first = world.grant("a");
            world.end("a", first, successes(1));
            let grant = world.grant("a");
            // Once the news that nothing is free is out, and more news could be.
            world.pass(100).tick();
            world.pass(100);
            Some(grant)
        }
        _ => None,
    };
    Start { world, grant, old, counted }
}

/// Does one input; returns what was answered, empty for what answers nothing.
fn apply(start: &mut Start, input: &str) -> String {
    let Start { world, grant, old, counted } = start;
    let generation = world.breaker.generation();
    let ten = 10;
    let of = |outcomes: Outcomes| Entry {
        generation: Some(generation),
        probe: grant.and_then(|grant| grant.probe),
        outcomes,
        ..Entry::default()
    };
    let refused = |result: Result<Option<Change>, Refusal>| match result {
        Ok(_) => "",
        Err(_) => "refused",
    };
    let answer = match input {
        "acquire" => decided(world.acquire("b")),
        "success" => reported(world.report("a", &of(successes(1)))),
        "failure" => reported(world.report("a", &of(failures(1)))),
        "enough failures" => reported(world.report("a", &of(failures(ten)))),
        "ignored" => reported(world.report("a", &of(ignored()))),
        "abandoned" => reported(world.report("a", &of(abandoned()))),
        "rejected" => reported(world.report("a", &of(Outcomes { rejected: 1, ..Outcomes::default() }))),
        "by hand success" => reported(world.by_hand("a", successes(1))),
        "by hand failures" => reported(world.by_hand("a", failures(ten))),
        "failures of both" => {
            world.by_hand("a", failures(ten));
            reported(world.by_hand("b", failures(ten)))
        }
        "own crossing lasts" => {
            world.by_hand("a", failures(ten));
            ticked(world.pass(1_000))
        }
        "acquire, kept out" => {
            world.by_hand("a", failures(ten));
            world.pass(1_000).tick();
            decided(world.acquire("a"))
        }
        "old generation" => {
            let entry = Entry { generation: Some(*old), ..of(failures(ten)) };
            reported(world.report("a", &entry))
        }
        "made-up generation" => {
            let made_up = Generation { revision: generation.revision + 77, ..generation };
            let entry = Entry { generation: Some(made_up), ..of(failures(ten)) };
            reported(world.report("a", &entry))
        }
        "duplicate" => reported(world.report_as("a", Some("1"), counted)),
        "from before the stretch" => {
            let at = Some(Timestamp::from_millis(9_999));
            reported(world.report("a", &Entry { at, probe: None, ..of(failures(ten)) }))
        }
        "made-up probe" => {
            reported(world.report("a", &Entry { probe: Some(ProbeId(42)), ..of(failures(1)) }))
        }
        "another's probe" => reported(world.report("b", &of(failures(1)))),
        "tick" => ticked(world),
        "tick before the end" => ticked(world.pass(LASTS - 1)),
        "tick at the end" => ticked(world.pass(LASTS)),
        "tick after the end" => ticked(world.pass(LASTS + 1)),
        "acquire at the end" => {
            // By then the spread is over, and the leases are.
            world.pass(60_000);
            decided(world.acquire("a"))
        }
        "tick an hour later" => ticked(world.pass(3_600_000)),
        "to CLOSED" => refused(world.transition_to(Target::Closed)),
        "to OPEN" => refused(world.transition_to(Target::Open { wait: None })),
        "to OPEN for 9 s" => refused(world.transition_to(Target::Open { wait: Some(ms(9_000)) })),
        "to HALF_OPEN" => refused(world.transition_to(Target::HalfOpen)),
        "reset" => no_answer(world.reset()),
        "force open" => no_answer(world.set_override(OverrideKind::ForcedOpen, None)),
        "disable" => no_answer(world.set_override(OverrideKind::Disabled, None)),
        "metrics only" => no_answer(world.set_override(OverrideKind::MetricsOnly, None)),
        "clear" => refused(world.clear_override(OverrideEnd::Careful).map(Some)),
        "clear to CLOSED" => refused(world.clear_override(OverrideEnd::Closed).map(Some)),
        "an equal policy" => no_answer(world.set_policy(Policy::try_new(settings(), 2).unwrap())),
        "another policy" => {
            let open = OpenSpec { wait: Duration::from_secs(3), ..settings().open };
            no_answer(world.set_policy(Policy::try_new(PolicySpec { open, ..settings() }, 2).unwrap()))
        }
        "watch started" => no_answer(world.watch("c", "w", true)),
        "watch ended" => no_answer(world.watch("b", "w", false)),
        "restart" => no_answer(world.restart()),
        other => panic!("no input {other}"),
    };
    answer.into()
}

fn no_answer<T>(_: T) -> &'static str {
    ""
}

fn ticked(world: &mut World) -> &'static str {
    no_answer(world.tick())
}

fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::Granted(Grant { probe: None, .. }) => "grant",
        Decision::Granted(Grant { probe: Some(_), .. }) => "probe",
        Decision::Rejected(rejection) => match rejection.reason {
            RejectionReason::Open => "OPEN",
            RejectionReason::ProbesTaken => "taken",
            RejectionReason::ForcedOpen => "FORCED",
            RejectionReason::Quarantined => "kept out",
            RejectionReason::Recovering => "turn",
        },
    }
}

fn reported(reported: Reported) -> &'static str {
    match reported {
        Reported::Counted => "counted",
        Reported::StaleGeneration => "stale",
        Reported::UnknownProbe => "unknown",
        Reported::Duplicate => "duplicate",
        Reported::TooOld => "too old",
        Reported::NotRecorded => "none",
    }
}

#[test]
fn every_state_answers_every_input_as_the_table_says() {
    let mut wrong = Vec::new();
    let mut rows = TABLE.trim().lines();
    let heads: Vec<&str> = rows.next().unwrap().split('|').skip(1).map(str::trim).collect();
    assert_eq!(heads, STATES);
    let mut cells = 0;
    for row in rows {
        let mut parts = row.split('|').map(str::trim);
        let input = parts.next().unwrap();
        let expected: Vec<&str> = parts.collect();
        assert_eq!(expected.len(), STATES.len(), "{input}");
        for (state, expected) in STATES.into_iter().zip(expected) {
            let found = cell(state, input);
            cells += 1;
            if found != expected.split_whitespace().collect::<Vec<_>>().join(" ") {
                wrong.push(format!("{input} in {state}: {found:?} instead of {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cells} cells:\n{}", wrong.len(), wrong.join("\n"));
}

fn cell(state: &str, input: &str) -> String {
    let mut start = start(state);
    let before = (start.world.breaker.generation(), start.world.breaker.version());
    let readings = start.world.readings();
    let answer = apply(&mut start, input);
    let world = &start.world;
    let what = if world.breaker.generation() > before.0 {
        world.state()
    } else if world.breaker.version() > before.1 {
        "~"
    } else {
        "="
    };
    // An answer that says that nothing was taken in tells the truth.
    if !["counted", "", "grant", "probe"].contains(&answer.as_str()) && what == "=" {
        assert_eq!(world.readings(), readings, "{input} in {state}");
    }
    [answer.as_str(), what].join(" ").trim().to_string()
}

#[test]
fn a_lease_ends_a_second_after_its_deadline_and_a_period_at_its_limit() {
    let mut leased = start("HO leased").world;
    leased.pass(LEASE - 101).tick();
    assert_eq!(leased.breaker.probes_leased(), 1);
    leased.pass(1).tick();
    assert_eq!((leased.breaker.probes_leased(), leased.breaker.probes_expired()), (0, 1));
    let mut full = start("HO full").world;
    // The limit runs since the lease, two hundred milliseconds ago.
    full.pass(LIMIT - 201).tick();
    assert_eq!(full.state(), "HALF_OPEN");
    full.pass(1).tick();
    assert_eq!(full.state(), "CLOSED", "one success and nothing bad");
}
