use panelboard_core::{Hand, Outcome, Outcomes, PolicySpec, Rate, Rule, StateKind, Window, admitted_after};

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

const SECOND: Duration = Duration::from_secs(1);
const GENERATION: u64 = 10;

/// Trips at 50 % of at least 20 calls within 10 s; two probes of at most 2 s.
fn spec() -> PolicySpec {
    let rule = Rule::FailureRate {
        threshold: Rate::percent(50).unwrap(),
        window: Window::Within(Duration::from_secs(10)),
        minimum_calls: 20,
    };
    let mut spec = PolicySpec { trip: vec![rule], ..PolicySpec::default() };
    spec.half_open.permitted_calls = 2;
    spec.half_open.probe_timeout = Duration::from_secs(2);
    spec
}

fn policy(spec: PolicySpec) -> Arc<Policy> {
    Arc::new(Policy::try_new(spec, 1).unwrap())
}

fn cell_with(change: impl FnOnce(&mut Setup)) -> Cell {
    let mut setup = Setup {
        me: Instance::new("checkout", "pod-1"),
        policy: policy(spec()),
        active_instances: 1,
        on_disconnect: None,
        seed: 42,
    };
    change(&mut setup);
    Cell::new(setup, at(0))
}

fn cell() -> Cell {
    cell_with(|_| {})
}

fn known(admission: Admission, state: StateKind, revision: u64) -> Known {
    Known {
        admission,
        state,
        over: None,
        generation: Generation { epoch: 1, revision },
        version: Version { epoch: 1, revision },
        deadline: None,
        recovery: None,
        quarantine: None,
        active_instances: 4,
        ask_within: Duration::ZERO,
        explanation: "failure rate 62.5 % >= 50 %".into(),
        reopenings: 0,
        policy: None,
    }
}

fn closed(revision: u64) -> Known {
    known(Admission::Allow, StateKind::Closed, revision)
}

fn open(revision: u64, deadline: u64) -> Known {
    Known { deadline: Some(at(deadline)), ..known(Admission::Reject, StateKind::Open, revision) }
}

fn half_open(revision: u64) -> Known {
    known(Admission::Probe, StateKind::HalfOpen, revision)
}

fn overridden(kind: OverrideKind, revision: u64, until: Option<u64>) -> Known {
    let (admission, state) = match kind {
        OverrideKind::ForcedOpen => (Admission::Reject, StateKind::Open),
        _ => (Admission::Allow, StateKind::Closed),
    };
    let hand = Hand { who: "ana".into(), why: "drill".into() };
    let sentence = hand.to_string().into();
    Known {
        over: Some(Over { kind, hand, sentence, until: until.map(at) }),
        ..known(admission, state, revision)
    }
}

/// A cell whose stream has just said this.
fn told(status: Known, now: u64) -> Cell {
    let mut cell = cell();
    tell(&mut cell, status, now);
    cell
}

fn tell(cell: &mut Cell, status: Known, now: u64) {
    cell.heard(Some(Ticks { tick: now + 1_000_000, heard: at(now) }), at(now));
    assert!(cell.apply(status, Source::Stream, at(now)));
    cell.vouched(Some(10 * SECOND), at(now));
}

fn end(cell: &mut Cell, ticket: Ticket, outcome: Outcome, now: u64) {
    let said = match outcome {
        Outcome::Success => Said::Success,
        Outcome::Failure => Said::Failure("timeout"),
        Outcome::Ignored => Said::Ignored(None),
    };
    cell.record(ticket, said, Duration::from_millis(5), None, at(now));
}

fn fail(cell: &mut Cell, n: usize, now: u64) {
    for _ in 0..n {
        let ticket = cell.admit(at(now)).unwrap();
        end(cell, ticket, Outcome::Failure, now);
    }
}

fn reason(cell: &mut Cell, now: u64) -> Option<Reason> {
    cell.admit(at(now)).err().map(|refusal| refusal.reason)
}

fn report(cell: &mut Cell, now: u64) -> Option<Entry> {
    cell.step(at(now), true).report
}

fn freshness(cell: &mut Cell, now: u64) -> Freshness {
    cell.turn(at(now));
    cell.freshness()
}

// Freshness.

#[test]
fn it_is_fresh_for_eight_seconds_stale_to_the_ttls_end_and_local_after() {
    let mut cell = told(closed(GENERATION), 1_000);
    let seen: Vec<_> = [1_000, 8_999, 9_000, 10_999, 11_000].map(|now| freshness(&mut cell, now)).into();
    use Freshness::{Fresh, Local, Stale};
    assert_eq!(seen, [Fresh, Fresh, Stale, Stale, Local]);
}

