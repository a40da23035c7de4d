"""Layer that lets nothing but our own sentences out.

By itself grpc sends the text of an uncaught exception to the caller. Here the caller gets INTERNAL and a
reference; the log has type and place of the error under the same reference.
"""

import asyncio
import secrets
from typing import Any

import grpc

from common.error_report import describe_error
from common.errors import Refusal
from common.log import get_logger
from common.server.call import Context, Handler, Method
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

_log = get_logger("server")


class InternalError(Refusal):
    """An error that we did not foresee; `reference` finds it in the log."""

    def __init__(self, reference: str) -> None:
        super().__init__(ErrorReason.ERROR_REASON_INTERNAL)
        self.reference = reference

    def metadata(self) -> dict[str, str]:
        return {"reference": self.reference}


def neutral(method: Method, inner: Handler) -> Handler:
    """Layer: whatever is no refusal becomes InternalError."""

    def report(error: BaseException) -> str:
        reference = secrets.token_hex(8)
        _log.error(
            "internal error",
            service=method.service,
            method=method.name,
            reference=reference,
            **describe_error(error),
        )
        return reference

    async def call(request: Any, context: Context) -> Any:
        try:
            return await inner(request, context)
        except (Refusal, grpc.aio.AbortError, grpc.aio.InternalError):
            # The last is grpc's own: a write to a peer that is gone. Nobody is left to be answered.
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the caller hung up, its deadline passed, or the server is cutting calls
            # Something that the handler awaited was cancelled, not the call. grpc would send no status at
            # all, and a caller without a deadline would wait for ever.
            reference = report(error)
        except Exception as error:  # noqa: BLE001 - that is the subject of this file
            reference = report(error)
        raise InternalError(reference)

    return call
