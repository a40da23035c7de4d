"""Layer that asks who calls and whether the role may do it, when AUTH_FILE is set.

The file holds only SHA-256 sums of tokens. What a role may do is data: each service names, for each of its
methods, the roles and what of the request they depend on; `operator` may do everything, and what a table does
not name only an operator may do.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from common.errors import Refusal
from common.server.call import Context, Handler, Layer, Method
from common.settings import SettingsError
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

OPERATOR = "operator"
ROLES = frozenset({"gateway", "trace", OPERATOR})

RoleTable: TypeAlias = Mapping[str, Mapping[str, Callable[[Any], bool]]]
"""Method name -> role -> whether the role may send this request."""

_LINE = re.compile(r"([A-Za-z0-9_.-]{1,64})\s+([0-9a-f]{64})\s+([a-z]+(?:,[a-z]+)*)", re.ASCII)


def any_request(_: Any) -> bool:
    """For role tables: the role may send whatever request."""
    return True


class Token(NamedTuple):
    """One line of the file."""

    name: str
    digest: bytes
    roles: frozenset[str]


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Read AUTH_FILE; raise SettingsError that names the line, never its text."""
    try:
        lines = path.read_text("utf-8").splitlines()
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


def _parse(number: int, line: str) -> Token:
    found = _LINE.fullmatch(line)
    roles = frozenset(found[3].split(",")) if found else frozenset()
    if found is None or not roles <= ROLES:
        known = ", ".join(sorted(ROLES))
        raise SettingsError(
            "AUTH_FILE", f"line {number} must be <name> <sha256 hex> <role>[,<role>] with roles of {known}"
        )
    return Token(found[1], bytes.fromhex(found[2]), roles)


def auth(tokens: tuple[Token, ...], tables: Mapping[str, RoleTable], open_services: frozenset[str]) -> Layer:
    """Make the layer. `tables` is by service; `open_services` are for everybody, token or not."""

    def layer(method: Method, inner: Handler) -> Handler:
        if method.service in open_services:
            return inner
        rules = tables.get(method.service, {}).get(method.name, {})

        async def call(request: Any, context: Context) -> Any:
            roles = _roles(tokens, context)
            if OPERATOR not in roles and not any(
                role in roles and may_send(request) for role, may_send in rules.items()
            ):
                raise Refusal(ErrorReason.ERROR_REASON_ROLE_REQUIRED)
            return await inner(request, context)

        return call

    return layer


def _roles(tokens: tuple[Token, ...], context: Context) -> frozenset[str]:
    """The roles of the caller's token; every line is compared, so the time tells nothing."""
    digest = hashlib.sha256(_bearer(context)).digest()
    roles: frozenset[str] = frozenset()
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            roles |= token.roles
    if not roles:
        raise Refusal(ErrorReason.ERROR_REASON_UNAUTHENTICATED)
    return roles


def _bearer(context: Context) -> bytes:
    metadata: Any = context.invocation_metadata() or ()
    for key, value in metadata:
        if key == "authorization" and isinstance(value, str) and value[:7].lower() == "bearer ":
            return value[7:].strip().encode()
    raise Refusal(ErrorReason.ERROR_REASON_UNAUTHENTICATED)
