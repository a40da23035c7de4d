"""What comes from a browser, as far as the services do not check it themselves."""

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from chat_gateway.problems import BadRequest

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_MOST_BYTES = 256 * 1024
"""More than the longest question takes, however it is escaped."""


async def json_body(request: Request) -> Mapping[str, Any]:
    """The JSON object in the body."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise BadRequest("body", 413)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequest("body")
    return found


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text of the body. Half an emoji is none: it cannot be sent on, and its error would repeat it."""
    found = body.get(name, default)
    if not isinstance(found, str) or _HALF_A_PAIR.search(found):
        raise BadRequest(name)
    return str(found)


def flag(body: Mapping[str, Any], name: str) -> bool:
    """A boolean of the body, False if it is not there."""
    found = body.get(name, False)
    if not isinstance(found, bool):
        raise BadRequest(name)
    return found


def position(request: Request) -> int:
    """The seq behind which events are wanted.

    A browser that reconnects says so by Last-Event-ID, one that loaded its page anew by `afterSeq`.
    """
    given = request.headers.get("last-event-id") or request.query_params.get("afterSeq") or "0"
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise BadRequest("Last-Event-ID")
    return int(given)
