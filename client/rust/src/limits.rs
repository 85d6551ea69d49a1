//! Every limit and every period of the client, in one place.

use std::time::Duration;

/// Breakers that one client watches. A handle past it is never sent anywhere: its breaker is LOCAL.
pub(crate) const BREAKERS_MAX: usize = 10_000;
/// Names on one stream: the server's limit.
pub(crate) const NAMES_PER_STREAM_MAX: usize = 1_000;
/// Streams that handles made one by one may spread over before they are merged into one.
pub(crate) const STREAMS_MAX: usize = 3;
/// Entries of one Report: half of the server's limit, because each is answered with a status.
pub(crate) const ENTRIES_PER_REPORT_MAX: usize = 500;
/// The largest message that is taken from the server.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Causes that one entry counts apart: the server's limit.
pub(crate) const CAUSES_PER_ENTRY_MAX: usize = 32;
/// The largest count of an entry: the server's limit.
pub(crate) const COUNT_MAX: u64 = 1_000_000;
/// Reports under way at once.
pub(crate) const REPORTS_IN_FLIGHT_MAX: usize = 8;
/// Calls that wait for a probe at one breaker at once; one more is rejected at once.
pub(crate) const WAITERS_MAX: usize = 1_024;
/// Probes of one breaker that are out with callers at once.
pub(crate) const PROBES_OUT_MAX: usize = 1_000;
/// A policy in the cache directory is not larger than this.
pub(crate) const CACHED_BYTES_MAX: usize = 64 * 1024;
/// A settings file is not larger than this.
pub(crate) const SETTINGS_BYTES_MAX: usize = 64 * 1024;
/// The longest explanation that a rejection carries, in bytes.
pub(crate) const EXPLANATION_BYTES_MAX: usize = 1_024;

/// Names of breakers that a process remembers for its rejections.
pub(crate) const PLATES_MAX: usize = 100_000;
/// The latest explanations of a breaker that rejections of the past can still show.
pub(crate) const SENTENCES_KEPT: usize = 8;

/// While something may trip, outcomes are looked at so often,
pub(crate) const LOOK_BRISK: Duration = Duration::from_millis(20);
/// for so long after the last failure,
pub(crate) const BRISK_FOR: Duration = Duration::from_secs(1);
/// and else so often: what a breaker's thread does not tell by itself is at most so old.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// A hint to come again is rounded up by so much, which covers a timer that fires late.
pub(crate) const RETRY_SLACK: Duration = Duration::from_millis(5);

/// A stream that is silent for so long is not to be relied on.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_secs(8);
/// What a stream delivers before it said its ttl.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(10);
/// A ttl above this is taken for this: no stale answer lasts for ever.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(60);
/// A Report unanswered for so long says that the server is away.
pub(crate) const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(1);
/// An OPEN or an override that a client knows from before it was cut off holds at most so long.
pub(crate) const INHERITED_MAX: Duration = Duration::from_secs(3_600);

/// Outcomes leave after so long.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// Two entries of one breaker are never closer than this.
pub(crate) const FLUSH_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// A probe that nobody used goes back after so long.
pub(crate) const PROBE_HELD_MAX: Duration = Duration::from_secs(5);
/// A refused ask is not repeated sooner than this.
pub(crate) const ASK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// Nor does a hint keep a client from asking for longer than this.
pub(crate) const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);
/// OPEN is over, but the news of HALF_OPEN is still on its way: clients that ask meanwhile spread over this.
pub(crate) const ASK_WITHIN_AFTER_OPEN: Duration = Duration::from_millis(50);

/// Handles made within so long of one another share a stream.
pub(crate) const DEBOUNCE: Duration = Duration::from_millis(50);
/// Reconnects wait at least so long,
pub(crate) const RECONNECT_MIN: Duration = Duration::from_millis(200);
/// and at most so long, always under the time that an answer stays STALE.
pub(crate) const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// A connection attempt.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The answer to a Watch: its headers.
pub(crate) const WATCH_TIMEOUT: Duration = Duration::from_secs(4);
/// A Report.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// An Acquire.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pings of an idle connection.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(10);
/// The last flush.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
