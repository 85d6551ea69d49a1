"""Both versions of reflection, through a client that can be told which one to use."""

import json
import os
import subprocess

import pytest

from conftest import SERVICE, WITHIN


@pytest.mark.parametrize("version", ["grpc-v1", "grpc-v1alpha"])
def test_a_call_through_this_version_of_reflection(panel, breaker, version):
    command = [os.environ["BUF"], "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect-protocol", version]
    command += ["--data", json.dumps({"breaker": breaker}), f"http://{panel.grpc}/{SERVICE}/Acquire"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN)
    assert done.returncode == 0, done.stderr
    assert "grant" in json.loads(done.stdout)
