"""A client in another language, with nothing but the contract: stubs from the stock generator."""

import threading

import grpc
import pytest
from google.protobuf import descriptor_pool
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

from conftest import SERVICE, WITHIN


class Application:
    """One instance of a service that uses a breaker the way the contract says."""

    def __init__(self, service, stubs, breaker, instance="python-1", session="session-1"):
        self.service, self.messages, self.breaker = service, stubs.breaker_service, breaker
        self.client = stubs.client.Client(service="checkout", instance=instance, session=session, version="python/test")
        self.sequence = 0

    def acquire(self):
        request = self.messages.AcquireRequest(client=self.client, breaker=self.breaker)
        return self.service.Acquire(request, timeout=WITHIN)

    def entry(self, generation, **counts):
        self.sequence += 1
        return self.messages.ReportEntry(
            breaker=self.breaker, generation=generation, sequence=self.sequence, **counts
        )

    def send(self, entry):
        request = self.messages.ReportRequest(client=self.client, entries=[entry])
        return self.service.Report(request, timeout=WITHIN).results[0]

    def watch(self, resume=b""):
        request = self.messages.WatchRequest(client=self.client, breakers=[self.breaker], resume=resume)
        return self.service.Watch(request, timeout=WITHIN)

    def look(self):
        return self.service.GetBreaker(self.messages.GetBreakerRequest(breaker=self.breaker), timeout=WITHIN)


@pytest.fixture
def application(service, stubs, breaker):
    return Application(service, stubs, breaker)


@pytest.fixture
def results(stubs):
    return stubs.breaker_service.EntryResult


@pytest.fixture
def state(stubs):
    return stubs.transition.State


def test_acquire_call_report_until_the_fleet_stops(application, stubs, results, state):
    granted = application.acquire()
    assert granted.WhichOneof("decision") == "grant"
    assert granted.grant.ttl.ToTimedelta().total_seconds() > 0

    tripped = application.send(application.entry(granted.grant.generation, failures=20, causes={"timeout": 20}))
    assert tripped.result == results.ENTRY_RESULT_COUNTED
    assert tripped.status.state == state.STATE_OPEN
    assert tripped.status.admission == stubs.breaker.ADMISSION_REJECT
    causes = {each.cause: each.count for each in tripped.status.last_transition.top_causes}
    assert causes == {"timeout": 20}

    refused = application.acquire()
    assert refused.rejection.reason == stubs.breaker_service.REJECTION_REASON_OPEN
    assert refused.rejection.message


def test_a_watcher_hears_of_the_trip_that_another_instance_caused(application, service, stubs, breaker, state):
    stream = application.watch()
    assert next(stream).WhichOneof("event") == "started"
    first = next(stream)
    assert first.status.name == breaker and first.status.state == state.STATE_CLOSED
    assert first.status.HasField("policy"), "the first status of a stream brings the policy"
    assert next(stream).WhichOneof("event") == "snapshot_complete"

    other = Application(service, stubs, breaker, instance="python-2", session="session-2")
    other.send(other.entry(first.status.generation, failures=20))

    heard = next(message.status for message in stream if message.WhichOneof("event") == "status")
    assert heard.state == state.STATE_OPEN
    assert (heard.generation.epoch, heard.generation.revision) > (
        first.status.generation.epoch,
        first.status.generation.revision,
    )
    assert heard.HasField("deadline_tick")
    stream.cancel()


def test_a_watch_resumes_where_its_token_says(application):
    stream = application.watch()
    token = next(message.snapshot_complete.resume for message in stream if message.WhichOneof("event") == "snapshot_complete")
    stream.cancel()

    resumed = application.watch(resume=token)
    assert next(resumed).started.resumed
    assert next(resumed).WhichOneof("event") == "snapshot_complete", "nothing changed, so that nothing is sent again"
    resumed.cancel()


def test_a_repeated_report_is_counted_once(application, results):
    entry = application.entry(application.acquire().grant.generation, failures=10)
    assert application.send(entry).result == results.ENTRY_RESULT_COUNTED
    assert application.send(entry).result == results.ENTRY_RESULT_DUPLICATE
    assert application.look().readings[0].calls == 10


