//! The programs as people start them: real processes with flags.

use std::process::Stdio;
use std::time::Duration;

use shipping_quote::tally::Stats;
use shipping_quote::upstream::{Upstream, UpstreamError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const PROVIDER: &str = env!("CARGO_BIN_EXE_provider");
const QUOTE_CLIENT: &str = env!("CARGO_BIN_EXE_quote-client");
const STORY: &str = env!("CARGO_BIN_EXE_story");
const QUOTE: &str = "/quote?postcode=12345";

/// Starts a program and reads its address, which must be its first line.
async fn start(program: &str, args: &[&str]) -> (Child, String) {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    timeout(Duration::from_secs(60), stdout.read_line(&mut line)).await.unwrap().unwrap();
    (child, line.trim().to_owned())
}

async fn ask(addr: &str, patience: Duration) -> Result<String, UpstreamError> {
    let answer = Upstream::new(addr, None, patience)?.get(QUOTE).await?;
    Ok(String::from_utf8(answer).unwrap())
}

async fn check(flags: &[&str], expected: Result<&str, u16>) {
    let (_child, addr) = start(PROVIDER, flags).await;
    let answer = ask(&addr, Duration::from_secs(60)).await.map_err(|error| match error {
        UpstreamError::Status { status, .. } => status,
        error => panic!("{flags:?}: {error}"),
    });
    assert_eq!(answer.as_deref().map_err(|status| *status), expected, "{flags:?}");
}

#[tokio::test]
async fn the_provider_prints_its_address_and_does_what_its_flags_say() {
    let good = r#"{"amount":"12.34","currency":"EUR"}"#;
    check(&[], Ok(good)).await;
    check(&["--amount", "0.00"], Ok(r#"{"amount":"0.00","currency":"EUR"}"#)).await;
    check(&["--status", "503"], Err(503)).await;
    check(&["--fail-rate", "100"], Err(503)).await;
    check(&["--fail-rate", "100", "--status", "500"], Err(500)).await;
    check(&["--fail-rate", "0", "--seed", "7"], Ok(good)).await;
    check(&["--slow", "50ms"], Ok(good)).await;
    check(&["--malformed"], Ok(r#"{"currency":"EUR"}"#)).await;
    check(&["--malformed", "missing-currency"], Ok(r#"{"amount":"12.34"}"#)).await;
    check(&["--token", "secret"], Err(401)).await;
    for mute in [&["--hang"][..], &["--slow", "1.5s"]] {
        let (_child, addr) = start(PROVIDER, mute).await;
        assert_eq!(ask(&addr, Duration::from_millis(100)).await, Err(UpstreamError::Timeout), "{mute:?}");
    }
}

#[tokio::test]
async fn the_provider_refuses_nonsense_with_exit_code_2() {
    let nonsense: [&[&str]; 6] = [
        &["--status", "99"],
        &["--fail-rate", "101"],
        &["--slow", "5"],
        &["--hang", "--malformed"],
        &["--seed", "1"],
        &["--addr", "localhost"],
    ];
    for flags in nonsense {
        let ended = Command::new(PROVIDER).args(flags).kill_on_drop(true).output();
        let ended = timeout(Duration::from_secs(60), ended).await.unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{flags:?}");
        assert!(!ended.stderr.is_empty(), "{flags:?}");
    }
}

#[tokio::test]
async fn a_client_without_a_server_is_protected_by_a_breaker_of_its_own() {
    let (_provider, provider) = start(PROVIDER, &["--status", "503"]).await;
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../policies/shipping-quote.yaml");
    let args = ["--provider", &provider, "--local-only", "--policy", policy];
    let (_client, face) = start(QUOTE_CLIENT, &args).await;
    for _ in 0..6 {
        let unavailable = ask(&face, Duration::from_secs(60)).await.unwrap_err();
        let body = r#"{"status":"UNAVAILABLE"}"#.to_owned();
        assert_eq!(unavailable, UpstreamError::Status { status: 503, message: body });
    }
    let stats = Upstream::new(&face, None, Duration::from_secs(60)).unwrap().get("/stats").await.unwrap();
    let stats: Stats = serde_json::from_slice(&stats).unwrap();
    assert_eq!((stats.unavailable, stats.provider_calls, stats.rejected), (6, 4, 2));
    assert_eq!(stats.freshness, [("LOCAL".to_owned(), 6)].into());
}

/// A number of the table at the end of the story: shared, and one per process.
fn row(told: &str, label: &str) -> (u64, u64) {
    let line = told.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no row {label:?} in:\n{told}"));
    let mut numbers = line.trim_start()[label.len()..].split_whitespace().map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// What the story tells.
async fn told(flags: &[&str]) -> String {
    let mut story = Command::new(STORY);
    // What is built already is not built again with other features: only without it does cargo have to help.
    if std::path::Path::new(STORY).with_file_name("panelboard").is_file() {
        story.env_remove("CARGO");
    }
    let ended = story.args(flags).kill_on_drop(true).output();
    let ended = timeout(Duration::from_secs(600), ended).await.unwrap().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{told}\n{}", String::from_utf8_lossy(&ended.stderr));
    told
}

#[tokio::test]
async fn the_story_runs_to_its_end_and_the_shared_breaker_needs_fewer_calls_and_probes() {
    let told = told(&["--quick", "--chapter", "outage"]).await;
    for (label, at_least_times) in
        [("calls that reached the provider while down", 2), ("until everybody had stopped", 2), ("probes", 1)]
    {
        let (shared, own) = row(&told, label);
        assert!(shared > 0 && own >= shared * at_least_times, "{label}: {shared} and {own} in:\n{told}");
    }
}

/// A row of the table of the broken path: live, failed and rejected quotes of the sick one, and of the others.
fn phase(told: &str, name: &str) -> ([u64; 3], [u64; 3]) {
    let line = told.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no row {name:?} in:\n{told}"));
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [a, b, c, d, e, f] = numbers[..] else { panic!("{line:?}") };
    ([a, b, c], [d, e, f])
}

#[tokio::test]
async fn one_broken_path_cuts_off_one_process_and_keeps_nobody_else_out() {
    let told = told(&["--quick", "--chapter", "broken-path"]).await;
    let (sick, others) = phase(&told, "one path is broken");
    assert!(sick[1] > 0 && sick[2] > 0, "it fails, and then it is rejected:\n{told}");
    assert!(others[0] > 0 && others[1] == 0 && others[2] == 0, "the others miss nothing:\n{told}");
    let (_, others) = phase(&told, "the provider is down");
    assert!(others[2] > 0, "all stop:\n{told}");
    let (sick, others) = phase(&told, "it is back, the path is not");
    assert!(others[0] > 0 && others[1] == 0 && others[2] == 0, "the others are back:\n{told}");
    assert_eq!(sick[0], 0, "the sick one is not:\n{told}");
}
