"""Settings: a value that is refused is not repeated, and what is secret in one that is taken is not shown."""

import traceback
from pathlib import Path

import pytest

from common.settings import PREFIX, Settings, SettingsError
from tests.leak.canaries import ADMITTED, REFUSED
from tests.leak.ledger import Fate, Ledger
from tests.leak.processes import run
from tests.leak.stack import output_leaks

NAMES = [name.upper() for name in Settings.model_fields]

SECRET_IN = {
    "DATABASE_URL": [
        "mysql+aiomysql://root:{}@db:3306/prod",
        "mysql+aiomysql://root:a%40{}%2Fb@db/prod",
        "mysql+aiomysql://{}@db/prod",
        "mysql+aiomysql://root@db/prod?password={}",
        "mysql+aiomysql://db/prod?{}={}",
        "sqlite+aiosqlite:///runs.db?key={}",
    ],
    "REDIS_URL": [
        "redis://:{}@cache:6379/0",
        "redis://user:{}@cache",
        "redis://{}@cache:6379",
        "rediss://cache:6379/0?password={}",
        "unix:///run/redis.sock?password={}",
    ],
}
"""Values that are taken."""

MISTAKES = {
    "DATABASE_URL": [
        "mysql+aiomysql://root:{}#x@db:3306/prod",
        "mysql+aiomysql://root:a/{}@db:3306/prod",
        "mysql+aiomysql://root:a@{}@db:3306/prod",
        "mysql://root:{}@db/prod",
        "root:{}@db/prod",
        "mysql+aiomysql://root:{}@db:port/prod",
    ],
    "REDIS_URL": [
        "redis://:a/{}@cache",
        "redis://:{}@cache:x",
        "http://:{}@cache",
        "redis://:a#{}@cache:6379",
    ],
    "RUN_LISTEN": ["user:{}@127.0.0.1:1", "http://{}:80", "127.0.0.1:{}", "{}"],
    "ALLOWED_TOOLS": ["query_logs,password={}", "{} {}"],
    "DATABASE_TIME_ZONE": ["+00:00 {}"],
    "LOG_LEVEL": ["DEBUG {}"],
    "RUN_LEASE_SECONDS": ["1 {}"],
}
"""Values with which people get it wrong."""


def _said_of(name: str, value: str) -> tuple[str, bool]:
    """Everything that there is to see of a setting, and whether it was taken."""
    try:
        settings = Settings.from_env({f"{PREFIX}{name}": value})
    except SettingsError as error:
        caught = "".join(traceback.format_exception(error))
        return f"{error!s} {error!r} {error.args} {vars(error)} {caught}", False
    return f"{settings!s} {settings!r} {settings.shown()} {settings.model_dump_json()}", True


def _leaks(ledger: Ledger, said: list[str]) -> list[str]:
    planted = ledger.bare("word", Fate.PLANTED, "what is said of settings")
    return ledger.search("start", "\n".join([*said, planted.mark]).encode(), planted)


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_that_is_refused_is_not_repeated(ledger: Ledger, name: str) -> None:
    said = []
    for shape in (*REFUSED, *ADMITTED):
        given = ledger.new(shape, Fate.REFUSED, f"setting {name}")
        text, taken = _said_of(name, given.text)
        if taken:
            # A path, a tool: it is what it says, and shown.
            ledger.judge(given, Fate.ADMITTED)
        said.append(text)
    for template in MISTAKES.get(name, []):
        mark = ledger.bare("secret", Fate.SECRET, f"setting {name}").mark
        text, taken = _said_of(name, template.format(mark, mark))
        assert not taken, template
        said.append(text)
    assert _leaks(ledger, said) == []


@pytest.mark.parametrize("name", SECRET_IN)
def test_what_is_secret_in_a_setting_is_not_shown(ledger: Ledger, name: str) -> None:
    said = []
    for template in SECRET_IN[name]:
        mark = ledger.bare("secret", Fate.SECRET, f"setting {name}").mark
        text, taken = _said_of(name, template.format(mark, mark))
        assert taken, template
        said.append(text)
    assert _leaks(ledger, said) == []


@pytest.mark.parametrize("name", ["TLS_CERT", "TLS_KEY", "TLS_CLIENT_CA", "AUTH_FILE"])
def test_what_stands_where_a_path_should_be_is_not_shown(ledger: Ledger, tmp_path: Path, name: str) -> None:
    """People put the key itself there, or the token."""
    for number, shape in enumerate(("pem", "bearer")):
        text = ledger.new(shape, Fate.REFUSED, f"setting {name}").text
        paths = {} if name == "AUTH_FILE" else {"TLS_CERT": __file__, "TLS_KEY": __file__}
        settings = {"RUN_LISTEN": "127.0.0.1:0"} | paths | {name: text}
        failed = run(ledger, tmp_path / str(number), "run_service", **settings)
        assert failed.popen.returncode == 2
        assert failed.err.endswith(
            f"run_service: {PREFIX}{name} must be a file that can be read\n".encode()
        ), failed.err
        assert output_leaks(ledger, failed, "start", "start") == []


def test_a_line_of_a_token_file_that_is_wrong_is_not_repeated(ledger: Ledger, tmp_path: Path) -> None:
    for number, shape in enumerate(("bearer", "github", "ansi")):
        text = ledger.new(shape, Fate.REFUSED, "AUTH_FILE").text
        path = tmp_path / f"tokens{number}"
        path.write_text(f"# tokens\nname {text} operator\n")
        failed = run(
            ledger, tmp_path / str(number), "run_service", AUTH_FILE=str(path), RUN_LISTEN="127.0.0.1:0"
        )
        assert failed.popen.returncode == 2
        assert b"AUTH_FILE line 2 must be" in failed.err
        assert output_leaks(ledger, failed, "start", "start") == []