def test_a_late_report_from_before_the_trip_changes_nothing(application, results, state):
    generation = application.acquire().grant.generation
    tripped = application.send(application.entry(generation, failures=20)).status
    late = application.send(application.entry(generation, successes=1000))
    assert late.result == results.ENTRY_RESULT_STALE_GENERATION
    assert late.status.state == state.STATE_OPEN
    assert late.status.version == tripped.version


def test_a_made_up_generation_changes_nothing(application, stubs, results):
    generation = application.acquire().grant.generation
    invented = stubs.transition.Generation(epoch=generation.epoch + 1, revision=generation.revision + 1)
    assert application.send(application.entry(invented, failures=50)).result == results.ENTRY_RESULT_STALE_GENERATION
    assert application.look().readings[0].calls == 0


def test_raw_facts_are_classified_by_the_server(application, stubs):
    facts = [
        stubs.breaker_service.RawOutcome(http_status=503, count=2),
        stubs.breaker_service.RawOutcome(http_status=200, count=3),
        stubs.breaker_service.RawOutcome(http_status=400, count=5),
        stubs.breaker_service.RawOutcome(grpc_code=14),
        stubs.breaker_service.RawOutcome(timed_out=True),
    ]
    application.send(application.entry(application.acquire().grant.generation, raw=facts))
    reading = application.look().readings[0]
    assert (reading.calls, reading.matched) == (7, 4), "a 400 is ignored; two 503, a 14 and a timeout failed"


def test_eight_threads_report_and_every_call_is_counted_once(service, stubs, breaker):
    def work(number):
        application = Application(service, stubs, breaker, instance=f"python-{number}", session=f"session-{number}")
        for _ in range(50):
            application.send(application.entry(application.acquire().grant.generation, successes=1))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    looked = Application(service, stubs, breaker).look()
    assert looked.readings[0].calls == 8 * 50
    assert looked.known_instances >= 8


def test_error_details_unpack_with_the_stock_library(service, stubs):
    with pytest.raises(grpc.RpcError) as refused:
        service.Acquire(stubs.breaker_service.AcquireRequest(breaker="x" * 10_000), timeout=WITHIN)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    details = {any_.TypeName(): any_ for any_ in rpc_status.from_call(refused.value).details}

    bad_request = error_details_pb2.BadRequest()
    assert details["google.rpc.BadRequest"].Unpack(bad_request)
    assert [violation.field for violation in bad_request.field_violations] == ["breaker"]
    info = error_details_pb2.ErrorInfo()
    assert details["google.rpc.ErrorInfo"].Unpack(info)
    assert info.domain == "panelboard" and info.reason


def test_too_many_entries_hit_the_limit_and_count_nothing(service, stubs):
    # A short name: the message must stay under the limit in bytes, which is another refusal.
    application = Application(service, stubs, "foreign/many")
    application.acquire()
    entries = [stubs.breaker_service.ReportEntry(breaker=application.breaker, failures=1)] * 100_000
    with pytest.raises(grpc.RpcError) as refused:
        service.Report(stubs.breaker_service.ReportRequest(entries=entries), timeout=WITHIN)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    details = [any_.TypeName() for any_ in rpc_status.from_call(refused.value).details]
    assert {"google.rpc.QuotaFailure", "google.rpc.RetryInfo", "google.rpc.ErrorInfo"} <= set(details)
    assert application.look().readings[0].calls == 0


def test_the_reflected_contract_is_the_one_in_the_repository(panel, stubs):
    with grpc.insecure_channel(panel.grpc) as channel:
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        reflected = pool.FindServiceByName(SERVICE)
        ours = stubs.breaker_service.DESCRIPTOR.services_by_name["BreakerService"]
        assert [method.name for method in reflected.methods] == [method.name for method in ours.methods]
        for name, message in stubs.breaker_service.DESCRIPTOR.message_types_by_name.items():
            fields = pool.FindMessageTypeByName(f"panelboard.v1.{name}").fields
            assert [(each.name, each.number) for each in fields] == [(each.name, each.number) for each in message.fields]
