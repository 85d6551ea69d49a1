//! A page of metrics, and what a scraper asks of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::{Command, Stdio},
};

/// A scraped page.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) String);

/// A metric of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
}

impl Page {
    /// The value of a series, given as it is written on the page.
    pub(crate) fn value(&self, series: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
    }

    /// Asserts that each of these lines is on the page.
    pub(crate) fn has(&self, lines: &[&str]) {
        for line in lines {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            assert_eq!(self.value(series), Some(value), "{series}\n{}", self.0);
        }
    }

    /// Series of one breaker.
    pub(crate) fn of(&self, breaker: &str) -> Vec<&str> {
        let label = format!("breaker=\"{breaker}\"");
        self.0.lines().filter(|line| line.contains(&label)).collect()
    }

    /// Metrics by name, with the labels of all their series.
    pub(crate) fn metrics(&self) -> BTreeMap<String, Metric> {
        let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
        for line in self.0.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                metrics.entry(name.into()).or_default().kind = kind.into();
            } else if !line.starts_with('#') && !line.is_empty() {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                let parts = ["_bucket", "_sum", "_count"].into_iter();
                let base =
                    parts.filter_map(|part| name.strip_suffix(part)).find(|base| metrics.contains_key(*base));
                let metric = metrics.get_mut(base.unwrap_or(name)).expect("a type before its series");
                // Values of labels in these tests hold no comma that is followed by a word and an equals sign.
                let labels = line.split_once('{').map_or("", |(_, labels)| labels);
                let labels =
                    labels.split(',').filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
                metric.labels.extend(labels.filter(|label| *label != "le").map(str::to_owned));
            }
        }
        metrics
    }

    /// Asserts that Prometheus' own tool has nothing to say about it.
    pub(crate) fn is_clean(&self) {
        promtool(&["check", "metrics"], &self.0);
    }
}

/// Runs `promtool` with this input; skips loudly where it is not installed.
pub(crate) fn promtool(arguments: &[&str], input: &str) {
    let spawned = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            // Past the test harness' capture, so that it is seen.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: promtool {arguments:?} cannot run ({error}): install prometheus"
            );
            return;
        }
    };
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && !said.contains("FAILED"), "promtool {arguments:?}: {said}");
    if arguments == ["check", "metrics"] {
        assert_eq!(said, "", "promtool {arguments:?}");
    }
}
