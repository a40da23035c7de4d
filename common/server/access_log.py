"""Layer that counts and logs each call: method, code, duration, and why it was refused.

Of the request nothing is logged but what a refusal names: the path of a field and the rule it broke. Of the
caller it is the name that AUTH_FILE gives the token.
"""

import asyncio
import time
from typing import Any

import grpc

from common.errors import Refusal
from common.log import FrequentLine
from common.server.auth import current_caller
from common.server.call import Context, Handler, Layer, Method
from common.server.metering import CallMeter
from common.server.neutral import InternalError
from common.server.status_details import code_of, reason_name
from superbizagent_contract import kinds


def access_log(calls: CallMeter) -> Layer:
    """Layer: one line a call, at its end."""

    def layer(method: Method, inner: Handler) -> Handler:
        line = FrequentLine("server", "call", service=method.service, method=method.name)
        counted = calls.of(method)

        async def call(request: Any, context: Context) -> Any:
            start = time.perf_counter()
            try:
                reply = await inner(request, context)
            except BaseException as error:
                seconds, outcome = time.perf_counter() - start, _outcome(error, context)
                counted.ended(outcome["code"], seconds, outcome.get("reason"))
                line.write(duration_ms=seconds * 1000, **outcome, **_who())
                raise
            seconds = time.perf_counter() - start
            counted.ended("OK", seconds)
            line.write(duration_ms=seconds * 1000, code="OK", **_who())
            return reply

        return call

    return layer


def _who() -> dict[str, str]:
    """The name that AUTH_FILE gives the caller: it is the file's word, not the caller's."""
    caller = current_caller.get()
    return {} if caller is None else {"caller": caller.name}


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
