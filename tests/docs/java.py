"""Runs Java snippets against the real services, with stubs generated from protos/."""

import os
import re
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import ROOT
from tests.docs.needs import compile_jars, java_program, run_jars

_SECONDS = 240
_JAVAC_OPTIONS = ("-nowarn", "-proc:none", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")  # a short run


@dataclass(frozen=True)
class Stubs:
    """Compiled stubs of the contracts, and of the error details that Google defines."""

    classes: Path

    def run(self, text: str, folder: Path) -> str:
        """Compile and run a block with one public class; what it printed. Fails if either fails."""
        found = re.search(r"^public (?:final )?class (\w+)", text, re.MULTILINE)
        assert found, "a java block is a whole program: one public class with a main method"
        source = folder / f"{found[1]}.java"
        source.write_text(text)
        _compile([source], folder, [self.classes, *compile_jars()])
        return _call([java_program("java"), "-cp", _path([folder, self.classes, *run_jars()]), found[1]])


def make_stubs(folder: Path) -> Stubs:
    """Generate and compile them; some seconds, so once a session."""
    sources, classes = folder / "sources", folder / "classes"
    sources.mkdir()
    classes.mkdir()
    protos = ROOT / "protos"
    details = Path(sysconfig.get_path("purelib"))  # googleapis-common-protos brings its .proto files along
    command = [java_program("protoc"), f"-I{protos}", f"-I{details}", f"--java_out={sources}"]
    plugin = java_program("grpc_java_plugin")
    command += [f"--plugin=protoc-gen-grpc-java={plugin}", f"--grpc-java_out={sources}"]
    command += sorted(str(one.relative_to(protos)) for one in protos.rglob("*.proto"))
    _call([*command, "google/rpc/status.proto", "google/rpc/error_details.proto"])
    _compile(sorted(sources.rglob("*.java")), classes, compile_jars())
    return Stubs(classes)


def _compile(sources: list[Path], out: Path, on: list[Path]) -> None:
    _call(
        [
            java_program("javac"),
            *_JAVAC_OPTIONS,
            "-d",
            str(out),
            "-cp",
            _path(on),
            *(str(source) for source in sources),
        ]
    )


def _path(parts: list[Path]) -> str:
    return os.pathsep.join(str(part) for part in parts)


def _call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}"
    return done.stdout
