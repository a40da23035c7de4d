"""Layer that logs each call: method, code, duration, and why it was refused.

Of the request nothing is logged but what a refusal names: the path of a field and the rule it broke. Of the
caller it is the name that AUTH_FILE gives the token.
"""

import asyncio
import time
from typing import Any

import grpc

from common.errors import Refusal
from common.log import get_logger
from common.server.auth import current_caller
from common.server.call import Context, Handler, Method
from common.server.neutral import InternalError
from common.server.status_details import code_of, reason_name
from superbizagent_contract import kinds

_log = get_logger("server")


def access_log(method: Method, inner: Handler) -> Handler:
    """Layer: one line a call, at its end."""
    log = _log.bind(service=method.service, method=method.name)

    async def call(request: Any, context: Context) -> Any:
        start = time.perf_counter()
        try:
            reply = await inner(request, context)
        except BaseException as error:
            log.info("call", duration_ms=_since(start), **_outcome(error, context), **_who())
            raise
        log.info("call", duration_ms=_since(start), code="OK", **_who())
        return reply

    return call


def _who() -> dict[str, str]:
    """The name that AUTH_FILE gives the caller: it is the file's word, not the caller's."""
    caller = current_caller.get()
    return {} if caller is None else {"caller": caller.name}


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def _outcome(error: BaseException, context: Context) -> dict[str, Any]:
    if isinstance(error, Refusal):
        return _refused(error)
    if isinstance(error, grpc.aio.AbortError):
        return {"code": context.code().name}
    if isinstance(error, asyncio.CancelledError) and context.time_remaining() == 0:
        return {"code": "DEADLINE_EXCEEDED"}
    return {"code": "CANCELLED"}


def _refused(refusal: Refusal) -> dict[str, Any]:
    # The grammar is asked again: a mistake in a use-case must not open the log to free text.
    keys: dict[str, Any] = {"code": code_of(refusal).name, "reason": reason_name(refusal)}
    if refusal.field and kinds.FIELD_PATH.fits(refusal.field):
        keys["field"] = refusal.field
    if refusal.violations:
        keys["rule"] = refusal.violations[0].rule
    if refusal.run_id and kinds.IDENTIFIER.admits(refusal.run_id):
        keys["run_id"] = refusal.run_id
    if refusal.status and kinds.STATUS.fits(refusal.status):
        keys["status"] = refusal.status
    if isinstance(refusal, InternalError):
        keys["reference"] = refusal.reference
    return keys