#[test]
fn any_message_keeps_it_fresh_but_only_a_bookmark_moves_the_ttl() {
    let mut cell = told(closed(GENERATION), 0);
    cell.heard(None, at(7_000));
    assert_eq!(freshness(&mut cell, 9_999), Freshness::Fresh);
    assert_eq!(freshness(&mut cell, 10_000), Freshness::Local);
    cell.vouched(Some(10 * SECOND), at(12_000));
    assert_eq!(freshness(&mut cell, 19_999), Freshness::Fresh);
}

#[test]
fn a_report_without_an_answer_for_a_second_makes_it_stale() {
    let mut cell = told(closed(GENERATION), 0);
    fail(&mut cell, 1, 100);
    let entry = report(&mut cell, 100).unwrap();
    assert_eq!(freshness(&mut cell, 1_099), Freshness::Fresh);
    assert_eq!(freshness(&mut cell, 1_100), Freshness::Stale);
    cell.acknowledged(entry.sequence.unwrap(), at(1_200));
    assert_eq!(cell.freshness(), Freshness::Fresh);
}

#[test]
fn a_broken_stream_is_stale_at_once_and_an_announced_end_is_not() {
    let mut cell = told(closed(GENERATION), 0);
    cell.lost(at(100));
    assert_eq!(cell.freshness(), Freshness::Stale);
    let mut cell = told(closed(GENERATION), 0);
    cell.draining(Some(20 * SECOND), at(100));
    cell.lost(at(200));
    assert_eq!(freshness(&mut cell, 20_099), Freshness::Fresh);
    assert_eq!(freshness(&mut cell, 20_100), Freshness::Local);
}

#[test]
fn between_two_streams_outcomes_that_cannot_be_sent_end_the_trust_for_good() {
    let mut cell = told(closed(GENERATION), 0);
    cell.draining(Some(30 * SECOND), at(100));
    cell.lost(at(200));
    fail(&mut cell, 1, 500);
    assert_eq!(freshness(&mut cell, 1_499), Freshness::Fresh);
    assert_eq!(freshness(&mut cell, 1_500), Freshness::Stale);
    fail(&mut cell, 18, 1_600);
    assert_eq!(freshness(&mut cell, 5_000), Freshness::Stale, "not FRESH again by itself");
    fail(&mut cell, 1, 5_100);
    assert_eq!(reason(&mut cell, 5_100), Some(Reason::Open), "so that the local breaker protects");
    tell(&mut cell, closed(GENERATION), 5_200);
    assert_eq!(cell.freshness(), Freshness::Fresh);
}

#[test]
fn a_ttl_of_a_century_is_cut() {
    let mut cell = told(closed(GENERATION), 0);
    cell.vouched(Some(Duration::from_secs(4_000_000_000)), at(0));
    assert_eq!(freshness(&mut cell, 60_000), Freshness::Local);
}

#[test]
fn what_the_server_cannot_vouch_for_is_stale_until_it_says_it_again() {
    let mut cell = told(closed(GENERATION), 0);
    cell.unavailable(at(10));
    cell.heard(None, at(20));
    assert_eq!(cell.freshness(), Freshness::Stale);
    tell(&mut cell, closed(GENERATION), 30);
    assert_eq!(cell.freshness(), Freshness::Fresh);
}

#[test]
fn a_name_that_does_not_exist_is_local_until_it_does() {
    let mut cell = cell();
    assert!(cell.not_found(at(10)) && !cell.not_found(at(20)), "one piece of news");
    assert!(cell.is_unknown());
    cell.vouched(Some(10 * SECOND), at(30));
    assert_eq!(cell.freshness(), Freshness::Local);
    tell(&mut cell, closed(GENERATION), 40);
    assert_eq!(cell.freshness(), Freshness::Fresh);
}

// Statuses.

#[test]
fn the_newest_version_wins_wherever_it_came_from() {
    let mut cell = told(open(12, 60_000), 0);
    assert!(!cell.apply(closed(11), Source::Answer, at(10)), "late");
    assert_eq!(reason(&mut cell, 10), Some(Reason::Open));
    assert!(cell.apply(open(12, 50_000), Source::Answer, at(20)), "the same is taken");
    assert!(cell.apply(closed(13), Source::Answer, at(30)));
    assert_eq!(reason(&mut cell, 30), None);
    let restored = Known { version: Version { epoch: 2, revision: 1 }, ..open(1, 90_000) };
    assert!(cell.apply(restored, Source::Stream, at(40)), "a later epoch is newer");
}

#[test]
fn after_a_reset_an_older_version_is_news() {
    let mut cell = told(open(12, 60_000), 0);
    cell.reset(at(10));
    assert_eq!(cell.freshness(), Freshness::Stale);
    assert_eq!(reason(&mut cell, 10), Some(Reason::Open), "the old value stays meanwhile");
    tell(&mut cell, closed(3), 20);
    assert_eq!(reason(&mut cell, 20), None);
}

