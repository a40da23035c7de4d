"""The contracts as they were before their newest event type, for clients that are older than the services."""

import re
import shutil
from pathlib import Path

from tests.support.run import append, event, finish_run, running_run
from tests.support.run_server import ROOT, RunServer

_NEWEST = "RUN_EVENT_TYPE_RELEASE_DECIDED"


def older_contracts(folder: Path) -> Path:
    """A copy of protos/ in which that type is not there yet."""
    protos = folder / "protos"
    ignored = shutil.ignore_patterns("*.py", "*.pyi", "*.binpb", "__pycache__")
    shutil.copytree(ROOT / "protos", protos, ignore=ignored)
    events = protos / "superbizagent" / "run" / "v1" / "run_event.proto"
    text, count = re.subn(rf"^  {_NEWEST} = 10;\n", "", events.read_text(), flags=re.MULTILINE)
    assert count == 1, events
    events.write_text(text)
    return protos


async def run_with_the_newest_type(server: RunServer) -> str:
    """A finished run whose third event is of that type."""
    run_id = (await running_run(server.stub)).run_id
    await append(server.stub, run_id, event("RELEASE_DECIDED"), event("STEP_STARTED"))
    await finish_run(server.stub, run_id)
    return run_id
