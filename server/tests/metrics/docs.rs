//! `docs/metrics.md` and the page say the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    World,
    breaker::POLICY,
    page::{Metric, promtool},
    server::live,
};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    std::fs::read_to_string(path).expect("the document")
}

/// The rows of the tables: name, type, labels.
fn documented(document: &str) -> BTreeMap<String, Metric> {
    let rows = document.lines().filter(|line| line.starts_with("| `panelboard_"));
    let metric = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else { panic!("four cells: {row}") };
        assert!(!meaning.is_empty(), "{row}");
        let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        (name.trim_matches('`').to_owned(), Metric { kind: kind.into(), labels })
    };
    rows.map(metric).collect()
}

/// The queries: each line of a `promql` block that is not a comment.
fn queries(document: &str) -> Vec<&str> {
    let blocks = document.split("```promql\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.flat_map(str::lines).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[tokio::test]
async fn the_document_lists_what_is_on_the_page_and_nothing_else() {
    let mut world = World::start(POLICY).await;
    live(&mut world).await;
    let page = world.scrape().await;
    page.is_clean();
    let mut documented = documented(&document());
    // What each client tells of itself is on its own page.
    documented.retain(|name, _| !name.starts_with("panelboard_client_"));
    assert_eq!(documented, page.metrics());
    let helped = page.0.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let helped: BTreeMap<_, _> = helped.map(|(name, help)| (name.to_owned(), help.to_owned())).collect();
    assert_eq!(helped.keys().collect::<Vec<_>>(), page.metrics().keys().collect::<Vec<_>>());
}

#[test]
fn the_queries_of_the_document_are_valid_and_ask_for_metrics_that_exist() {
    let document = document();
    let (queries, documented) = (queries(&document), documented(&document));
    assert!(queries.len() >= 5, "{queries:?}");
    let mut rules = String::from("groups:\n- name: documented\n  rules:\n");
    for (at, query) in queries.iter().enumerate() {
        rules.push_str(&format!("  - record: documented:query:{at}\n    expr: |-\n      {query}\n"));
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in query.split(|c| !is_word(c)).filter(|word| word.starts_with("panelboard_")) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let is_known = |name: &str| documented.contains_key(name);
            assert!(is_known(name) || base.is_some_and(is_known), "{name} in {query}");
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), rules).expect("written");
    promtool(&["check", "rules", &file.path().display().to_string()], "");
}
