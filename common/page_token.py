"""Page tokens: where the next page begins, bound to the query that they continue.

A token is a letter, the position as decimal numbers, and a digest of the query; it needs no secret, since a
position leads only into rows that the query, which is checked anew with each call, returns anyway. A token
from another query is refused: resuming elsewhere would skip or repeat rows.
"""

import base64
import hashlib
import struct

from common.errors import Refusal, Violation
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

_VERSION = b"\x01"
_DIGEST_BYTES = 12


def make_token(query: tuple[object, ...], position: tuple[int, ...]) -> str:
    """The token for the page after `position` of `query`. Positions are signed 64-bit integers."""
    packed = struct.pack(f">{len(position)}q", *position)
    raw = _VERSION + _digest(query, packed) + packed
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def read_token(query: tuple[object, ...], token: str, numbers: int) -> tuple[int, ...] | None:
    """The position in a token of `query`; None for the empty token. Raises PAGE_TOKEN_INVALID."""
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    packed = raw[1 + _DIGEST_BYTES :]
    if len(packed) == 8 * numbers:
        position = struct.unpack(f">{numbers}q", packed)
        # Made anew and compared as text: base64 spells the same bytes in several ways.
        if make_token(query, position) == token:
            return position
    raise page_token_invalid()


def page_token_invalid() -> Refusal:
    """PAGE_TOKEN_INVALID, for whoever finds that a position is none of its rows."""
    return Refusal(
        ErrorReason.ERROR_REASON_PAGE_TOKEN_INVALID,
        violations=[Violation("page_token", "must be a token from the page before, of the same query")],
    )


def _digest(query: tuple[object, ...], packed: bytes) -> bytes:
    return hashlib.sha256(repr(query).encode() + b"\0" + packed).digest()[:_DIGEST_BYTES]
