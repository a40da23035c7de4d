"""Compiles Java code with stubs generated from protos/, and says how to run it."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import compile_jars, java_program, run_jars, tls_library
from tests.support.run_server import ROOT

_SECONDS = 240
_JAVAC_OPTIONS = ("-nowarn", "-proc:none", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")  # a short run


@dataclass(frozen=True)
class Stubs:
    """Compiled stubs of the contracts, and of the error details that Google defines."""

    classes: Path
    libraries: Path

    def compile(self, sources: Iterable[Path], folder: Path) -> None:
        """Compile sources that use them into a folder. Fails if it fails."""
        _compile(sources, folder, [self.classes, *compile_jars()])

    def command(self, folder: Path, main: str, *older: Path) -> list[str]:
        """The command that runs a class of the folder. Classes in `older` folders are found first."""
        path = _path([*older, folder, self.classes, *run_jars()])
        options = ["-XX:TieredStopAtLevel=1", f"-Djava.library.path={self.libraries}"]
        return [java_program("java"), *options, "-cp", path, main]

    def run(self, folder: Path, main: str) -> str:
        """Run a class without arguments; what it printed. Fails if it fails."""
        return _call(self.command(folder, main))


def make_stubs(folder: Path) -> Stubs:
    """Generate and compile them; some seconds, so once a session."""
    protos = ROOT / "protos"
    details = Path(sysconfig.get_path("purelib"))  # googleapis-common-protos brings its .proto files along
    contracts = sorted(str(one.relative_to(protos)) for one in protos.rglob("*.proto"))
    files = [*contracts, "google/rpc/status.proto", "google/rpc/error_details.proto"]
    libraries = folder / "libraries"
    libraries.mkdir(parents=True)
    # Debian's file has a dash in its name where netty looks for an underscore, and a link would be found out.
    shutil.copy(tls_library(), libraries / "libnetty_tcnative.so")
    return Stubs(generate(folder, [protos, details], files), libraries)


def generate(folder: Path, roots: Sequence[Path], files: Sequence[str]) -> Path:
    """Generate Java code from .proto files below the roots and compile it; the folder of its classes."""
    sources, classes = folder / "sources", folder / "classes"
    sources.mkdir(parents=True)
    command = [java_program("protoc"), *(f"-I{root}" for root in roots), f"--java_out={sources}"]
    plugin = java_program("grpc_java_plugin")
    _call([*command, f"--plugin=protoc-gen-grpc-java={plugin}", f"--grpc-java_out={sources}", *files])
    _compile(sorted(sources.rglob("*.java")), classes, compile_jars())
    return classes


def _compile(sources: Iterable[Path], out: Path, on: list[Path]) -> None:
    out.mkdir(exist_ok=True)
    options = [*_JAVAC_OPTIONS, "-d", str(out), "-cp", _path(on)]
    _call([java_program("javac"), *options, *(str(source) for source in sources)])


def _path(parts: Iterable[Path]) -> str:
    return os.pathsep.join(str(part) for part in parts)


def _call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}"
    return done.stdout
