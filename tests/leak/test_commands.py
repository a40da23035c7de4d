"""What the commands print: metadata of runs and calls, nothing that was refused, nothing a terminal obeys."""

from pathlib import Path

import pytest

from cli.main import main
from tests.leak.canaries import REFUSED
from tests.leak.ledger import Fate, Ledger
from tests.leak.legacy import RUN
from tests.leak.processes import Process, run
from tests.leak.stack import Stack


class Terminal:
    """Runs commands in this process and reads what they print."""

    def __init__(self, ledger: Ledger, capfd: pytest.CaptureFixture[str]) -> None:
        self._ledger = ledger
        self._capfd = capfd

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and all output, from which nothing leaked."""
        planted = self._ledger.bare("word", Fate.PLANTED, "the terminal")
        print(planted.mark)  # noqa: T201 - through the same outputs as the command
        try:
            code = main(list(arguments))
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = "".join(self._capfd.readouterr())
        assert self._ledger.search("cli", said.encode(errors="surrogateescape"), planted) == []
        assert not unsafe(said), said
        return code, said.replace(planted.mark + "\n", "")


def unsafe(said: str) -> set[str]:
    """Characters that a terminal would obey."""
    return {letter for letter in said if not letter.isprintable() and letter != "\n"}


@pytest.fixture
def terminal(ledger: Ledger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr("logging.lastResort", None)  # put back behind the test: the command changes it
    return Terminal(ledger, capfd)


@pytest.fixture
def at_services(services: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """Services that the commands find by themselves."""
    for name, value in services.client_settings.items():
        monkeypatch.setenv(f"SUPERBIZ_{name}", value)
    return services


@pytest.mark.parametrize("services", ["sqlite", "mariadb"], indirect=True)
def test_traces_of_old_runs_show_metadata_only(at_services: Stack, terminal: Terminal) -> None:
    for run_id in at_services.legacy.run_ids[::5]:
        for command in ("trace", "watch"):
            code, said = terminal.run(command, run_id)
            # A run of an older application in no known status is not followed.
            assert code == 0 or "RUN_NOT_MANAGED" in said, (command, said)
            assert run_id in said


@pytest.mark.parametrize("services", ["sqlite"], indirect=True)
def test_what_a_command_is_given_wrongly_is_not_repeated(
    at_services: Stack, terminal: Terminal, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [
        *(
            ("trace", "{}"),
            ("watch", "{}"),
            ("trace", RUN, "--session", "{}"),
            ("watch", RUN, "--session", "{}"),
        ),
        *(
            ("trace", RUN, "--run", "{}"),
            ("trace", RUN, "--audit", "{}"),
            ("watch", RUN, "--run", "user:{}@h:1"),
        ),
        *(("contract-check", "--target", "{}"), ("token", "new", "--name", "{}", "--role", "trace")),
        *(
            ("token", "new", "--name", "n", "--role", "{}"),
            ("{}",),
            ("trace", RUN, "{}"),
            ("trace", RUN, "--{}"),
        ),
        *(("serve", "--{}=1"), ("migrate", "{}"), ("migrate", "--check={}"), ("token", "{}")),
    ]
    for place in places:
        for shape in REFUSED:
            given = ledger.new(shape, Fate.REFUSED, f"the command line {' '.join(place)}")
            code, _ = terminal.run(*(word.replace("{}", given.text) for word in place))
            assert code == 2, (place, shape)
    for shape in REFUSED:
        if shape in ("nul", "emoji", "cjk"):
            continue
        text = ledger.new(shape, Fate.SECRET, "SUPERBIZ_TOKEN and SUPERBIZ_TLS_CA").text
        for name, good in (("TOKEN", at_services.token), ("TLS_CA", "")):
            monkeypatch.setenv(f"SUPERBIZ_{name}", text)
            code, said = terminal.run("trace", RUN)
            assert code in (1, 2), said
            monkeypatch.setenv(f"SUPERBIZ_{name}", good)


@pytest.mark.parametrize("shape", ["ansi", "sql", "jwt"])
def test_the_demo_says_its_question_and_obeys_nothing_in_it(
    ledger: Ledger, tmp_path: Path, shape: str
) -> None:
    # What the user asks is shown to the user; what is refused is not.
    fate = Fate.REFUSED if shape == "jwt" else Fate.ADMITTED
    question = ledger.new(shape, fate, "the question of the demo").text
    secret = ledger.bare("secret", Fate.SECRET, "the environment of the demo").mark
    shown: Process = run(
        ledger,
        tmp_path / "demo",
        *("cli.main", "demo"),
        f"--question={question}",
        TOKEN=secret,
        DATABASE_URL=f"mysql+aiomysql://root:{secret}@127.0.0.1:9/none",
        REDIS_URL=f"redis://:{secret}@127.0.0.1:9/0",
        columns="100",
    )
    assert shown.popen.returncode == (2 if shape == "jwt" else 0), shown.err
    assert not unsafe((shown.out + shown.err).decode())
    planted = shown.planted
    said = [*ledger.search("demo", shown.out, planted), *ledger.search("demo", shown.err, planted)]
    assert said == []
    logs = b"".join(path.read_bytes() for path in (shown.folder / "home").rglob("*.log"))
    assert question.encode() not in logs
