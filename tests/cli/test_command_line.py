"""Help that teaches, exit codes, and errors of one line that repeat nothing."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from cli.lessons import LESSONS
from cli.main import main
from tests.cli.commands import COMMAND, ROOT, environment, one_line, run

_NEVER_REPEATED = "hunter2-value"


class Told:
    """Runs commands in this process and reads the one line that each says on stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str], environ: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._environ = environ
        for name in [name for name in os.environ if name.startswith("SUPERBIZ_")]:
            environ.delenv(name)

    def set(self, setting: str, value: str) -> None:
        self._environ.setenv(f"SUPERBIZ_{setting}", value)

    def __call__(self, *arguments: str) -> tuple[int, str]:
        try:
            code: object = main(list(arguments))
        except SystemExit as end:
            code = end.code
        (line,) = self._capsys.readouterr().err.splitlines()
        assert isinstance(code, int)
        assert line.startswith("superbizagent")
        return code, line


@pytest.fixture
def told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Told:
    monkeypatch.chdir(tmp_path)
    return Told(capsys, monkeypatch)


@pytest.mark.parametrize("command", [name for name in LESSONS if name != "token"])
def test_help_of_each_command_has_an_explanation_examples_and_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    shown = capsys.readouterr().out
    assert end.value.code == 0
    assert LESSONS[command].what.splitlines()[0] in shown
    assert "examples:" in shown
    assert "exit codes:" in shown
    assert all(f"SUPERBIZ_{name}" in shown for name in LESSONS[command].settings)
    assert max(map(len, shown.splitlines())) <= 100


def test_help_of_the_program_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    shown = capsys.readouterr().out
    assert end.value.code == 0
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert all(f"{name} {lesson.brief}" in lines for name, lesson in LESSONS.items() if " " not in name)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"superbizagent {version('superbizagent')}\n"


@pytest.mark.parametrize("command", ["demo", "serve", "migrate", "token new --name n --role trace"])
def test_what_a_command_does_not_know_is_told_with_the_help_of_that_command(command: str, told: Told) -> None:
    code, line = told(*command.split(), _NEVER_REPEATED)
    program = "superbizagent " + command.partition(" --")[0]
    assert (code, line) == (2, f"{program}: unknown arguments; see {program} --help")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(','.join({'grpc', 'sqlalchemy', 'pydantic', 'rich'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(ROOT),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [_NEVER_REPEATED],
        ["watch"],
        ["watch", "run-1", _NEVER_REPEATED],
        ["watch", f"--{_NEVER_REPEATED}", "run-1"],
        ["watch", f"--run={_NEVER_REPEATED}", "run-1"],
        ["watch", "--run=127.0.0.1:0", "run-1"],
        ["watch", f"{_NEVER_REPEATED}\x1b[31m"],
        ["watch", f"--session={_NEVER_REPEATED} x", "run-1"],
        ["trace", f"--audit={_NEVER_REPEATED}:port", "run-1"],
        ["conformance", f"--run=127.0.0.1:1,{_NEVER_REPEATED}"],
        ["conformance", "--audit="],
        ["migrate", "--check", "--take-over"],
        ["migrate", f"--check={_NEVER_REPEATED}"],
        ["token"],
        ["token", "new", "--role", "trace"],
        ["token", "new", "--name", f"{_NEVER_REPEATED} x", "--role", "trace"],
        ["token", "new", "--name", "n", "--role", f"trace,{_NEVER_REPEATED}"],
        ["demo", "--question", ""],
        ["demo", "--question", "ghp_" + "a" * 36],
        ["demo", "--question", "x" * 16_001],
    ],
)
def test_a_wrong_command_line_is_told_so_in_one_line_without_its_values(
    arguments: list[str], told: Told
) -> None:
    code, line = told(*arguments)
    assert code == 2
    assert _NEVER_REPEATED not in line
    assert "ghp_" not in line


@pytest.mark.parametrize(
    "command", ["serve", "run-service", "audit-service", "migrate", "watch r", "trace r"]
)
def test_a_wrong_setting_is_named_in_one_line_without_its_value(command: str, told: Told) -> None:
    told.set("DATABASE_URL", _NEVER_REPEATED)
    code, line = told(*command.split())
    assert code == 2
    assert ": SUPERBIZ_DATABASE_URL must be " in line
    assert _NEVER_REPEATED not in line


@pytest.mark.parametrize(
    ("setting", "value"), [("TOKEN", "two words"), ("TLS_CA", "/nowhere/ca.pem"), ("TLS_CA", __file__)]
)
def test_a_wrong_client_setting_is_named(setting: str, value: str, told: Told) -> None:
    told.set(setting, value)
    code, line = told("watch", "run-1")
    assert code == 2
    assert line.startswith(f"superbizagent watch: SUPERBIZ_{setting} must be ")


def test_a_token_is_not_sent_beyond_this_machine_without_tls(told: Told) -> None:
    told.set("TOKEN", "secret-token")
    code, line = told("watch", "--run", "192.0.2.1:50051", "run-1")
    assert code == 2
    assert "SUPERBIZ_TLS_CA" in line
    assert "secret-token" not in line


@pytest.mark.parametrize("command", ["watch", "trace"])
def test_a_service_that_is_not_there_is_exit_code_1(command: str, tmp_path: Path) -> None:
    line = one_line(run(command, "--run", "127.0.0.1:1", "run-1", cwd=tmp_path), 1)
    assert "RunService at 127.0.0.1:1 does not answer" in line
    assert "SUPERBIZ_TLS_CA" in line  # a server that wants TLS looks the same


def test_what_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise RuntimeError(_NEVER_REPEATED)

    monkeypatch.setitem(main.__globals__["_COMMANDS"], "serve", fail)
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == "superbizagent serve: failed unexpectedly (RuntimeError)\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command", ["token new --name n --role trace", "contract-check", "--help", "watch --help"]
)
def test_a_reader_that_went_away_ends_the_command_without_a_word(
    command: str, unbuffered: str, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*COMMAND, *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path) | {"PYTHONUNBUFFERED": unbuffered},
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
