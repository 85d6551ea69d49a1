"""Python modules made from the contract by the stock generator, as any client team would make them."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

PROTO = Path(__file__).resolve().parents[2] / "proto"


def generate(folder):
    """Generates into the folder and imports: messages by their file's name, the service's stub as `grpc`."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("panelboard/v1/*.proto"))
    assert sources, f"no proto files in {PROTO}/panelboard/v1"
    generator = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}"]
    subprocess.run([*generator, f"--python_out={folder}", f"--grpc_python_out={folder}", *sources], check=True)
    sys.path.insert(0, str(folder))
    modules = {Path(source).stem: importlib.import_module(f"panelboard.v1.{Path(source).stem}_pb2") for source in sources}
    return SimpleNamespace(grpc=importlib.import_module("panelboard.v1.breaker_service_pb2_grpc"), **modules)
