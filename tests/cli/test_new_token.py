"""`token new`: what it prints is what AUTH_FILE takes, and nothing is written."""

import hashlib
from pathlib import Path

import pytest

from cli.main import main
from common.server.auth import read_tokens
from superbizagent_contract import has_credential_shape


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert main(["token", "new", *arguments]) == 0
    token, line = capsys.readouterr().out.splitlines()
    return token.removeprefix("token: "), line.removeprefix("line: ")


@pytest.mark.parametrize(
    "roles",
    [["--role", "trace", "--role", "gateway"], ["--role", "trace,gateway"], ["--role", "gateway, trace"]],
)
def test_the_line_makes_the_services_know_the_token(
    roles: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token, line = _printed(capsys, "--name", "gateway-1", *roles)
    (tmp_path / "auth").write_text(f"# callers\n{line}\n")
    (known,) = read_tokens(tmp_path / "auth")
    assert known.name == "gateway-1"
    assert known.roles == {"trace", "gateway"}
    assert known.digest == hashlib.sha256(token.encode()).digest()


def test_tokens_are_random_and_unlike_foreign_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    tokens = {_printed(capsys, "--name", "n", "--role", "operator")[0] for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 43
    assert not any(map(has_credential_shape, tokens))


def test_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPERBIZ_AUTH_FILE", str(tmp_path / "auth"))
    _printed(capsys, "--name", "n", "--role", "trace")
    assert list(tmp_path.iterdir()) == []
