"""The process itself: killed without warning, and asked to stop. What a library in the test's own process cannot show."""

import time

import grpc
import pytest

from conftest import POLICIES, WITHIN
from panel import Panel

BREAKER = "foreign/lifecycle"


@pytest.fixture
def own_panel(tmp_path):
    """A server of this test's own, because it will be ended."""
    with Panel(tmp_path, policies=POLICIES) as running:
        yield running


def connected(panel, stubs):
    return stubs.grpc.BreakerServiceStub(grpc.insecure_channel(panel.grpc))


def trip(service, stubs):
    entry = stubs.breaker_service.ReportEntry(breaker=BREAKER, failures=20)
    answer = service.Report(stubs.breaker_service.ReportRequest(entries=[entry]), timeout=WITHIN)
    assert answer.results[0].status.state == stubs.transition.STATE_OPEN
    return answer.results[0].status


def look(service, stubs):
    return service.GetBreaker(stubs.breaker_service.GetBreakerRequest(breaker=BREAKER), timeout=WITHIN)


def test_killed_while_open_it_comes_back_open_with_the_remaining_wait_in_a_later_generation(own_panel, stubs):
    stored = commits(own_panel)
    before = trip(connected(own_panel, stubs), stubs)
    # A transition is published first and durable a moment later.
    wait_for_commit(own_panel, beyond=stored)
    own_panel.kill()
    own_panel.start()

    after = look(connected(own_panel, stubs), stubs).status
    assert after.state == stubs.transition.STATE_OPEN
    assert after.generation.epoch > before.generation.epoch
    # The wait of the policy is ten minutes.
    assert 0 < after.remaining.ToTimedelta().total_seconds() <= before.remaining.ToTimedelta().total_seconds() <= 600


def test_a_report_from_before_the_crash_changes_nothing(own_panel, stubs):
    service = connected(own_panel, stubs)
    granted = service.Acquire(stubs.breaker_service.AcquireRequest(breaker=BREAKER), timeout=WITHIN).grant
    own_panel.kill()
    own_panel.start()

    entry = stubs.breaker_service.ReportEntry(breaker=BREAKER, generation=granted.generation, failures=20)
    answer = connected(own_panel, stubs).Report(stubs.breaker_service.ReportRequest(entries=[entry]), timeout=WITHIN)
    assert answer.results[0].result == stubs.breaker_service.ENTRY_RESULT_STALE_GENERATION
    assert answer.results[0].status.state == stubs.transition.STATE_CLOSED


def test_asked_to_stop_it_tells_its_watchers_and_exits_with_0(own_panel, stubs):
    service = connected(own_panel, stubs)
    request = stubs.breaker_service.WatchRequest(breakers=[BREAKER])
    streams = [service.Watch(request, timeout=WITHIN) for _ in range(20)]
    for stream in streams:
        assert next(stream).WhichOneof("event") == "started"

    assert own_panel.stop() == 0
    for stream in streams:
        assert "draining" in events_until_the_end(stream)


def events_until_the_end(stream):
    events = []
    try:
        for message in stream:
            events.append(message.WhichOneof("event"))
    except grpc.RpcError:
        # How the stream ends does not matter here, only what was said before.
        pass
    return events


def commits(panel):
    """How often the store has been written to, by the server's own account."""
    name = "panelboard_store_commit_seconds_count"
    return sum(float(line.rsplit(" ", 1)[1]) for line in panel.http_text("/metrics").splitlines() if line.startswith(name))


def wait_for_commit(panel, beyond):
    end = time.monotonic() + WITHIN
    while commits(panel) <= beyond:
        assert time.monotonic() < end, f"nothing was stored within {WITHIN} s; the log:\n{panel.log_tail()}"
        time.sleep(0.01)
