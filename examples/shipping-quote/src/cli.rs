//! What the three command lines have in common.

use std::io::{self, Write};
use std::time::Duration;

/// Reads `250ms`, `1.5s` or `2m`: a decimal number with its unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused =
        || format!("{text:?} is not a duration: give a number with its unit, like 250ms, 1.5s or 2m");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(refused)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(refused()),
    };
    let number: f64 = number.parse().map_err(|_| refused())?;
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|_| refused())
}

/// Writes one line to stdout at once. A reader that has gone is not our mistake: the error ends the program.
pub fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Milliseconds since 1970: what the demo's processes compare their instants by, all on one machine.
pub fn unix_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Waits for ctrl-c or SIGTERM; with `parent` also for the end of stdin, which a parent holds open while it lives.
pub async fn told_to_stop(parent: bool) {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            // Without a handler the signal still ends the process, by its default.
            Err(_) => std::future::pending().await,
        }
    };
    let orphaned = async {
        if !parent {
            std::future::pending().await
        }
        let (gone, wait) = tokio::sync::oneshot::channel::<()>();
        // A plain thread: tokio's stdin would keep the runtime from shutting down until a line arrives.
        std::thread::spawn(move || {
            _ = io::copy(&mut io::stdin(), &mut io::sink());
            drop(gone);
        });
        _ = wait.await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
        () = orphaned => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "5", "s", "-1s", "1 s", "1d", "1e400s", "NaNs", "infs"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
