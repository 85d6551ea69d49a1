//! Quarantines.

use panelboard_core::{Held, Quarantine};

use super::{
    Times,
    crossing::{causes_to_wire, reading_to_crossing},
    duration_to_wire, wall_to_wire,
};
use crate::v1;

/// A quarantine as a message. `unix_ms` is when it began by the wall clock.
pub fn quarantine_to_wire(quarantine: &Quarantine, times: Times, unix_ms: u64) -> v1::Quarantine {
    let wire = v1::Quarantine {
        until_tick: times.tick(quarantine.until),
        remaining: times.left(quarantine.until),
        explanation: sentence(quarantine),
        service: quarantine.instance.service.to_string(),
        instance: quarantine.instance.id.to_string(),
        wait: Some(duration_to_wire(quarantine.wait)),
        in_a_row: quarantine.before,
        active_instances: quarantine.active_instances,
        required_instances: quarantine.required_instances,
        policy: quarantine.policy_name.to_string(),
        policy_revision: quarantine.policy_revision,
        time: Some(wall_to_wire(unix_ms)),
        top_causes: causes_to_wire(&quarantine.top_causes),
        ..v1::Quarantine::default()
    };
    match &quarantine.why {
        Held::Crossed { reading, lasted } => v1::Quarantine {
            reason: v1::QuarantineReason::Crossed.into(),
            crossing: Some(reading_to_crossing(reading)),
            lasted: Some(duration_to_wire(*lasted)),
            ..wire
        },
        Held::Relapsed { reading } => v1::Quarantine {
            reason: v1::QuarantineReason::Relapsed.into(),
            crossing: Some(reading_to_crossing(reading)),
            ..wire
        },
        Held::RetryAfter { asked } => v1::Quarantine {
            reason: v1::QuarantineReason::RetryAfter.into(),
            asked: Some(duration_to_wire(*asked)),
            ..wire
        },
    }
}

/// Why the instance that hears it is kept out: it knows its own name and how long.
fn sentence(quarantine: &Quarantine) -> String {
    let why = quarantine.why;
    if !why.is_sick() {
        return format!("{why}, the others go on");
    }
    let (active, required) = (quarantine.active_instances, quarantine.required_instances);
    let cause = quarantine.top_causes.first();
    let cause = cause.map(|(cause, n)| format!(", top cause {cause} {n}")).unwrap_or_default();
    format!("{why}, the others go on: 1 of {active} instances, {required} needed to open{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use panelboard_core::{Generation, Instance, Rate, Reading, Rule, Timestamp, Window};
    use std::time::Duration;

    fn quarantine(why: Held) -> Quarantine {
        Quarantine {
            instance: Instance::new("checkout", "pod-7"),
            event: panelboard_core::QuarantineEvent::Began,
            why,
            at: Timestamp::from_millis(1_000),
            until: Timestamp::from_millis(6_000),
            wait: Duration::from_secs(5),
            top_causes: vec![(panelboard_core::Classification::default().cause("timeout"), 25)],
            before: 2,
            generation: Generation { epoch: 1, revision: 2 },
            active_instances: 12,
            required_instances: 3,
            policy_name: "checkout".into(),
            policy_revision: 7,
        }
    }

    #[test]
    fn each_reason_carries_its_numbers_and_a_sentence() {
        let rule = Rule::FailureRate {
            threshold: Rate::percent(50).unwrap(),
            window: Window::Within(Duration::from_secs(10)),
            minimum_calls: 20,
        };
        let reading = Reading { rule, calls: 25, matched: 25, crossed: true };
        let crossed = quarantine(Held::Crossed { reading, lasted: Duration::from_secs(1) });
        let left = Times::LeftFrom(Timestamp::from_millis(2_000));
        let wire = quarantine_to_wire(&crossed, left, 1_767_225_600_000);
        assert_eq!((wire.until_tick, wire.remaining.map(|span| span.seconds)), (None, Some(4)));
        let numbers = wire.crossing.as_ref().unwrap();
        assert_eq!((numbers.matched, numbers.calls, numbers.threshold), (25, 25, 5_000));
        assert_eq!((wire.in_a_row, wire.active_instances, wire.required_instances), (2, 12, 3));
        assert_eq!(
            wire.explanation,
            "its own failure rate 100 % >= 50 % (25 of 25 in 10 s) for 1 s, the others go on: 1 of 12 instances, 3 \
             needed to open, top cause timeout 25"
        );
        assert_eq!(quarantine_to_wire(&crossed, Times::Ticks, 0).until_tick, Some(6_000));

        let relapsed = quarantine_to_wire(&quarantine(Held::Relapsed { reading }), left, 0);
        assert_eq!(relapsed.reason(), v1::QuarantineReason::Relapsed);
        assert!(
            relapsed.explanation.starts_with("25 of its first 25 calls after the last quarantine failed")
        );

        let asked = Held::RetryAfter { asked: Duration::from_secs(30) };
        let asked = quarantine_to_wire(&quarantine(asked), left, 0);
        assert_eq!((asked.reason(), asked.crossing), (v1::QuarantineReason::RetryAfter, None));
        assert_eq!(asked.explanation, "the dependency asked it to wait 30 s, the others go on");
    }
}
