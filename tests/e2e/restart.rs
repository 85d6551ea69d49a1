//! Killed, started again, started where it cannot: the server as a process of its own.

use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt, path::Path};

use panelboard_proto::v1;
use tempfile::TempDir;

use crate::support::*;

const NAME: &str = "t/a";

/// A folder with a policy file `policies.yaml`: a wait of ten minutes, probes of 2 s.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let policy = test_policy("test", "\"t/**\"").replace("wait: 10s", "wait: 600s");
    write(
        folder.path(),
        "policies.yaml",
        &format!("policies:\n{}", policy.replace("probe_timeout: 1s", "probe_timeout: 20s")),
    );
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

const POLICIES: [&str; 2] = ["--policies", "policies.yaml"];

async fn report(service: &mut Service, entry: v1::ReportEntry) -> v1::ReportResult {
    let request = v1::ReportRequest { client: None, entries: vec![entry] };
    within("Report", service.report(request)).await.unwrap().into_inner().results.remove(0)
}

async fn look(service: &mut Service) -> Result<v1::BreakerStatus, tonic::Status> {
    let request = v1::GetBreakerRequest { breaker: NAME.into() };
    Ok(within("GetBreaker", service.get_breaker(request)).await?.into_inner().status.unwrap())
}

async fn incidents(service: &mut Service) -> Vec<v1::Incident> {
    let request = v1::ListTransitionsRequest { breaker: NAME.into(), ..Default::default() };
    within("ListTransitions", service.list_transitions(request)).await.unwrap().into_inner().incidents
}

/// Opens the breaker and waits until that is durable, which it is a moment after it is told.
async fn trip(process: &Process) -> v1::BreakerStatus {
    let before = commits(process).await;
    let opened = report(&mut process.service().await, failures(NAME, 20)).await.status.unwrap();
    assert_eq!(opened.state(), v1::State::Open);
    commit_after(process, before).await;
    opened
}

async fn commits(process: &Process) -> u64 {
    let metrics = process.get("/metrics").await.1;
    let count = metrics.lines().find_map(|line| line.strip_prefix("panelboard_store_commit_seconds_count "));
    count.map_or(0, |count| count.parse().unwrap())
}

async fn commit_after(process: &Process, before: u64) {
    let committed = async { while commits(process).await <= before {} };
    within("a commit", committed).await;
}

#[tokio::test]
async fn killed_while_open_it_comes_back_open_with_what_is_left_of_its_wait_in_a_later_generation() {
    let folder = folder();
    let process = Process::start(folder.path(), &POLICIES).await;
    let before = trip(&process).await;
    let history = incidents(&mut process.service().await).await;
    process.kill().await;

    let process = Process::start(folder.path(), &POLICIES).await;
    let mut service = process.service().await;
    let after = look(&mut service).await.unwrap();
    assert_eq!((after.state(), after.admission()), (v1::State::Open, v1::Admission::Reject));
    assert!(generation(&after) > generation(&before));
    let (was, is) = (millis(before.remaining.as_ref()).unwrap(), millis(after.remaining.as_ref()).unwrap());
    assert!(is < was && is > 300_000, "{was} ms before, {is} ms after");
    assert_eq!(after.last_transition, before.last_transition, "it is still explained");
    assert_eq!(incidents(&mut service).await, history);
    assert_eq!(history.len(), 1);

    // A report from before the crash changes nothing.
    let late = v1::ReportEntry { generation: before.generation, ..failures(NAME, 1) };
    assert_eq!(report(&mut service, late).await.result(), v1::EntryResult::StaleGeneration);
}

#[tokio::test]
async fn killed_in_half_open_it_is_open_for_one_probe_deadline_and_a_second() {
    let folder = folder();
    let policies = fs::read_to_string(folder.path().join("policies.yaml")).unwrap();
    write(folder.path(), "policies.yaml", &policies.replace("wait: 600s", "wait: 1s"));
    let process = Process::start(folder.path(), &POLICIES).await;
    let mut service = process.service().await;
    let mut watcher = Watcher::open(&mut service, None, &[NAME], &[]).await.unwrap();
    watcher.snapshot().await;
    trip(&process).await;
    while watcher.status().await.state() != v1::State::HalfOpen {}
    // A probe is leased only once the period is durable.
    let request = v1::AcquireRequest { client: None, breaker: NAME.into() };
    let grant = granted(&service.acquire(request).await.unwrap().into_inner());
    process.kill().await;

    let mut process = Process::start(folder.path(), &POLICIES).await;
    let mut service = process.service().await;
    let status = look(&mut service).await.unwrap();
    assert_eq!(status.state(), v1::State::Open);
    let left = millis(status.remaining.as_ref()).unwrap();
    assert!(left <= 21_000 && left > 1_000, "{left} ms");
    let why = status.last_transition.as_ref().unwrap();
    assert_eq!(
        (why.reason(), why.from(), why.to()),
        (v1::TransitionReason::Restored, v1::State::HalfOpen, v1::State::Open)
    );
    assert_eq!(
        (why.generation, why.explanation.contains("half-open when the server stopped")),
        (status.generation, true)
    );
    process.logged("OPEN (was HALF_OPEN").await;
    let late = report(&mut service, probe_result(NAME, &grant, true)).await;
    assert_eq!(late.result(), v1::EntryResult::StaleGeneration);
    let history = incidents(&mut service).await;
    assert_eq!((history.len(), history[0].reopenings), (1, 0), "a restart is no reopening");
}