#[test]
fn a_server_of_an_earlier_epoch_is_another_one_and_believed() {
    let mut cell = told(open(12, 60_000), 0);
    cell.began(1, at(10));
    assert!(!cell.apply(closed(3), Source::Stream, at(20)), "the same epoch: what is older is stale");
    cell.began(0, at(30));
    tell(&mut cell, closed(3), 40);
    assert_eq!(reason(&mut cell, 40), None);
}

#[test]
fn an_older_deletion_deletes_nothing() {
    let mut cell = told(open(12, 60_000), 0);
    cell.deleted(Version { epoch: 1, revision: 11 }, at(10));
    assert_eq!(cell.freshness(), Freshness::Fresh);
    cell.deleted(Version { epoch: 1, revision: 13 }, at(20));
    assert_eq!((cell.freshness(), reason(&mut cell, 20)), (Freshness::Local, None));
}

#[test]
fn each_override_does_what_it_says() {
    let mut forced = told(overridden(OverrideKind::ForcedOpen, 11, Some(5_000)), 0);
    let refusal = forced.admit(at(1_000)).unwrap_err();
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::ForcedOpen, Some(4 * SECOND)));
    assert_eq!(&*refusal.explanation, "ana: drill");
    let mut disabled = told(overridden(OverrideKind::Disabled, 11, None), 0);
    assert!(!disabled.admit(at(10)).unwrap().counted, "nothing is recorded");
    let mut metrics = told(overridden(OverrideKind::MetricsOnly, 11, None), 0);
    assert!(metrics.admit(at(10)).unwrap().counted);
}

#[test]
fn quarantine_keeps_this_instance_out_until_its_end() {
    let quarantine = Quarantine { until: Some(at(4_000)), explanation: "9 of 10 failed here".into() };
    let mut cell = told(Known { quarantine: Some(quarantine), ..closed(11) }, 0);
    let refusal = cell.admit(at(1_000)).unwrap_err();
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Quarantined, Some(3 * SECOND)));
    assert_eq!(reason(&mut cell, 4_000), None);
}

#[test]
fn alone_it_waits_as_the_dependency_asked_it_to() {
    let mut cell = cell();
    let ticket = cell.admit(at(0)).unwrap();
    cell.record(ticket, Said::Ignored(None), Duration::ZERO, Some(3 * SECOND), at(0));
    let refusal = cell.admit(at(1_000)).unwrap_err();
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Quarantined, Some(2 * SECOND)));
    assert_eq!(&*refusal.explanation, "the dependency asked it to wait 3 s");
    // The hot path knows as well.
    let (door, until) = cell.door(at(1_000));
    assert_eq!(until, Some(at(3_000)));
    assert!(matches!(door, Door::Shut { reason: Reason::Quarantined, .. }), "{door:?}");
    assert_eq!(reason(&mut cell, 3_000), None);
    assert!(stands_open(&cell, 3_000));
}

#[test]
fn after_closing_this_instance_waits_for_its_turn() {
    let recovery = Some((Duration::from_secs(300), at(0)));
    let mut cell = told(Known { recovery, ..closed(11) }, 0);
    let refusal = cell.admit(at(0)).unwrap_err();
    let turn = admitted_after(&Instance::new("checkout", "pod-1"), closed(11).generation, 300 * SECOND);
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Recovering, Some(turn)));
    assert_eq!(cell.status(at(0)).admitted_in, Some(turn));
    let turn = u64::try_from(turn.as_millis()).unwrap();
    cell.vouched(Some(60 * SECOND), at(turn - 1));
    assert_eq!(reason(&mut cell, turn - 1), Some(Reason::Recovering));
    assert_eq!(reason(&mut cell, turn), None, "the hinted time is inclusive");
    assert_eq!(cell.status(at(turn)).admitted_in, None);
}

// The door.

fn stands_open(cell: &Cell, now: u64) -> bool {
    matches!(cell.door(at(now)).0, Door::Open { .. })
}

