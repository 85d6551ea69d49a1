"""The rules of this repository that no ready-made linter knows.

Each rule is a function that yields findings, `(path, line, what is wrong and what to do)`; its documentation says what it
holds. `house.py --list` names the rules, `house.py RULE...` runs them, without a name all of them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
RULES = {}


def rule(function):
    """Registers a rule under its function's name, with dashes."""
    RULES[function.__name__.replace("_", "-")] = function
    return function


@rule
def every_crate_has_the_workspace_lints():
    """Every manifest takes the workspace's lints, and those forbid unsafe code."""
    if not any(line.startswith("unsafe_code") and "forbid" in line for line in section("Cargo.toml", "workspace.lints.rust")):
        yield "Cargo.toml", 1, 'no `unsafe_code = "forbid"` under [workspace.lints.rust]: put it back'
    for manifest in files("Cargo.toml"):
        if "workspace = true" not in section(manifest, "lints"):
            yield manifest, 1, "no `workspace = true` under [lints]: without it this crate may use unsafe code"


@rule
def core_depends_on_nothing():
    """`core` has no dependencies beyond its tests'."""
    for line in section("core/Cargo.toml", "dependencies"):
        yield "core/Cargo.toml", 1, f"dependency `{line}`: the rules stand alone; put it into the crate that needs it"
    for header in re.findall(r"^\[(.*dependencies[.].*)\]", Path("core/Cargo.toml").read_text(), re.MULTILINE):
        if not header.startswith("dev-"):
            yield "core/Cargo.toml", 1, f"section [{header}]: the rules stand alone"


@rule
def policy_depends_on_core_and_a_parser():
    """`policy` depends on the core and the YAML parser only: every client carries it."""
    for line in section("policy/Cargo.toml", "dependencies"):
        if not line.startswith(("panelboard-core", "granit-parser")):
            yield "policy/Cargo.toml", 1, f"dependency `{line}`: every client would carry it; do this in the crate that needs it"


@rule
def core_only_computes():
    """`core` names no clock, lock, thread, file, socket, environment or async runtime: time comes in as an argument."""
    forbidden = re.compile(
        r"\b(?:Instant|SystemTime|Mutex|RwLock|Condvar|RefCell|UnsafeCell|Atomic\w+|RandomState|f32|f64)\b"
        r"|\bstd::(?:fs|net|thread|env|process|io|os)\b"
        r"|\bstd::\{[^;]*\b(?:fs|net|thread|env|process|io|os)\b"
        r"|\btokio\b|\basync\b|\.await\b|\bprintln!|\beprintln!"
    )
    for path in files(".rs", under="core/src"):
        yield from matches(path, forbidden, "core can do nothing but compute: do this in the shell, and pass in the result")


@rule
def only_the_grpc_edge_names_status():
    """In the server only `server/src/grpc` names `tonic::Status`: everything else has errors of its own."""
    status = re.compile(r"\btonic::(?:\{[^;}]*\b)?(?:Status|Code)\b")
    for path in files(".rs", under="server/src"):
        if path.parts[2] not in ("grpc", "grpc.rs"):
            yield from matches(path, status, "return this module's own error; server/src/grpc turns it into a status")


@rule
def nothing_panics_on_the_way_of_a_request():
    """Outside of tests neither the server nor the rules, the policy reader nor the conversions unwrap, expect or panic."""
    panicking = re.compile(r"\.unwrap\(\)|\.unwrap_err\(\)|\.expect\(|\b(?:panic|unreachable|todo|unimplemented)!")
    for folder in ("server/src", "policy/src", "core/src", "proto"):
        for path in files(".rs", under=folder):
            if path.stem != "tests" and "tests" not in path.parts:
                remedy = "return an error, or write it so that it cannot happen"
                yield from matches(path, panicking, remedy, end="#[cfg(test)]")


@rule
def no_machine_paths():
    """Nothing names a place that exists on one machine only, or outside the repository."""
    # The brackets keep this file from finding itself.
    local = re.compile(
        r"(?<![\w.}>-])/(?:hom[e]/[a-z]|User[s]/[A-Za-z]|roo[t]/|wor[k]/)"
        r"|[.]librar[y]\b"
        r"|\.\./share[d]\b"
        r"|\b(?:DESIG[N]|FACT[S]|MODEL[S])[.]md\b"
    )
    for path in files():
        # Text only; the lock file is cargo's.
        if path.name != "Cargo.lock" and b"\0" not in path.read_bytes()[:8192]:
            yield from matches(path, local, "nobody else has this: name something in the repository instead", comments=True)


@rule
def links_lead_somewhere():
    """Every relative link in a document leads to a file, and its fragment to a heading there."""
    link = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
    for path in files(".md"):
        for number, line in enumerate(without_code_blocks(path), start=1):
            for target in link.findall(line):
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                place, _, fragment = unquote(target).partition("#")
                there = ROOT / place.lstrip("/") if place.startswith("/") else path.parent / place if place else path
                if not there.exists():
                    yield path, number, f"link to {target}: there is no such file"
                elif fragment and there.suffix == ".md" and fragment not in anchors(there):
                    yield path, number, f"link to {target}: {there.name} has no such heading"


# What the rules are made of.


def files(*suffixes, under="."):
    """What belongs to the repository, new files included, lies there, and ends so (no suffix: everything)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", under], capture_output=True
    )
    if listed.returncode == 0:
        names = {name for name in listed.stdout.decode().split("\0") if name}
    else:
        # An unpacked archive: everything but what builds and tools leave behind.
        left_behind = {"target", ".cache", ".git", "__pycache__", "node_modules"}
        names = {str(path) for path in Path(under).rglob("*") if not left_behind & set(path.parts)}
    for name in sorted(names):
        if name.endswith(suffixes or "") and Path(name).is_file():
            yield Path(name)


def section(manifest, name):
    """The lines of one section of a TOML file, without blank ones and comments."""
    inside, lines = False, []
    for line in Path(manifest).read_text().splitlines():
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside and line and not line.startswith("#"):
            lines.append(line)
    return lines


def matches(path, pattern, remedy, comments=False, end=None):
    """A finding for each place where the pattern stands, up to `end`; `//` comments are left out unless asked for."""
    text = path.read_text(errors="replace")
    if end is not None:
        text = text.split(end)[0]
    if not comments:
        text = re.sub(r"//[^\n]*", "", text)
    for found in pattern.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield path, line, f"`{' '.join(found.group().split())}`: {remedy}"


def without_code_blocks(path):
    """The lines of a document, those inside fences made empty, code spans taken out: neither holds links."""
    fenced = False
    for line in path.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield ""
        else:
            yield "" if fenced else re.sub(r"`[^`]*`", "", line)


def anchors(path):
    """The fragments that a document's headings answer to."""
    fenced, found = False, set()
    for line in path.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        heading = re.match(r"#+\s+(.*?)\s*#*$", line)
        if heading and not fenced:
            words = re.sub(r"[^\w\- ]", "", heading.group(1).lower()).replace(" ", "-")
            repeat = sum(1 for other in found if re.fullmatch(re.escape(words) + r"(-\d+)?", other))
            found.add(f"{words}-{repeat}" if repeat else words)
    return found


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(RULES))
        return 0
    unknown = [name for name in arguments if name not in RULES]
    if unknown:
        print(f'unknown rule "{unknown[0]}"; there are: {", ".join(RULES)}', file=sys.stderr)
        return 2
    broken = 0
    for name in arguments or RULES:
        for path, line, message in RULES[name]():
            print(f"{path}:{line}: {message}")
            broken = 1
    return broken


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
