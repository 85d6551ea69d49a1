"""A real server as a process of its own, for tests that come from outside."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

# An unoptimised server on a busy machine starts within a second or two.
READY_WITHIN = 60.0
# A drain is bounded by the server itself; this is that bound with room for a busy machine.
STOPPED_WITHIN = 60.0


class Panel:
    """One running server with its own data folder; stop it, or use it as a context."""

    def __init__(self, folder, policies=None, environment=None):
        self.environment = environment or {}
        self.folder = Path(folder)
        self.binary = os.environ["PANEL_BINARY"]
        self.policies = policies
        self.log = self.folder / "server.log"
        self.process = None
        self.start()

    def start(self):
        """Starts the server and waits until it answers. A port that was free may be taken meanwhile: it tries again."""
        for attempt in range(3):
            self.grpc, self.http = (f"127.0.0.1:{port}" for port in free_ports(2))
            self.launch()
            if self.wait_ready():
                return
        raise AssertionError(f"the server did not become ready; its log:\n{self.log_tail()}")

    def launch(self):
        command = [self.binary, "serve", "--grpc-addr", self.grpc, "--http-addr", self.http]
        command += ["--data-dir", str(self.folder / "data")]
        if self.policies is not None:
            command += ["--policies", str(self.policies)]
        # Nothing of the caller's own settings, and what Kubernetes injects beside a Service of our name: it must be harmless.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PANELBOARD_")}
        environment |= {"PANELBOARD_PORT": "tcp://10.0.0.1:50051", "PANELBOARD_SERVICE_HOST": "10.0.0.1"}
        environment |= self.environment
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment
            )

    def wait_ready(self):
        end = time.monotonic() + READY_WITHIN
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return False
            if self.http_status("/readyz") == 200:
                return True
            time.sleep(0.02)
        self.process.kill()
        self.process.wait()
        return False

    def http_status(self, path, timeout=5.0):
        """The status of a GET, or None if nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=timeout) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def http_text(self, path):
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5.0) as answer:
            return answer.read().decode()

    def alive(self):
        return self.process.poll() is None

    def resident_bytes(self):
        """Resident memory, or None where the system does not tell."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return None
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024

    def log_tail(self, lines=40):
        text = self.log.read_text(errors="replace")
        return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in text.splitlines()[-lines:])

    def kill(self):
        """kill -9, as a crash."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM, and the code it exits with."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop within {STOPPED_WITHIN} s; its log:\n{self.log_tail()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def free_ports(count):
    """Ports of the loopback interface that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