#[test]
fn a_door_holds_only_while_nothing_can_change() {
    let mut cell = told(closed(11), 0);
    assert_eq!(cell.door(at(10)), (Door::Open { counted: true }, Some(at(8_000))));
    fail(&mut cell, 1, 100);
    report(&mut cell, 100).unwrap();
    assert_eq!(cell.door(at(100)).1, Some(at(1_100)), "a report is out");
    let (door, until) = told(open(11, 5_000), 0).door(at(10));
    assert!(matches!(door, Door::Shut { reason: Reason::Open, .. }));
    assert_eq!(until, Some(at(5_000)));
    assert_eq!(
        told(open(11, 5_000), 0).door(at(5_000)).0,
        Door::Closer,
        "a hinted retry gets its closer look"
    );
    assert_eq!(told(half_open(11), 0).door(at(10)).0, Door::Closer);
    let disabled = told(overridden(OverrideKind::Disabled, 11, None), 0);
    assert_eq!(disabled.door(at(10)).0, Door::Open { counted: false });
    let alone = cell_with(|_| {}).door(at(10));
    assert_eq!(
        alone,
        (Door::Open { counted: true }, None),
        "LOCAL and CLOSED lasts until an outcome ends it"
    );
    let denied = cell_with(|s| s.on_disconnect = Some(OnDisconnect::Deny));
    assert!(matches!(denied.door(at(10)).0, Door::Shut { reason: Reason::Disconnected, until: None, .. }));
    assert!(stands_open(&cell_with(|s| s.on_disconnect = Some(OnDisconnect::Allow)), 10));
}

#[test]
fn the_door_says_what_a_closer_look_says() {
    let recovery = Some((Duration::from_secs(3), at(0)));
    let scripts = [
        closed(11),
        open(11, 500),
        open(11, 60_000),
        half_open(11),
        Known { recovery, ..closed(11) },
        overridden(OverrideKind::ForcedOpen, 11, Some(700)),
        overridden(OverrideKind::ForcedOpen, 11, None),
        overridden(OverrideKind::Disabled, 11, Some(700)),
        overridden(OverrideKind::MetricsOnly, 11, None),
    ];
    let mut told_apart = 0;
    for script in scripts {
        for now in (0..14_000).step_by(250) {
            let mut cell = told(script.clone(), 0);
            let (door, _) = cell.door(at(now));
            let stretch = cell.stretch();
            let decided = cell.admit(at(now));
            match door {
                Door::Open { counted } => {
                    assert_eq!(decided, Ok(Ticket { stretch, counted, probe: None }), "{script:?} at {now}");
                }
                Door::Shut { reason, until, explanation } => {
                    let refusal = decided.unwrap_err();
                    assert_eq!(
                        (refusal.reason, refusal.explanation),
                        (reason, explanation),
                        "{script:?} at {now}"
                    );
                    assert_eq!(refusal.retry_after, until.map(|until| until.since(at(now))));
                }
                Door::Closer => continue,
            }
            told_apart += 1;
        }
    }
    assert!(told_apart > 150, "{told_apart}");
}

#[test]
fn what_lanes_counted_in_a_stretch_that_ended_meanwhile_is_dropped() {
    let counted = || {
        let mut tally = Tally::default();
        tally.since(at(0));
        tally.failures(30, false);
        tally
    };
    let mut cell = told(closed(11), 0);
    cell.collect(counted(), at(100));
    assert_eq!(report(&mut cell, 100).unwrap().outcomes.failures, 30);
    let mut cell = cell_with(|_| {});
    cell.collect(counted(), at(100));
    assert!(matches!(cell.door(at(100)).0, Door::Shut { reason: Reason::Open, .. }), "LOCAL decides at once");
}

// Reports.

#[test]
fn outcomes_leave_with_their_generation_their_time_and_their_sequence() {
    let mut cell = told(closed(11), 0);
    let ticket = cell.admit(at(0)).unwrap();
    end(&mut cell, ticket, Outcome::Success, 0);
    assert_eq!(report(&mut cell, 199), None);
    let entry = report(&mut cell, 200).unwrap();
    assert_eq!(entry.outcomes, Outcomes { successes: 1, ..Outcomes::default() });
    assert_eq!(entry.generation, Some(closed(11).generation));
    assert_eq!((entry.sequence, entry.at), (Some(1), Some(at(1_000_200))));
    assert_eq!(report(&mut cell, 5_000), None, "nothing new");
}

#[test]
fn a_failure_that_may_trip_leaves_at_once_but_never_sooner_than_twenty_milliseconds_after_the_last() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 1, 100);
    let first = report(&mut cell, 100).unwrap();
    cell.acknowledged(first.sequence.unwrap(), at(101));
    fail(&mut cell, 1, 102);
    assert_eq!(report(&mut cell, 119), None);
    assert_eq!(cell.due(), Some(at(120)));
    assert_eq!(report(&mut cell, 120).unwrap().sequence, Some(2));
}

#[test]
fn an_entry_without_an_answer_is_sent_again_unchanged_and_nothing_newer_before() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 1, 100);
    let entry = report(&mut cell, 100).unwrap();
    cell.unanswered(1, Duration::from_millis(300), at(150));
    fail(&mut cell, 1, 160);
    assert_eq!(report(&mut cell, 449), None);
    assert_eq!(report(&mut cell, 450), Some(entry));
}

