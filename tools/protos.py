"""Regenerates the Python code of protos/, or with --check shows where the tree differs from it."""

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = "superbizagent"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi", "__init__.py", "py.typed")
MAX_DIFF_LINES = 60


def generate(out: Path) -> None:
    """Writes everything that is generated for PROTOS below out."""
    sources = sorted(path.relative_to(PROTOS) for path in (PROTOS / PACKAGE).rglob("*.proto"))
    if not sources:
        sys.exit(f"no .proto file below {PROTOS / PACKAGE}")
    _run_protoc(out, sources)
    for source in sources:
        grpc_module = out / source.with_name(f"{source.stem}_pb2_grpc.py")
        if "\nservice " not in (PROTOS / source).read_text():
            # The plugin writes an empty module for a file without services.
            grpc_module.unlink(missing_ok=True)
            grpc_module.with_suffix(".pyi").unlink(missing_ok=True)
        for folder in source.parents[:-1]:
            (out / folder / "__init__.py").touch()
    (out / PACKAGE / "py.typed").touch()


def _run_protoc(out: Path, sources: list[Path]) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc"]
    command += [f"-I{PROTOS}", f"-I{resources.files('grpc_tools') / '_proto'}"]
    command += [f"--python_out={out}", f"--grpc_python_out={out}"]
    # The stubs speak grpc.aio only, the one flavour that this code base uses.
    command += [f"--mypy_out=quiet:{out}", f"--mypy_grpc_out=quiet,only_async:{out}"]
    command += [str(source) for source in sources]
    # The mypy plugins lie beside the interpreter that runs this file.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if subprocess.run(command, cwd=PROTOS, env={**os.environ, "PATH": path}, check=False).returncode:
        sys.exit("protoc refused the .proto files (see above)")


def _generated_files(root: Path) -> dict[Path, str]:
    found = (path for pattern in GENERATED for path in (root / PACKAGE).rglob(pattern))
    return {path.relative_to(root): path.read_text() for path in found}


def write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        wanted = _generated_files(Path(folder))
    present = _generated_files(PROTOS)
    for stale in present.keys() - wanted.keys():
        (PROTOS / stale).unlink()
    for path, text in wanted.items():
        if present.get(path) != text:
            (PROTOS / path).write_text(text)
            print(f"wrote protos/{path}")
    print(f"{len(wanted)} generated files are in sync")


def check() -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        wanted = _generated_files(Path(folder))
    present = _generated_files(PROTOS)
    every = wanted.keys() | present.keys()
    differing = sorted(path for path in every if wanted.get(path) != present.get(path))
    for path in differing:
        _print_diff(path, present.get(path), wanted.get(path))
    if differing:
        sys.exit(f"{len(differing)} generated files are out of sync; run: make protos")
    print(f"{len(wanted)} generated files are in sync")


def _print_diff(path: Path, present: str | None, wanted: str | None) -> None:
    if present is None or wanted is None:
        print(f"protos/{path}: {'missing' if present is None else 'left over, its .proto file is gone'}")
        return
    lines = list(
        difflib.unified_diff(
            present.splitlines(), wanted.splitlines(), f"protos/{path}", "regenerated", n=1, lineterm=""
        )
    )
    print("\n".join(line[:160] for line in lines[:MAX_DIFF_LINES]))
    if len(lines) > MAX_DIFF_LINES:
        print(f"... and {len(lines) - MAX_DIFF_LINES} more lines")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 on a difference")
    if parser.parse_args().check:
        check()
    else:
        write()
