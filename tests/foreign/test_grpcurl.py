"""What a person with grpcurl sees: every line of the README's tour, and readable errors."""

import re

import pytest

from conftest import SERVICE, answers
from stubs import PROTO


def ok(done):
    assert done.returncode == 0, done.stderr
    return answers(done.stdout)[0]


def one_failure(breaker):
    return {"entries": [{"breaker": breaker, "failures": 1}]}


def test_list_names_every_service(grpcurl):
    listed = grpcurl("list").stdout.split()
    assert SERVICE in listed
    assert "grpc.health.v1.Health" in listed
    # Each version of reflection lists itself only; test_buf_curl asks both.
    assert "grpc.reflection.v1.ServerReflection" in listed


@pytest.mark.parametrize("declared", ["rpc Acquire", "message ReportEntry", "enum EntryResult"])
def test_describe_shows_the_comments_of_the_contract(grpcurl, declared):
    kind, name = declared.split()
    contract = (PROTO / "panelboard/v1/breaker_service.proto").read_text()
    comment = re.search(rf"((?:^ *//.*\n)+) *{kind} {name}\b", contract, re.MULTILINE).group(1)
    first_line = comment.splitlines()[0].strip()
    symbol = f"{SERVICE}.{name}" if kind == "rpc" else f"panelboard.v1.{name}"
    described = grpcurl("describe", symbol)
    assert described.returncode == 0, described.stderr
    assert first_line in described.stdout


def test_acquire_grants_while_closed(grpcurl, breaker):
    answer = ok(grpcurl(f"{SERVICE}/Acquire", data={"breaker": breaker}))
    assert answer["status"]["state"] == "STATE_CLOSED"
    assert answer["status"]["admission"] == "ADMISSION_ALLOW"
    assert answer["grant"]["generation"] == answer["status"]["generation"]
    assert "rejection" not in answer


def test_failures_reported_by_hand_open_it_at_the_twentieth_and_each_answer_says_how_far_it_is(grpcurl, breaker):
    for reported in range(1, 20):
        result = ok(grpcurl(f"{SERVICE}/Report", data=one_failure(breaker)))["results"][0]
        assert result["result"] == "ENTRY_RESULT_COUNTED"
        assert result["status"]["state"] == "STATE_CLOSED", f"it opened at failure {reported}"
        assert result["progress"].startswith(f"CLOSED: {reported} of 20 calls, {reported} failed"), result["progress"]

    result = ok(grpcurl(f"{SERVICE}/Report", data=one_failure(breaker)))["results"][0]
    assert result["status"]["state"] == "STATE_OPEN"
    assert result["progress"].startswith("OPEN"), result["progress"]
    crossing = result["status"]["lastTransition"]["crossing"]
    assert (crossing["calls"], crossing["matched"]) == ("20", "20")

    rejected = ok(grpcurl(f"{SERVICE}/Acquire", data={"breaker": breaker}))
    assert rejected["rejection"]["reason"] == "REJECTION_REASON_OPEN"
    assert float(rejected["rejection"]["retryAfter"].rstrip("s")) > 0

    shown = ok(grpcurl(f"{SERVICE}/GetBreaker", data={"breaker": breaker}))
    assert shown["status"]["state"] == "STATE_OPEN"
    assert shown["status"]["policy"]["name"]
    assert shown["status"]["lastTransition"]["explanation"]
    assert shown["readings"]

    incidents = ok(grpcurl(f"{SERVICE}/ListTransitions", data={"breaker": breaker}))["incidents"]
    assert [incident["opened"]["to"] for incident in incidents] == ["STATE_OPEN"]
    assert "closed" not in incidents[0]


def test_watch_starts_with_the_snapshot_and_says_when_it_is_complete(grpcurl, breaker):
    # A watch has no end of its own: grpcurl's time limit ends it.
    watched = grpcurl(f"{SERVICE}/Watch", data={"breakers": [breaker]}, options=("-max-time", "2"))
    events = [next(iter(message)) for message in answers(watched.stdout)]
    assert events[:3] == ["started", "status", "snapshotComplete"]
    assert "DeadlineExceeded" in watched.stderr


def test_looking_does_not_create(grpcurl, breaker):
    looked = grpcurl(f"{SERVICE}/GetBreaker", data={"breaker": breaker})
    assert "Code: NotFound" in looked.stderr
    listed = ok(grpcurl(f"{SERVICE}/ListBreakers", data={"pattern": breaker}))
    assert listed.get("breakers", []) == []


def test_an_invalid_argument_lists_all_violations_readably(grpcurl):
    entries = [{"breaker": "-bad name-"}, {"breaker": ""}, {"breaker": "fine", "successes": 4_000_000_000}]
    refused = grpcurl(f"{SERVICE}/Report", data={"entries": entries})
    assert "Code: InvalidArgument" in refused.stderr
    for index in range(3):
        assert f"entries[{index}]" in refused.stderr, refused.stderr
    assert "google.rpc.BadRequest" in refused.stderr and "google.rpc.ErrorInfo" in refused.stderr
    # grpcurl prints what it cannot decode under this key, as base64.
    assert '"@value"' not in refused.stderr


def test_a_name_that_is_not_there_comes_with_what_was_looked_for(grpcurl):
    refused = grpcurl(f"{SERVICE}/Acquire", data={"breaker": "nobody/made-this"})
    assert "Code: NotFound" in refused.stderr
    assert "google.rpc.ResourceInfo" in refused.stderr and "nobody/made-this" in refused.stderr
    assert '"@value"' not in refused.stderr


def test_health_is_serving(grpcurl):
    assert ok(grpcurl("grpc.health.v1.Health/Check", data={}))["status"] == "SERVING"