#[test]
fn outcomes_of_a_stretch_that_is_over_are_not_reported() {
    let mut cell = told(closed(11), 0);
    let late = cell.admit(at(10)).unwrap();
    fail(&mut cell, 3, 20);
    tell(&mut cell, open(12, 5_000), 30);
    end(&mut cell, late, Outcome::Failure, 40);
    assert_eq!(report(&mut cell, 1_000), None);
    tell(&mut cell, closed(13), 1_100);
    end(&mut cell, late, Outcome::Failure, 1_200);
    assert_eq!(report(&mut cell, 2_000), None);
}

#[test]
fn what_was_recorded_while_not_fresh_is_never_sent() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 2, 100);
    cell.lost(at(101));
    fail(&mut cell, 3, 200);
    tell(&mut cell, closed(11), 300);
    assert_eq!(report(&mut cell, 1_000), None);
    fail(&mut cell, 1, 1_100);
    assert_eq!(report(&mut cell, 1_100).unwrap().outcomes.failures, 1);
}

#[test]
fn an_entry_that_was_sealed_in_time_survives_the_break() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 2, 100);
    let entry = report(&mut cell, 100).unwrap();
    cell.lost(at(101));
    cell.unanswered(1, SECOND, at(102));
    assert_eq!(report(&mut cell, 5_000), None, "nothing is sent into the void");
    tell(&mut cell, closed(11), 5_100);
    assert_eq!(report(&mut cell, 5_100), Some(entry));
}

#[test]
fn another_epoch_ends_what_the_old_server_was_told() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 2, 100);
    report(&mut cell, 100).unwrap();
    cell.unanswered(1, Duration::ZERO, at(150));
    let version = Version { epoch: 2, revision: 1 };
    let generation = Generation { epoch: 2, revision: 1 };
    tell(&mut cell, Known { version, generation, ..closed(1) }, 200);
    assert_eq!(report(&mut cell, 300), None);
}

#[test]
fn rejections_are_reported_for_metrics() {
    let mut cell = told(open(11, 60_000), 0);
    for _ in 0..3 {
        cell.admit(at(10)).unwrap_err();
        cell.rejected(at(10));
    }
    assert_eq!(report(&mut cell, 210).unwrap().outcomes, Outcomes { rejected: 3, ..Outcomes::default() });
}

#[test]
fn a_slow_call_is_slow_by_the_servers_policy() {
    let mut slow = spec();
    slow.trip = vec![Rule::SlowRate {
        threshold: Rate::ALL,
        slower_than: SECOND,
        window: Window::Last(10),
        minimum_calls: 10,
    }];
    let mut cell = told(Known { policy: Some(policy(slow)), ..closed(11) }, 0);
    for took in [SECOND, SECOND + Duration::from_millis(1)] {
        let ticket = cell.admit(at(10)).unwrap();
        cell.record(ticket, Said::Success, took, None, at(10));
    }
    let entry = report(&mut cell, 500).unwrap();
    assert_eq!((entry.outcomes.successes, entry.outcomes.slow_successes), (2, 1));
}

// Probes.

/// Asks at once and is given a probe.
fn with_probe(cell: &mut Cell, now: u64) {
    let refusal = cell.admit(at(now)).unwrap_err();
    assert_eq!((refusal.reason, refusal.asked_at), (Reason::ProbesTaken, Some(at(now))));
    assert!(cell.step(at(now), true).ask);
    cell.granted(ProbeId(77), half_open(12).generation, 2 * SECOND, at(now));
}

#[test]
fn a_call_wants_a_probe_gets_it_and_its_outcome_is_an_entry_of_its_own() {
    let mut cell = told(half_open(12), 0);
    with_probe(&mut cell, 10);
    let ticket = cell.admit(at(11)).unwrap();
    assert!(ticket.probe.is_some());
    assert!(cell.admit(at(12)).is_err(), "one probe is one call");
    end(&mut cell, ticket, Outcome::Success, 50);
    let entry = report(&mut cell, 50).unwrap();
    assert_eq!((entry.probe, entry.outcomes.counted()), (Some(ProbeId(77)), 1));
    assert_eq!(entry.generation, Some(half_open(12).generation));
}

#[test]
fn a_probe_that_runs_past_its_deadline_has_failed_whatever_becomes_of_it() {
    let mut cell = told(half_open(12), 0);
    with_probe(&mut cell, 10);
    let ticket = cell.admit(at(11)).unwrap();
    assert_eq!(cell.due(), Some(at(2_010)));
    let entry = report(&mut cell, 2_010).unwrap();
    assert_eq!((entry.probe, entry.outcomes.failures), (Some(ProbeId(77)), 1));
    assert_eq!(entry.causes[0].0.as_str(), "timeout");
    cell.acknowledged(1, at(2_020));
    end(&mut cell, ticket, Outcome::Success, 2_500);
    assert_eq!(report(&mut cell, 3_000), None, "it ends once");
}