#[tokio::test]
async fn a_breaker_whose_policy_is_gone_does_not_exist_until_one_matches_again() {
    let folder = folder();
    let process = Process::start(folder.path(), &POLICIES).await;
    let before = trip(&process).await;
    process.kill().await;
    let policies = fs::read_to_string(folder.path().join("policies.yaml")).unwrap();
    write(folder.path(), "policies.yaml", &policies.replace("t/**", "u/**"));

    let process = Process::start(folder.path(), &POLICIES).await;
    let mut service = process.service().await;
    assert_eq!(look(&mut service).await.unwrap_err().code(), tonic::Code::NotFound);
    let mut watcher = Watcher::open(&mut service, None, &["**"], &[]).await.unwrap();
    watcher.snapshot().await;
    // The wait has gone on meanwhile, and whoever watches hears of it without a call.
    write(folder.path(), "policies.yaml", &policies);
    let back = watcher.status().await;
    assert_eq!((back.name.as_str(), back.state()), (NAME, v1::State::Open));
    assert_eq!(back.last_transition, before.last_transition);
}

#[tokio::test]
async fn a_memory_store_starts_empty() {
    let folder = folder();
    let arguments = [&POLICIES[..], &["--store", "memory"]].concat();
    let process = Process::start(folder.path(), &arguments).await;
    trip(&process).await;
    process.kill().await;
    let process = Process::start(folder.path(), &arguments).await;
    assert_eq!(look(&mut process.service().await).await.unwrap_err().code(), tonic::Code::NotFound);
    assert!(!folder.path().join("panelboard-data").exists());
}

/// Starts a server that cannot, and compares its exit code and what it says.
async fn refused(folder: &Path, arguments: &[&str], code: i32, parts: &[&str]) {
    let ports = ["--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"];
    let output = run_to_end(folder, &[arguments, &ports].concat()).await;
    assert_eq!(output.code, Some(code), "{output:?}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part:?} is not in\n{}", output.stderr);
    }
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
}

