"""Sends a real server hostile bytes for a while and then checks that no harm was done.

Everything follows from the seed: move N of an attack is the same bytes in every run, whatever came before, so that a
finding can be replayed alone (`--only ATTACK:N`). It talks to 127.0.0.1 only, and stops by itself.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import grpc

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "foreign"))

from attacks import ANSWER_WITHIN, ATTACKS, Finding, Target  # noqa: E402
from panel import Panel  # noqa: E402
from stubs import generate  # noqa: E402

# How much more memory the server may hold at the end than after the first rounds. By then its buffers have held the
# largest messages and are kept; from there on only what hostile names bring into being may grow, up to its caps.
GROWTH_LIMIT = 64 << 20
ROUNDS_BEFORE_MEASURING = 20
BREAKERS_LIMIT = 1000
# Failures of one attack that are shown; the rest are only counted.
SHOWN = 5


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="panelboard-fuzz-") as folder:
        stubs_folder = Path(folder, "stubs")
        stubs_folder.mkdir()
        stubs = generate(stubs_folder)
        limits = {"PANELBOARD_LIMITS_BREAKERS": str(BREAKERS_LIMIT)}
        with Panel(folder, policies=HERE / "policies.yaml", environment=limits) as panel:
            return run(options, panel, stubs)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", metavar="ATTACK:N", help="replay this one move")
    return parser.parse_args()


def run(options, panel, stubs):
    target = Target(panel, stubs)
    witness = Witness(panel, stubs)
    if options.only:
        name, number = options.only.split(":")
        findings = {name: [move(options.seed, named(name), int(number), target)]}
        moves = Counter({name: 1})
    else:
        moves, findings = rounds(options, panel, target, witness)
    target.channel.close()

    passed = failed = skipped = 0
    lines = []
    for name, count in moves.items():
        found = [finding for finding in findings.get(name, []) if finding]
        failed, passed = failed + bool(found), passed + (not found)
        lines.append(f"{'FAIL' if found else 'ok  '} {name}: {count} moves, {len(found)} findings")
        lines += [f"     {finding}" for finding in found[:SHOWN]]
    for name, check in witness.checks():
        try:
            problem = check()
        except Skipped as why:
            lines.append(f"skip afterwards {name}: {why}")
            skipped += 1
            continue
        failed, passed = failed + bool(problem), passed + (not problem)
        lines.append(f"{'FAIL' if problem else 'ok  '} afterwards {name}{': ' + problem if problem else ''}")
    if failed:
        print(f"the server's log ends so:\n{panel.log_tail(20)}\n")
    print("\n".join(lines))
    print(f"replay: FUZZ_SEED={options.seed} FUZZ_SECONDS={options.seconds:g} tests/run fuzz")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def rounds(options, panel, target, witness):
    """Rounds of all attacks until the time is over, or the server is."""
    moves, findings = Counter(), {}
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and panel.alive():
        for attack, repetitions in ATTACKS.items():
            name = attack.__name__
            for _ in range(repetitions):
                finding = move(options.seed, attack, moves[name], target)
                if finding:
                    findings.setdefault(name, []).append(finding)
                moves[name] += 1
        witness.round_over()
    return moves, findings


def move(seed, attack, number, target):
    """Makes one move, and returns what it found, with how to do it again."""
    try:
        attack(Random(f"{seed}/{attack.__name__}/{number}"), target)
    except Finding as finding:
        return f"{finding} (again: --seed {seed} --only {attack.__name__}:{number})"
    return None


def named(name):
    return next(attack for attack in ATTACKS if attack.__name__ == name)


class Skipped(Exception):
    """A check that cannot be made here, and why."""


class Witness:
    """What was true before, and is checked afterwards."""

    def __init__(self, panel, stubs):
        self.panel, self.stubs = panel, stubs
        self.messages = stubs.breaker_service
        self.memory_before = None
        self.rounds = 0
        with self.service() as service:
            entry = self.messages.ReportEntry(breaker="fuzz/tripped", failures=20)
            service.Report(self.messages.ReportRequest(entries=[entry]), timeout=ANSWER_WITHIN)
        self.tripped, self.quiet = self.look("fuzz/tripped").status, self.look("fuzz/quiet").status
        assert self.tripped.state == stubs.transition.STATE_OPEN, self.tripped
        assert self.quiet.state == stubs.transition.STATE_CLOSED, self.quiet

    def round_over(self):
        """Memory is compared with what it was after the first rounds."""
        self.rounds += 1
        if self.rounds == ROUNDS_BEFORE_MEASURING:
            self.memory_before = self.panel.resident_bytes()

    def checks(self):
        return [
            ("it is alive", self.alive),
            ("it is ready", self.ready),
            ("it still answers", self.answers),
            ("no handler panicked", self.no_panic),
            ("the tripped breaker is as it was", lambda: self.unharmed(self.tripped)),
            ("the quiet breaker is as it was", lambda: self.unharmed(self.quiet)),
            ("nothing was counted for the quiet breaker", self.nothing_counted),
            (f"memory grew by less than {GROWTH_LIMIT >> 20} MiB", self.memory),
            # Last, because nothing answers after it.
            ("it stops cleanly", self.stops),
        ]

    def alive(self):
        return "" if self.panel.alive() else f"exit code {self.panel.process.returncode}"

    def ready(self):
        status = self.panel.http_status("/readyz")
        return "" if status == 200 else f"/readyz says {status}"

    def answers(self):
        try:
            with self.service() as service:
                request = self.messages.AcquireRequest(breaker="fuzz/quiet")
                granted = service.Acquire(request, timeout=ANSWER_WITHIN).WhichOneof("decision") == "grant"
                return "" if granted else "Acquire of a closed breaker was rejected"
        except grpc.RpcError as error:
            return f"Acquire answered {error.code()}: {error.details()}"

    def no_panic(self):
        panics = [line for line in self.panel.log.read_text(errors="replace").splitlines() if "panicked at" in line]
        return f"{len(panics)} times, first: {panics[0]}" if panics else ""

    def unharmed(self, before):
        try:
            after = self.look(before.name).status
        except grpc.RpcError as error:
            return f"GetBreaker answered {error.code()}: {error.details()}"
        for part in ("state", "generation", "policy_revision"):
            if getattr(after, part) != getattr(before, part):
                return " ".join(f"{part} was {getattr(before, part)} and is {getattr(after, part)}".split())
        return ""

    def nothing_counted(self):
        try:
            counted = [reading.calls for reading in self.look("fuzz/quiet").readings]
        except grpc.RpcError as error:
            return f"GetBreaker answered {error.code()}: {error.details()}"
        return "" if counted and not any(counted) else f"its rules have counted {counted} calls"

    def memory(self):
        now = self.panel.resident_bytes()
        if now is None or self.memory_before is None:
            raise Skipped("only Linux tells, and only after some rounds there is something to compare with")
        told = f"{self.memory_before >> 20} MiB after {ROUNDS_BEFORE_MEASURING} rounds, {now >> 20} MiB after {self.rounds}"
        print(f"resident: {told}")
        return "" if now - self.memory_before < GROWTH_LIMIT else told

    def stops(self):
        try:
            code = self.panel.stop()
        except AssertionError as error:
            return str(error)
        return "" if code == 0 else f"exit code {code}"

    def look(self, name):
        with self.service() as service:
            return service.GetBreaker(self.messages.GetBreakerRequest(breaker=name), timeout=ANSWER_WITHIN)

    def service(self):
        return OneCall(self.panel, self.stubs)


class OneCall:
    """A stub on a channel of its own: whatever happened to the fuzzer's channel does not matter to it."""

    def __init__(self, panel, stubs):
        self.channel = grpc.insecure_channel(panel.grpc, options=[("grpc.use_local_subchannel_pool", 1)])
        self.stub = stubs.grpc.BreakerServiceStub(self.channel)

    def __enter__(self):
        return self.stub

    def __exit__(self, *_):
        self.channel.close()


if __name__ == "__main__":
    sys.exit(main())