#[test]
fn unused_and_abandoned_probes_go_back() {
    let abandoned = Outcomes { abandoned: 1, ..Outcomes::default() };
    let long = 60 * SECOND;
    let mut cell = told(half_open(12), 0);
    cell.admit(at(10)).unwrap_err();
    assert!(cell.step(at(10), true).ask);
    cell.granted(ProbeId(77), half_open(12).generation, long, at(20));
    assert_eq!(cell.due(), Some(at(5_020)));
    assert_eq!(report(&mut cell, 5_020).unwrap().outcomes, abandoned);

    let mut cell = told(half_open(12), 0);
    with_probe(&mut cell, 10);
    let ticket = cell.admit(at(11)).unwrap();
    cell.record(ticket, Said::Abandoned, Duration::ZERO, None, at(20));
    assert_eq!(report(&mut cell, 20).unwrap().outcomes, abandoned);
}

#[test]
fn a_probe_that_comes_too_late_goes_back_at_once() {
    let mut cell = told(half_open(12), 0);
    cell.admit(at(10)).unwrap_err();
    assert!(cell.step(at(10), true).ask);
    tell(&mut cell, open(13, 9_000), 20);
    cell.granted(ProbeId(77), half_open(12).generation, 2 * SECOND, at(30));
    let entry = report(&mut cell, 30).unwrap();
    assert_eq!((entry.probe, entry.outcomes.abandoned), (Some(ProbeId(77)), 1));
}

#[test]
fn whoever_sleeps_as_long_as_it_was_told_does_not_spin() {
    let mut cell = told(half_open(12), 0);
    let wanted = |cell: &mut Cell, now| {
        let refusal = cell.admit(at(now)).unwrap_err();
        assert_eq!((refusal.reason, refusal.no_probe), (Reason::ProbesTaken, NoProbe::AskedFor));
        refusal.retry_after
    };
    let least = Some(Duration::from_millis(100));
    assert_eq!(wanted(&mut cell, 10), least);
    assert!(cell.step(at(10), true).ask);
    assert_eq!(wanted(&mut cell, 50), least, "the answer is on its way");
    cell.refused(Some(3 * SECOND), at(60));
    assert_eq!(cell.admit(at(61)).unwrap_err().no_probe, NoProbe::NotYet);
    let mut taken = told(known(Admission::Reject, StateKind::HalfOpen, 12), 0);
    assert_eq!(taken.admit(at(10)).unwrap_err().no_probe, NoProbe::Taken);
}

#[test]
fn the_ask_is_spread_over_what_the_server_says() {
    let mut cell = told(Known { ask_within: 5 * SECOND, ..half_open(12) }, 0);
    let first = cell.admit(at(10)).unwrap_err().asked_at.unwrap();
    assert!(first >= at(10) && first <= at(5_010));
    assert_eq!(cell.admit(at(11)).unwrap_err().asked_at, Some(first), "drawn once");
    assert!(!cell.step(at(first.as_millis() - 1), true).ask);
    assert!(cell.step(first, true).ask && !cell.step(first, true).ask);
}

#[test]
fn nobody_asks_where_no_probe_is_or_sooner_than_the_server_said() {
    let mut cell = told(known(Admission::Reject, StateKind::HalfOpen, 12), 0);
    assert_eq!(cell.admit(at(10)).unwrap_err().asked_at, None);
    tell(&mut cell, Known { version: Version { epoch: 1, revision: 13 }, ..half_open(12) }, 20);
    cell.admit(at(20)).unwrap_err();
    let ask = [at(20), at(120)].iter().any(|now| cell.step(*now, true).ask);
    assert!(ask);
    cell.refused(Some(3 * SECOND), at(130));
    let refusal = cell.admit(at(200)).unwrap_err();
    assert_eq!((refusal.asked_at, refusal.retry_after), (None, Some(Duration::from_millis(2_930))));
    assert!(cell.admit(at(3_130)).unwrap_err().asked_at.is_some());
}

#[test]
fn an_open_that_is_over_asks_so_that_a_hinted_retry_succeeds() {
    let mut cell = told(open(12, 500), 0);
    assert_eq!(reason(&mut cell, 499), Some(Reason::Open));
    let refusal = cell.admit(at(500)).unwrap_err();
    assert_eq!(refusal.reason, Reason::ProbesTaken);
    assert!(refusal.asked_at.unwrap() <= at(550));
    assert!(cell.step(at(550), true).ask);
    assert!(cell.apply(half_open(13), Source::Answer, at(560)));
    cell.granted(ProbeId(5), half_open(13).generation, SECOND, at(560));
    assert!(cell.admit(at(561)).unwrap().probe.is_some());
}

