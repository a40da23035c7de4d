"""The demo as a newcomer runs it, and that it fails when what it shows did not really happen."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import (
    COMMAND,
    ROOT,
    SECONDS,
    Finished,
    await_text,
    environment,
    one_line,
    run,
    started,
)

_PID = r"serves at \S+, process (\d+)"


def _run_demo(tmp_path: Path, *arguments: str, before: Path | None = None) -> Finished:
    """With an empty HOME, and with its folder inside the test's."""
    (tmp_path / "temporary").mkdir(exist_ok=True)
    with contextlib.ExitStack() as changed:
        patch = changed.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("TMPDIR", str(tmp_path / "temporary"))
        return run("demo", *arguments, cwd=tmp_path, before=before)


def _database(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "temporary").glob("superbizagent-demo-*/demo.db")
    return path


def _rows(path: Path, statement: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def _no_process_is_left(shown: str) -> bool:
    pids = [int(pid) for pid in re.findall(_PID, shown)]
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_the_demo_carries_out_a_real_diagnosis_from_an_empty_home(tmp_path: Path) -> None:
    done = _run_demo(tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "FAIL" not in done.stdout
    assert done.stdout.count("  ok    ") == 8
    assert "no language model" in done.stdout
    screen, _, _commands = done.stdout.partition("What to try next")
    assert max(len(line) for line in screen.splitlines() if str(tmp_path) not in line) <= 100
    assert done.stdout.replace("\n", "").isprintable()
    assert len(re.findall(_PID, done.stdout)) == 2
    assert _no_process_is_left(done.stdout)
    ((status, answer, result),) = _rows(
        _database(tmp_path), "SELECT status, answer, published_result FROM diagnosis_run"
    )
    assert status == "SUCCESS"
    for cause in ("INVALID_FIELD", "TOOL_NOT_ALLOWED", "CREDENTIAL_SHAPED", "UNKNOWN_FIELD"):
        (told,) = re.findall(rf"(\d+) x refused: {cause}", done.stdout)
        assert f"{told} x {cause} " in answer
        assert cause in result
    tools = _rows(_database(tmp_path), "SELECT tool_name FROM tool_invocation ORDER BY id")
    assert [name for (name,) in tools[-3:]] == ["query_logs", "lookup_knowledge", "query_mysql"]


def test_what_the_demo_says_to_try_next_works(tmp_path: Path) -> None:
    shown = _run_demo(tmp_path).stdout
    next_steps = shown[shown.index("What to try next") :].replace("\\\n", "")
    (url,) = re.findall(r"SUPERBIZ_DATABASE_URL=(\S+) +\S+superbizagent serve", next_steps)
    (run_id,) = re.findall(r"superbizagent trace (\S+)", next_steps)
    folder = tmp_path / "serve"
    folder.mkdir()
    settings = {"RUN_LISTEN": "127.0.0.1:0", "AUDIT_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json"}
    with started("serve", cwd=folder, DATABASE_URL=url, **settings):
        addresses = await_text(folder / "err", r'"serving".*"address": "([^"]+)"', times=2)
        await_text(folder / "err", '"service is ready"', times=2)
        trace = run("trace", "--run", addresses[0], "--audit", addresses[1], run_id, cwd=tmp_path)
    assert trace.returncode == 0
    assert trace.stdout.strip() in shown


def test_another_question_is_answered_from_the_docs(tmp_path: Path) -> None:
    done = _run_demo(tmp_path, "--question", "how does a stream resume after a cut?")
    assert (done.returncode, done.stderr) == (0, "")
    ((status, answer),) = _rows(_database(tmp_path), "SELECT status, answer FROM diagnosis_run")
    assert status == "SUCCESS"
    assert "after_seq" in answer


def test_a_question_without_evidence_gets_an_honest_fallback(tmp_path: Path) -> None:
    done = _run_demo(tmp_path, "--question", "what is the weather in Paris?")
    assert (done.returncode, done.stderr) == (0, "")
    ((status, answer),) = _rows(_database(tmp_path), "SELECT status, answer FROM diagnosis_run")
    assert status == "FALLBACK"
    assert answer.startswith("Nothing in the docs, the log or the database answers this.")


_NASTY = (
    "it's a \"question\" `touch {mark}` $(touch {mark}) ${{HOME}} $$ \\n 100% 'why?' -x ; "
    "touch {mark} # \U0001f469\u200d\U0001f52c"
)


def test_make_demo_hands_on_any_question_as_it_stands(tmp_path: Path) -> None:
    mark = tmp_path / "touched"
    question = _NASTY.format(mark=mark)
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        # Whether the virtual environment is as new as the lock is not for this test to change.
        ["make", "-s", "-o", ".venv/.ready", "demo", f"BIN={Path(sys.executable).parent}", f"Q={question}"],
        cwd=ROOT,
        env=environment(tmp_path) | {"TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert _rows(_database(tmp_path), "SELECT query FROM diagnosis_run") == [(question,)]
    assert not mark.exists()


# Each is put into the processes of one demo (sitecustomize runs as Python starts) and takes away something
# that the demo claims; the last word is what the demo must then say.
_SABOTAGES = {
    "the docs are gone": (
        "import pathlib, cli.demo.knowledge as k; k.ROOT = pathlib.Path('/nowhere')",
        "log, docs and database each gave evidence",
    ),
    "tool calls are not recorded": (
        "from superbizagent_client import AuditRecorder as R; R.record = lambda *a, **k: None",
        "three tool calls",
    ),
    "the live stream loses an event": (
        """
        from superbizagent_client import RunEventStream as S
        whole = S.next_message
        async def next_message(self):
            message = await whole(self)
            lost = message is not None and message.event.seq == 5
            return await whole(self) if lost else message
        S.next_message = next_message
        """,
        "the live stream brought all",
    ),
    "the log keeps quiet about reasons": (
        "import common.log; common.log.ALLOWED_KEYS -= {'rule'}",
        "the log of AuditService has the",
    ),
    "a refused value gets into a log": (
        "import sys; 'audit_service' in sys.orig_argv and sys.stderr.write('drop_all_tables\\n')",
        "no refused value",
    ),
    "another answer is published than is shown": (
        """
        from superbizagent_client import ActiveRun as R
        whole = R.finish
        R.finish = lambda self, outcome, **given: whole(self, outcome, **given | {"answer": "all is well"})
        """,
        "holds the answer above",
    ),
    "a service does not stop cleanly": (
        "import sys, atexit, os; 'run_service' in sys.orig_argv and atexit.register(os._exit, 3)",
        "both services drained",
    ),
}


@pytest.fixture
def sabotaged(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "sabotage"
    folder.mkdir()
    yield folder
    assert (folder / "sitecustomize.py").exists()


@pytest.mark.parametrize("sabotage", _SABOTAGES)
def test_the_demo_fails_if(sabotage: str, sabotaged: Path, tmp_path: Path) -> None:
    code, fact = _SABOTAGES[sabotage]
    (sabotaged / "sitecustomize.py").write_text(textwrap.dedent(code))
    done = _run_demo(tmp_path, before=sabotaged)
    assert one_line(done, 1) == "superbizagent demo: not everything that the demo shows really happened"
    failed = re.findall(r"  FAIL  (.*)", done.stdout)
    assert any(fact in sentence for sentence in failed)
    assert _no_process_is_left(done.stdout)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os, sys; 'audit_service' in sys.orig_argv and os._exit(3)", "ended by itself with 3"),
        (
            """
            import os, sys
            if "audit_service" in sys.orig_argv:
                from audit_service.servicer import AuditServicer
                async def die(self, request, context): os._exit(9)
                AuditServicer.BatchRecordToolInvocations = die
            """,
            "AuditService at",
        ),
        (
            """
            import os, sys
            if "run_service" in sys.orig_argv:
                from run_service.servicer import RunServicer
                async def die(self, request, context): os._exit(9)
                RunServicer.FinishRun = die
            """,
            "RunService at",
        ),
    ],
    ids=["audit_service cannot start", "audit_service dies in the middle", "run_service dies in the middle"],
)
def test_the_demo_fails_and_stops_the_other_service_if(
    code: str, said: str, sabotaged: Path, tmp_path: Path
) -> None:
    (sabotaged / "sitecustomize.py").write_text(textwrap.dedent(code))
    done = _run_demo(tmp_path, before=sabotaged)
    assert said in one_line(done, 1)
    assert _no_process_is_left(done.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_stops_what_it_started(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [*COMMAND, "demo"],
            cwd=tmp_path,
            env=environment(tmp_path) | {"TMPDIR": str(tmp_path)},
            stdout=out,
            stderr=err,
        )
    try:
        await_text(tmp_path / "out", "1  The services")
        os.kill(process.pid, number)
        assert process.wait(SECONDS) == 130
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "err").read_text("utf-8") == ""
    (folder,) = tmp_path.glob("superbizagent-demo-*")
    for log in folder.glob("*.log"):
        for pid in re.findall(r'"pid": (\d+)', log.read_text("utf-8")):
            assert not Path(f"/proc/{pid}").exists()


def test_settings_of_the_caller_do_not_reach_the_demo(tmp_path: Path) -> None:
    mine = tmp_path / "mine.db"
    done = run("demo", cwd=tmp_path, DATABASE_URL=f"sqlite+aiosqlite:///{mine}", RUN_LISTEN="nonsense")
    assert done.returncode == 0
    assert not mine.exists()
