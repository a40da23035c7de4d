"""Runs the `superbizagent` command as its users do: as a process, with an environment that the test gives."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "cli.main")
SECONDS = 40

Finished = subprocess.CompletedProcess[str]


def environment(home: Path, before: Path | None = None, /, **settings: str) -> dict[str, str]:
    """An environment without anybody's settings. `before` is searched first for Python modules."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    paths = [*([before] if before else []), ROOT, ROOT / "protos"]
    given = {f"SUPERBIZ_{name}": value for name, value in settings.items()}
    return own | given | {"HOME": str(home), "PYTHONPATH": os.pathsep.join(map(str, paths))}


def run(*arguments: str, cwd: Path, before: Path | None = None, **settings: str) -> Finished:
    """Run a command to its end, in an empty folder."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(cwd, before, **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@contextlib.contextmanager
def started(*arguments: str, cwd: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs on, its output in `cwd`/out and `cwd`/err; killed at the end if it still runs."""
    with (cwd / "out").open("w") as out, (cwd / "err").open("w") as err:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            env=environment(cwd, **settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)


def await_text(path: Path, pattern: str, times: int = 1, seconds: float = SECONDS) -> list[str]:
    """Return what a pattern matches in a file as soon as it does so often; fail after the time limit."""
    end = time.monotonic() + seconds
    while len(found := re.findall(pattern, path.read_text("utf-8"))) < times:
        assert time.monotonic() < end, (
            f"{pattern} did not come; {path.name} has {path.read_text('utf-8')[-2000:]}"
        )
        time.sleep(0.01)
    return found


def one_line(finished: Finished, exit_code: int) -> str:
    """The one line on stderr of a command that failed, and nothing else."""
    lines = finished.stderr.splitlines()
    assert finished.returncode == exit_code, finished
    assert len(lines) == 1, finished.stderr
    assert "Traceback" not in lines[0]
    return lines[0]