#[test]
fn a_probe_out_when_the_server_goes_comes_back_without_evidence() {
    let mut cell = told(half_open(12), 0);
    with_probe(&mut cell, 10);
    let ticket = cell.admit(at(11)).unwrap();
    cell.lost(at(20));
    end(&mut cell, ticket, Outcome::Failure, 30);
    tell(&mut cell, half_open(12), 100);
    let entry = report(&mut cell, 100).unwrap();
    assert_eq!(entry.outcomes, Outcomes { abandoned: 1, ..Outcomes::default() });
}

#[test]
fn at_the_end_probes_go_back_and_outcomes_leave() {
    let mut cell = told(closed(11), 0);
    let ticket = cell.admit(at(10)).unwrap();
    end(&mut cell, ticket, Outcome::Success, 10);
    assert_eq!(cell.close(at(11)).unwrap().outcomes.successes, 1);
    let mut cell = told(half_open(12), 0);
    with_probe(&mut cell, 10);
    let _out = cell.admit(at(11)).unwrap();
    assert_eq!(cell.close(at(12)).unwrap().outcomes.abandoned, 1);
}

// Without the server.

#[test]
fn the_local_breaker_goes_on_with_what_was_tallied_while_fresh() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 15, 100);
    report(&mut cell, 100).unwrap();
    cell.lost(at(200));
    fail(&mut cell, 4, 300);
    assert_eq!(reason(&mut cell, 301), None, "19 of 20 by the fleet's own minimum");
    fail(&mut cell, 1, 400);
    let refusal = cell.admit(at(401)).unwrap_err();
    assert_eq!((refusal.reason, refusal.freshness), (Reason::Open, Freshness::Stale));
    assert!(refusal.explanation.starts_with("failure rate 100 % >= 50 % (20 of 20 in 10 s)"));
}

#[test]
fn a_client_that_ended_is_local_at_once_and_goes_on_from_what_it_knew() {
    let mut cell = told(closed(11), 0);
    fail(&mut cell, 9, 100);
    cell.ended(at(200));
    assert_eq!((cell.freshness(), reason(&mut cell, 201)), (Freshness::Local, None));
    fail(&mut cell, 1, 300);
    assert_eq!(reason(&mut cell, 301), Some(Reason::Open), "one instance's share of what it tallied");

    let mut cell = told(open(12, 5_000), 0);
    cell.lost(at(100));
    cell.ended(at(200));
    let refusal = cell.admit(at(300)).unwrap_err();
    assert_eq!((refusal.reason, refusal.freshness), (Reason::Open, Freshness::Local));
    assert!(cell.admit(at(6_000)).unwrap().probe.is_some());
}

#[test]
fn local_thresholds_are_one_instances_share() {
    let mut cell = told(closed(11), 0);
    assert_eq!(freshness(&mut cell, 10_000), Freshness::Local);
    fail(&mut cell, 9, 10_100);
    assert_eq!(reason(&mut cell, 10_101), None);
    fail(&mut cell, 1, 10_200);
    assert_eq!(reason(&mut cell, 10_201), Some(Reason::Open), "10 calls: a quarter of 20, but not under 10");
}

#[test]
fn never_connected_it_protects_by_the_policy_it_was_given() {
    let mut cell = cell();
    fail(&mut cell, 19, 100);
    assert_eq!(reason(&mut cell, 101), None);
    fail(&mut cell, 1, 200);
    assert_eq!(reason(&mut cell, 201), Some(Reason::Open));
}

#[test]
fn an_inherited_open_ends_a_little_after_its_own_end_and_probes_one_at_a_time() {
    let mut cell = told(open(12, 20_000), 0);
    cell.lost(at(100));
    assert_eq!(reason(&mut cell, 19_999), Some(Reason::Open));
    let mut now = 20_000;
    let ticket = loop {
        match cell.admit(at(now)) {
            Ok(ticket) => break ticket,
            Err(refusal) => assert_eq!(refusal.reason, Reason::Open),
        }
        now += 10;
        assert!(now <= 22_010, "a tenth of the wait at most");
    };
    assert!(ticket.probe.is_some());
    assert_eq!(reason(&mut cell, now + 1), Some(Reason::ProbesTaken));
    end(&mut cell, ticket, Outcome::Failure, now + 5);
    assert!(cell.admit(at(now + 6)).is_ok() || reason(&mut cell, now + 6) == Some(Reason::Open));
}

