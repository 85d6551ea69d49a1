//! Everything that looks random comes out of a seed given in: jitter, probe ids, the spread after closing.

use std::time::Duration;

use crate::{
    ids::{Generation, Instance, ProbeId},
    rate::Rate,
    time::{Timestamp, millis},
};

/// Mixes 64 bits (the finalizer of SplitMix64).
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hashes bytes (FNV-1a, 64 bits).
fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// When `instance` is admitted after a breaker closed: this much of `spread` later.
///
/// Every client and the server compute the same: FNV-1a over service, a zero byte and instance id; exclusive or
/// with epoch and, rotated left by 32, revision of the generation; mixed; the upper 32 bits are the fraction.
pub fn admitted_after(instance: &Instance, generation: Generation, spread: Duration) -> Duration {
    let hash = fnv1a(0xcbf2_9ce4_8422_2325, instance.service.as_bytes());
    let hash = fnv1a(fnv1a(hash, &[0]), instance.id.as_bytes());
    let hash = mix(hash ^ generation.epoch ^ generation.revision.rotate_left(32));
    Duration::from_millis(part(millis(spread), hash))
}

/// Up to `share` of `wait`, drawn from the seed for this generation.
pub(crate) fn jitter(seed: u64, generation: Generation, wait: Duration, share: u32) -> Duration {
    let most =
        u64::try_from(u128::from(millis(wait)) * u128::from(share) / u128::from(Rate::ALL.hundredths()))
            .unwrap_or(u64::MAX);
    let hash = mix(seed ^ mix(generation.epoch) ^ mix(generation.revision.wrapping_add(1)));
    // One more than the most, so that the whole share can be drawn.
    Duration::from_millis(part(most.saturating_add(1), hash))
}

/// The id of the `count`th probe of a generation.
pub(crate) fn probe_id(seed: u64, generation: Generation, count: u64, now: Timestamp) -> ProbeId {
    let mut hash = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    for word in [generation.epoch, generation.revision, count, now.as_millis()] {
        hash = mix(hash ^ word).wrapping_add(seed.rotate_left(17));
    }
    // Zero means "no probe" on the wire.
    ProbeId(mix(hash).max(1))
}

/// The part of `whole` that the upper half of `hash` stands for, as a fraction of 2^32.
fn part(whole: u64, hash: u64) -> u64 {
    u64::try_from((u128::from(whole) * u128::from(hash >> 32)) >> 32).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_covers_its_whole_length_evenly() {
        let (generation, spread) = (Generation { epoch: 7, revision: 9 }, Duration::from_secs(2));
        let mut quarters = [0; 4];
        for n in 0..4000 {
            let after = admitted_after(&Instance::new("checkout", &format!("pod-{n}")), generation, spread);
            quarters[usize::try_from(after.as_millis() / 500).unwrap()] += 1;
        }
        assert!(quarters.iter().all(|&n| (900..1100).contains(&n)), "{quarters:?}");
    }

    #[test]
    fn another_generation_draws_another_place() {
        let instance = Instance::new("checkout", "pod-1");
        let after = |revision| {
            admitted_after(&instance, Generation { epoch: 1, revision }, Duration::from_secs(3600))
        };
        assert_ne!(after(1), after(2));
        assert_eq!(after(1), after(1));
    }

    #[test]
    fn jitter_stays_within_its_share() {
        for revision in 0..1000 {
            let drawn = jitter(42, Generation { epoch: 1, revision }, Duration::from_secs(10), 1_000);
            assert!(drawn <= Duration::from_secs(1), "{drawn:?}");
        }
        assert_eq!(jitter(42, Generation::default(), Duration::from_secs(10), 0), Duration::ZERO);
    }
}
