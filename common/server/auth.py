"""Who calls, when AUTH_FILE is set: bearer tokens, of which the file holds only the SHA-256 sums."""

import errno
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple, TypeAlias

from common.settings import SettingsError
from superbizagent_contract import has_credential_shape

OPERATOR = "operator"
ROLES = frozenset({"gateway", "trace", OPERATOR})

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

_MOST_BYTES = 1024 * 1024
"""Of the file: some ten thousand lines."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_LINE = re.compile(r"(\S+)\s+([0-9a-f]{64})\s+([a-z]+(?:,[a-z]+)*)", re.ASCII)


def is_caller_name(name: str) -> bool:
    """True if a caller may be called so. Names are logged: none may look like the secret of somebody."""
    return _NAME.fullmatch(name) is not None and not has_credential_shape(name)


class Token(NamedTuple):
    """One line of the file."""

    name: str
    digest: bytes
    roles: frozenset[str]


class Caller(NamedTuple):
    """Who calls: the name that AUTH_FILE gives the token, and what the token may do by its lines."""

    name: str
    digest: bytes
    roles: frozenset[str]


current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)
"""The caller of the call that this task serves; None where nobody asked."""


class Tokens:
    """The tokens of a file as it was when it was read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens = read_tokens(path)

    def __len__(self) -> int:
        return len(self._tokens)

    def reload(self) -> None:
        """Read the file again; raise SettingsError and keep the old tokens if it is wrong."""
        self._tokens = read_tokens(self._path)

    def caller(self, metadata: Metadata) -> Caller | None:
        """Whoever the token of a call belongs to; None without a token that is known."""
        bearer = _bearer(metadata)
        return None if bearer is None else self.holder(hashlib.sha256(bearer).digest())

    def holder(self, digest: bytes) -> Caller | None:
        """Whoever holds the token with this sum. Every line is compared, so the time tells nothing."""
        found = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        if not found:
            return None
        return Caller(found[0].name, digest, frozenset().union(*(token.roles for token in found)))


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Read AUTH_FILE; raise SettingsError that names the line, never its text."""
    try:
        lines = _read(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = None
    if lines is None:
        raise SettingsError("AUTH_FILE", "must be a file that can be read")
    tokens = [
        _parse(number, line.strip())
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not tokens:
        raise SettingsError("AUTH_FILE", "must name at least one token")
    return tuple(tokens)


def _read(path: Path) -> bytes:
    """The whole file. It is read in the event loop: a pipe without a writer must not hold up all calls."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise SettingsError("AUTH_FILE", "must be a file of at most 1 MiB")
    return text


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _parse(number: int, line: str) -> Token:
    found = _LINE.fullmatch(line)
    roles = frozenset(found[3].split(",")) if found else frozenset()
    if found is None or not roles <= ROLES or not _is_name_of(found[1], found[2]):
        known = ", ".join(sorted(ROLES))
        raise SettingsError(
            "AUTH_FILE", f"line {number} must be <name> <sha256 hex> <role>[,<role>] with roles of {known}"
        )
    return Token(found[1], bytes.fromhex(found[2]), roles)


def _is_name_of(name: str, digest: str) -> bool:
    """False also where the token itself was written instead of a name."""
    return is_caller_name(name) and hashlib.sha256(name.encode()).hexdigest() != digest


def _bearer(metadata: Metadata) -> bytes | None:
    """The token of the call. Two headers are none: whoever added the second one meant it to count."""
    given = [value for key, value in metadata if key == "authorization"]
    if len(given) == 1 and isinstance(given[0], str) and given[0][:7].lower() == "bearer ":
        return given[0][7:].strip().encode()
    return None
