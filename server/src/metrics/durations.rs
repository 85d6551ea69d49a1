//! Durations, counted in buckets.

use std::{fmt::Write, time::Duration};

use super::families::{Family, Kind};

/// Upper bounds of the buckets.
const BOUNDS: [Duration; 10] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// How long things took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Durations {
    count: u64,
    sum: Duration,
    /// How many took at most each of [`BOUNDS`].
    buckets: [u64; BOUNDS.len()],
}

impl Durations {
    /// Counts one.
    pub(crate) fn record(&mut self, took: Duration) {
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
        for (bound, bucket) in BOUNDS.iter().zip(&mut self.buckets) {
            *bucket += u64::from(took <= *bound);
        }
    }
}

/// Names and values of labels. Both are words of ours, so that nothing has to be escaped.
pub(super) type Words = Vec<(&'static str, &'static str)>;

/// Writes a histogram in Prometheus' text format.
pub(super) fn write(
    page: &mut String,
    family: &Family,
    series: impl IntoIterator<Item = (Words, Durations)>,
) {
    debug_assert_eq!(family.kind, Kind::Histogram, "{}", family.name);
    let Family { name, help, .. } = family;
    put(page, format_args!("# HELP {name} {help}\n# TYPE {name} histogram\n"));
    for (words, durations) in series {
        let words: Vec<String> = words.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let bucket = |le: String| [words.as_slice(), &[format!("le=\"{le}\"")]].concat().join(",");
        for (bound, count) in BOUNDS.iter().zip(durations.buckets) {
            put(page, format_args!("{name}_bucket{{{}}} {count}\n", bucket(bound.as_secs_f64().to_string())));
        }
        put(page, format_args!("{name}_bucket{{{}}} {}\n", bucket("+Inf".into()), durations.count));
        let words = if words.is_empty() { String::new() } else { format!("{{{}}}", words.join(",")) };
        put(page, format_args!("{name}_sum{words} {}\n", durations.sum.as_secs_f64()));
        put(page, format_args!("{name}_count{words} {}\n", durations.count));
    }
    page.push('\n');
}

fn put(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_that_it_fits_in_and_a_bound_fits_itself() {
        let mut durations = Durations::default();
        for took in [Duration::from_millis(1), Duration::from_micros(1_001), Duration::from_secs(5)] {
            durations.record(took);
        }
        let mut page = String::new();
        let family = Family { name: "x_seconds", kind: Kind::Histogram, help: "X." };
        write(&mut page, &family, [(vec![("code", "OK")], durations)]);
        let expected = r#"# HELP x_seconds X.
# TYPE x_seconds histogram
x_seconds_bucket{code="OK",le="0.0001"} 0
x_seconds_bucket{code="OK",le="0.00025"} 0
x_seconds_bucket{code="OK",le="0.0005"} 0
x_seconds_bucket{code="OK",le="0.001"} 1
x_seconds_bucket{code="OK",le="0.0025"} 2
x_seconds_bucket{code="OK",le="0.005"} 2
x_seconds_bucket{code="OK",le="0.01"} 2
x_seconds_bucket{code="OK",le="0.05"} 2
x_seconds_bucket{code="OK",le="0.25"} 2
x_seconds_bucket{code="OK",le="1"} 2
x_seconds_bucket{code="OK",le="+Inf"} 3
x_seconds_sum{code="OK"} 5.002001
x_seconds_count{code="OK"} 3

"#;
        assert_eq!(page, expected);
    }
}
