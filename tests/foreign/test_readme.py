"""The README's tour, as printed: the same commands against a server that was started as it says."""

import os
import re
import subprocess
from pathlib import Path

from conftest import WITHIN
from panel import Panel

README = Path(__file__).resolve().parents[2] / "README.md"


def tour():
    """The commands of the block with grpcurl, each with the remark that stands behind it."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    block = next(block for block in blocks if "grpcurl" in block)
    for command in block.replace("\\\n", " ").splitlines():
        command, _, remark = command.partition(" #")
        if command.strip() and not command.startswith("#"):
            yield command.strip(), remark.strip()


def test_every_command_of_the_tour_does_what_it_says(tmp_path):
    # Without policies, as in the README: the starter policy matches every name.
    with Panel(tmp_path) as panel:
        outputs = {remark: output_of(command, panel) for command, remark in tour()}
    assert len(outputs) >= 6, "the tour has become short, or is not found any more"
    promises = [remark for remark in outputs if re.match(r"CLOSED:|OPEN:", remark)]
    assert [promise.split(":")[0] for promise in promises] == ["CLOSED", "OPEN"]
    closed, opened = promises
    assert f'"progress": "{closed}' in outputs[closed]
    # The wait has jitter: the words are promised, not the number.
    assert '"progress": "OPEN: retry in ' in outputs[opened]


def output_of(command, panel):
    """What the command prints; it must succeed."""
    command = command.replace("127.0.0.1:50051", panel.grpc).replace("127.0.0.1:50080", panel.http)
    if command.startswith("curl "):
        # Not every machine has curl, and nothing depends on which client it is.
        return panel.http_text(command.split(panel.http)[1])
    watches = command.endswith("/Watch")
    if watches:
        # It has no end of its own.
        command = command.replace("grpcurl ", "grpcurl -max-time 2 ", 1)
    path = f"{Path(os.environ['GRPCURL']).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=WITHIN, env={**os.environ, "PATH": path}
    )
    if watches:
        assert '"snapshotComplete"' in done.stdout, done.stderr
    else:
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