#[tokio::test]
async fn a_data_file_that_is_empty_or_garbage_is_refused_and_left_alone() {
    let folder = folder();
    let process = Process::start(folder.path(), &[]).await;
    process.kill().await;
    let data = folder.path().join("panelboard-data");
    let file =
        fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    for (bytes, said) in [(&b""[..], "empty"), (&[0x5a; 100_000], "")] {
        fs::write(&file, bytes).unwrap();
        refused(folder.path(), &[], 1, &["panelboard: ", file.file_name().unwrap().to_str().unwrap(), said])
            .await;
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
}

#[tokio::test]
async fn a_data_dir_that_cannot_be_made_is_refused() {
    let folder = folder();
    write(folder.path(), "occupied", "a file");
    refused(folder.path(), &["--data-dir", "occupied"], 1, &["occupied"]).await;
    refused(folder.path(), &["--data-dir", "occupied/within"], 1, &["occupied/within"]).await;
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    // For root nothing is closed.
    if fs::write(closed.join("probe"), "").is_err() {
        refused(folder.path(), &["--data-dir", "closed"], 1, &["closed"]).await;
    }
}

#[tokio::test]
async fn a_second_server_on_the_same_data_or_the_same_port_is_refused() {
    let folder = folder();
    let first = Process::start(folder.path(), &[]).await;
    refused(folder.path(), &[], 1, &["panelboard-data", "another"]).await;
    for flag in ["--grpc-addr", "--http-addr"] {
        let taken = if flag == "--grpc-addr" { &first.grpc } else { &first.http };
        let other = if flag == "--grpc-addr" { "--http-addr" } else { "--grpc-addr" };
        let arguments = [flag, taken, other, "127.0.0.1:0", "--data-dir", "elsewhere"];
        let output = run_to_end(folder.path(), &arguments).await;
        assert_eq!(output.code, Some(1), "{output:?}");
        for part in ["cannot listen on", taken, flag] {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
    }
    first.service().await;
}

#[tokio::test]
async fn policies_that_are_not_valid_are_told_with_file_and_line_and_exit_2() {
    let folder = folder();
    let policies = fs::read_to_string(folder.path().join("policies.yaml")).unwrap();
    write(folder.path(), "policies.yaml", &policies.replace("failure_rate: 50%", "failure_rate: 101%"));
    refused(folder.path(), &POLICIES, 2, &["policies.yaml:6", "101", "does not start"]).await;
    let output = run_to_end(folder.path(), &["check", "policies.yaml"]).await;
    let said = format!("{}{}", output.stdout, output.stderr);
    assert_eq!((output.code, said.contains("policies.yaml:6")), (Some(2), true), "{said}");
    refused(folder.path(), &["--policies", "nowhere.yaml"], 2, &["nowhere.yaml"]).await;

    write(folder.path(), "policies.yaml", &policies);
    let output = run_to_end(folder.path(), &["check", "policies.yaml"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[tokio::test]
async fn an_edit_that_is_not_valid_leaves_the_last_good_policies_in_force() {
    let folder = folder();
    let mut process = Process::start(folder.path(), &POLICIES).await;
    let mut service = process.service().await;
    report(&mut service, failures(NAME, 1)).await;
    let before = look(&mut service).await.unwrap();
    write(folder.path(), "policies.yaml", "policies:\n  - nane: typo\n");
    let line = process.logged("the last good ones stay in force").await;
    assert_eq!(line["level"], "ERROR");
    assert!(line["message"].as_str().unwrap().contains("policies.yaml:2"), "{line}");
    assert_eq!(look(&mut service).await.unwrap().version, before.version);
}

#[tokio::test]
async fn it_starts_beside_the_variables_that_kubernetes_injects() {
    let folder = folder();
    let injected = [
        ("PANELBOARD_PORT", "tcp://10.0.0.1:50051"),
        ("PANELBOARD_PORT_50051_TCP", "tcp://10.0.0.1:50051"),
        ("PANELBOARD_PORT_50051_TCP_ADDR", "10.0.0.1"),
        ("PANELBOARD_PORT_50051_TCP_PORT", "50051"),
        ("PANELBOARD_PORT_50051_TCP_PROTO", "tcp"),
        ("PANELBOARD_SERVICE_HOST", "10.0.0.1"),
        ("PANELBOARD_SERVICE_PORT", "50051"),
        ("PANELBOARD_SERVICE_PORT_GRPC", "50051"),
    ];
    let process = Process::start_with(folder.path(), &POLICIES, &injected).await;
    trip(&process).await;
    assert!(process.grpc.starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn the_configuration_is_printed_with_where_each_value_came_from() {
    let folder = folder();
    let output = run_to_end(folder.path(), &["--print-config", "--store", "memory"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    let line = |name: &str| output.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("store").contains("memory") && line("store").contains("--store"), "{}", output.stdout);
    assert!(
        line("grpc-addr").contains("127.0.0.1:50051") && line("grpc-addr").contains("default"),
        "{}",
        output.stdout
    );
    assert!(!folder.path().join("panelboard-data").exists(), "nothing was started");
}

#[tokio::test]
async fn a_transition_is_one_line_that_explains_it() {
    let folder = folder();
    let mut process = Process::start(folder.path(), &POLICIES).await;
    let causes = HashMap::from([("timeout".to_string(), 20)]);
    report(&mut process.service().await, v1::ReportEntry { causes, ..failures(NAME, 20) }).await;
    let line = process.logged("t/a OPEN").await;
    let said = line["message"].as_str().unwrap();
    assert!(said.starts_with("t/a OPEN (was CLOSED "), "{said}");
    let why = "failure rate 100 % >= 50 % (20 of 20 in 1m), 1 of 1 instances, top cause timeout 20; retry in 10m; policy test rev 1; owner team-test";
    assert!(said.ends_with(why), "{said}");
    assert_eq!((&line["level"], &line["breaker"]), (&"INFO".into(), &NAME.into()));
    // Nothing per call above DEBUG.
    assert!(process.log.iter().all(|line| !line["message"].as_str().unwrap_or_default().contains("Report")));
}
