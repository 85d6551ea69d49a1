"""What the foreign tests share: one server for most, stubs generated from the proto files as they are now, and the tools."""

import json
import os
import subprocess
from pathlib import Path

import grpc
import pytest

from panel import Panel
from stubs import generate

POLICIES = Path(__file__).resolve().parent / "policies.yaml"
SERVICE = "panelboard.v1.BreakerService"
# No call of these tests takes long; this bound is for a busy machine.
WITHIN = 30.0


@pytest.fixture(scope="session")
def panel(tmp_path_factory):
    """A server that all tests of the run share: each uses breakers of its own."""
    with Panel(tmp_path_factory.mktemp("panel"), policies=POLICIES) as running:
        yield running
        assert running.alive(), f"the server died; its log:\n{running.log_tail()}"


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """The contract's messages and stubs."""
    return generate(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="session")
def service(panel, stubs):
    """A stub of BreakerService on a plain channel."""
    with grpc.insecure_channel(panel.grpc) as channel:
        grpc.channel_ready_future(channel).result(WITHIN)
        yield stubs.grpc.BreakerServiceStub(channel)


@pytest.fixture
def breaker(request):
    """A breaker name of this test's own."""
    return "foreign/" + request.node.name.replace("[", "-").replace("]", "")


@pytest.fixture(scope="session")
def grpcurl(panel):
    """Runs grpcurl as a person would; with `data` it is sent as the request."""

    def run(*arguments, data=None, options=()):
        command = [os.environ["GRPCURL"], "-plaintext", *options]
        command += ["-d", json.dumps(data)] if data is not None else []
        return subprocess.run([*command, panel.grpc, *arguments], capture_output=True, text=True, timeout=WITHIN)

    return run


def answers(output):
    """The JSON messages of an output that holds one after the other."""
    decoder, messages, at = json.JSONDecoder(), [], 0
    while output[at:].strip():
        at += len(output[at:]) - len(output[at:].lstrip())
        message, at = decoder.raw_decode(output, at)
        messages.append(message)
    return messages
