"""A service that notes where its CPU time goes: `python -m benchmarks.sampled OUT MODULE`."""

import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_SECONDS = 0.001

_LAYERS = (
    ("/common/gate", "gate: grammar and pydantic"),
    ("/pydantic", "gate: grammar and pydantic"),
    ("/common/grammar", "gate: grammar and pydantic"),
    ("/inputs.py", "gate: grammar and pydantic"),
    ("/common/server/", "layers: access log, admission, deadline …"),
    ("/structlog", "layers: access log, admission, deadline …"),
    ("/common/log", "layers: access log, admission, deadline …"),
    ("/common/group_commit", "use-case, store, mapping"),
    ("/common/metrics", "layers: access log, admission, deadline …"),
    ("/sqlalchemy/dialects", "SQLAlchemy"),
    ("/sqlalchemy", "SQLAlchemy"),
    ("/aiomysql", "database driver"),
    ("/pymysql", "database driver"),
    ("/aiosqlite", "database driver"),
    ("/run_service/", "use-case, store, mapping"),
    ("/audit_service/", "use-case, store, mapping"),
    ("/common/", "use-case, store, mapping"),
    ("/superbizagent_contract/", "gate: grammar and pydantic"),
    ("/selectors.py", "other threads, while Python waits"),
    ("/grpc/", "grpc.aio"),
    ("/asyncio/", "event loop, grpc.aio inside it"),
)
_counts: Counter[str] = Counter()
_known: dict[str, str] = {}


def _layer_of(file: str) -> str:
    layer = _known.get(file)
    if layer is None:
        layer = _known[file] = next((name for part, name in _LAYERS if part in file), "")
    return layer


def _sample(_: int, frame: FrameType | None) -> None:
    while frame is not None:
        layer = _layer_of(frame.f_code.co_filename)
        if layer:
            _counts[layer] += 1
            return
        frame = frame.f_back
    _counts["elsewhere"] += 1


def main() -> None:
    """Serve until SIGTERM, then write the counts."""
    out, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    try:
        runpy.run_module(module, run_name="__main__")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        out.write_text(json.dumps(_counts), "ascii")


if __name__ == "__main__":
    main()
