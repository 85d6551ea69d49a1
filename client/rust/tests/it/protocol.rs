//! What docs/client-protocol.md states in numbers is what the rules compute.

use std::time::Duration;

use panelboard_core::{Generation, Instance, admitted_after};

const TEXT: &str = include_str!("../../../../docs/client-protocol.md");

#[test]
fn the_delays_in_the_document_are_the_ones_that_the_rules_compute() {
    let mut rows = 0;
    for row in TEXT.lines().skip_while(|line| !line.starts_with("| service |")).skip(2) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, service, instance, epoch, revision, spread, delay, _] = cells[..] else { break };
        let millis = |text: &str| text.trim_end_matches(" ms").parse().map(Duration::from_millis).unwrap();
        let generation = Generation { epoch: epoch.parse().unwrap(), revision: revision.parse().unwrap() };
        let instance = Instance::new(service.trim_matches('`'), instance.trim_matches('`'));
        let computed = admitted_after(&instance, generation, millis(spread));
        assert_eq!(computed, millis(delay), "{row}");
        rows += 1;
    }
    assert!(rows >= 5, "{rows} rows");
}
