"""Arize Phoenix in an environment of its own in the temporary folder, never a dependency of the project."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cores import CORES, on_cores
from benchmarks.servers import Server
from benchmarks.stage import say
from tests.support.database_server import free_port

VERSION = "20.26.1"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MARK = b"00000000"
"""The id of a span has eight bytes; it must be another for each."""

_START_SECONDS = 180.0
_TEMPLATE = """
import sys
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
for trace in range(100):
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for _ in range(int(sys.argv[1])):
        span = spans.add(trace_id=b"trace-%010d" % (trace + 1), span_id=b"00000000", name="query_logs")
        span.start_time_unix_nano = 1790000000000000000
        span.end_time_unix_nano = 1790000000231000000
        for name, value in (
            ("openinference.span.kind", "TOOL"), ("tool.name", "query_logs"), ("session.id", "sess-1"),
            ("run.id", "run-00000000-0000-4000-8000-000000000001"), ("status", "READY"),
            ("evidence_status", "EVIDENCE_FOUND"),
        ):
            span.attributes.add(key=name).value.string_value = value
        for name, value in (
            ("request_bytes", 412), ("step_id", 1), ("agent_result_bytes", 18231), ("l0_match_count", 12),
            ("l1_match_count", 3), ("duration_ms", 231),
        ):
            span.attributes.add(key=name).value.int_value = value
        span.attributes.add(key="success").value.bool_value = True
    print(request.SerializeToString().hex())
"""


class NotInstalledError(Exception):
    """It could not be had; the text says what was tried."""


@dataclass(frozen=True)
class Installed:
    """A folder with Phoenix in it."""

    folder: Path

    def spans(self, count: int) -> list[bytes]:
        """Templates of Export with so many tool spans each, metadata as in a tool call of ours."""
        command = [str(self.folder / "bin/python"), "-c", _TEMPLATE, str(count)]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        return [bytes.fromhex(line) for line in made.stdout.split()]

    @contextlib.contextmanager
    def serving(self, folder: Path) -> Iterator[tuple[Server, Path]]:
        """A process with default settings and its database file."""
        port = free_port()
        settings = {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(free_port()),
            "PHOENIX_GRPC_PORT": str(port),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        with on_cores(CORES.server), (folder / "phoenix.log").open("wb") as log:
            process = subprocess.Popen(
                [self.folder / "bin/phoenix", "serve"],
                env=os.environ | settings,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            _until_it_listens(process, port)
            yield Server(process, f"127.0.0.1:{port}"), folder / "phoenix.db"
        finally:
            process.terminate()
            process.wait(60)


def install() -> Installed:
    """From the package index, once for each version."""
    folder = Path(tempfile.gettempdir(), "sba-benchmarks", f"phoenix-{VERSION}")
    if not (folder / "installed").exists():
        say(f"installing arize-phoenix {VERSION}; it is large")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command = [str(folder / "bin/pip"), "install", "--quiet", f"arize-phoenix=={VERSION}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise NotInstalledError(f"pip install arize-phoenix=={VERSION} said: {last}")
        (folder / "installed").touch()
    return Installed(folder)


def _until_it_listens(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.1)
    raise NotInstalledError("phoenix serve did not listen")
