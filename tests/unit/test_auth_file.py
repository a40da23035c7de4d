"""AUTH_FILE: what is read, and errors that name the line and never repeat it."""

import hashlib
import os
from pathlib import Path

import pytest

from common.server.auth import read_tokens
from common.settings import SettingsError

DIGEST = hashlib.sha256(b"t0ken").hexdigest()


def write(folder: Path, text: str) -> Path:
    path = folder / "tokens"
    path.write_text(text)
    return path


def test_tokens_are_read_with_their_roles(tmp_path: Path) -> None:
    path = write(tmp_path, f"# the gateways\n\n  gw-1 {DIGEST} gateway\nops\t{DIGEST}   operator,trace\n")
    assert [(token.name, set(token.roles)) for token in read_tokens(path)] == [
        ("gw-1", {"gateway"}),
        ("ops", {"operator", "trace"}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        f"name {DIGEST}",
        f"name {DIGEST} admin",
        f"name {DIGEST} gateway,",
        f"name {DIGEST} gateway trace",
        f"name {DIGEST.upper()} gateway",
        f"name {DIGEST[:-1]} gateway",
        f"na/me {DIGEST} gateway",
        f"{DIGEST} gateway",
        "name t0ken gateway",
        f"t0ken {DIGEST} gateway",
        f"AKIAABCDEFGHIJKLMNOP {DIGEST} gateway",
    ],
)
def test_a_wrong_line_is_named_by_number_and_not_repeated(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingsError, match=r"^SUPERBIZ_AUTH_FILE line 2 must be <name> ") as caught:
        read_tokens(write(tmp_path, f"# first\n{line}\n"))
    assert DIGEST[:20] not in str(caught.value)
    assert "t0ken" not in str(caught.value)


def test_a_file_without_tokens_or_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at least one token"):
        read_tokens(write(tmp_path, "# nobody\n"))
    with pytest.raises(SettingsError, match="can be read"):
        read_tokens(tmp_path / "absent")
    with pytest.raises(SettingsError, match="can be read"):
        read_tokens(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="can be read"):
        read_tokens(tmp_path / "binary")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """It is read again while calls are served: an open that waits would hold up all of them."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="can be read"):
        read_tokens(tmp_path / "pipe")


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at most 1 MiB"):
        read_tokens(write(tmp_path, "\n" * (1024 * 1024 + 1)))


def test_a_link_to_the_file_is_followed(tmp_path: Path) -> None:
    """Orchestrators mount secrets as links."""
    (tmp_path / "link").symlink_to(write(tmp_path, f"gw {DIGEST} gateway\n"))
    assert len(read_tokens(tmp_path / "link")) == 1