#[test]
fn half_open_without_the_server_rests_for_one_probe_and_then_probes_alone() {
    let mut cell = told(half_open(12), 0);
    cell.lost(at(100));
    assert_eq!(reason(&mut cell, 101), Some(Reason::Open), "probes of the fleet may still run");
    assert!(cell.admit(at(3_100)).unwrap().probe.is_some());
}

#[test]
fn overrides_stand_above_the_local_breaker_until_their_own_end_or_an_hour() {
    let mut cell = told(overridden(OverrideKind::ForcedOpen, 12, Some(30_000)), 0);
    cell.lost(at(100));
    assert_eq!(reason(&mut cell, 29_999), Some(Reason::ForcedOpen));
    assert!(cell.admit(at(30_000)).unwrap().probe.is_some(), "then it is careful");

    let mut cell = told(overridden(OverrideKind::ForcedOpen, 12, None), 0);
    cell.lost(at(100));
    assert_eq!(reason(&mut cell, 3_600_099), Some(Reason::ForcedOpen));
    assert_eq!(reason(&mut cell, 3_600_100), None);

    let mut cell = told(overridden(OverrideKind::Disabled, 12, None), 0);
    cell.lost(at(100));
    let ticket = cell.admit(at(200)).unwrap();
    assert!(!ticket.counted);
}

#[test]
fn on_disconnect_counts_when_local_and_not_before() {
    let disconnected = |on_disconnect, now| {
        let mut cell = cell_with(|setup| setup.on_disconnect = Some(on_disconnect));
        tell(&mut cell, open(12, 60_000), 0);
        reason(&mut cell, now)
    };
    assert_eq!(disconnected(OnDisconnect::Allow, 9_000), Some(Reason::Open), "STALE");
    assert_eq!(disconnected(OnDisconnect::Allow, 10_000), None);
    assert_eq!(disconnected(OnDisconnect::Deny, 10_000), Some(Reason::Disconnected));
    assert_eq!(disconnected(OnDisconnect::Local, 10_000), Some(Reason::Open));
}

#[test]
fn an_override_stands_above_on_disconnect() {
    let mut cell = cell_with(|setup| setup.on_disconnect = Some(OnDisconnect::Allow));
    tell(&mut cell, overridden(OverrideKind::ForcedOpen, 12, None), 0);
    assert_eq!(reason(&mut cell, 20_000), Some(Reason::ForcedOpen));
}

#[test]
fn back_with_the_server_its_word_counts_and_the_local_trip_is_forgotten() {
    let mut cell = told(closed(11), 0);
    cell.lost(at(100));
    fail(&mut cell, 20, 200);
    assert_eq!(reason(&mut cell, 201), Some(Reason::Open));
    tell(&mut cell, closed(11), 300);
    assert_eq!((cell.freshness(), reason(&mut cell, 301)), (Freshness::Fresh, None));
    cell.lost(at(400));
    assert_eq!(reason(&mut cell, 401), None, "with empty tallies");
}

#[test]
fn a_status_that_comes_while_stale_is_what_the_local_breaker_goes_on_from() {
    let mut cell = told(closed(11), 0);
    cell.lost(at(100));
    assert!(cell.apply(open(12, 5_000), Source::Answer, at(200)));
    assert_eq!((cell.freshness(), reason(&mut cell, 201)), (Freshness::Stale, Some(Reason::Open)));
}

#[test]
fn each_turn_of_freshness_is_told_once() {
    let mut cell = told(closed(11), 0);
    assert_eq!(cell.step(at(0), true).turned, Some((Freshness::Local, Freshness::Fresh)));
    assert_eq!(cell.due(), Some(at(8_000)));
    assert_eq!(cell.step(at(8_000), true).turned, Some((Freshness::Fresh, Freshness::Stale)));
    assert_eq!(cell.step(at(10_000), true).turned, Some((Freshness::Stale, Freshness::Local)));
    assert_eq!((cell.step(at(10_001), true).turned, cell.due()), (None, None));
}

#[test]
fn a_step_leaves_nothing_due_at_once() {
    let statuses =
        [closed(11), open(11, 50), half_open(11), overridden(OverrideKind::ForcedOpen, 11, Some(50))];
    for status in statuses {
        let mut cell = told(status.clone(), 0);
        for now in 0..12_000 {
            if now % 7 == 0 {
                match cell.admit(at(now)) {
                    Ok(ticket) => end(&mut cell, ticket, Outcome::Failure, now),
                    Err(_) => cell.rejected(at(now)),
                }
            }
            let step = cell.step(at(now), true);
            if step.ask {
                cell.refused(None, at(now));
            }
            if now == 6_000 {
                cell.lost(at(now));
            }
            assert!(cell.due().is_none_or(|due| due > at(now)), "{status:?} at {now}: {:?}", cell.due());
        }
    }
}
