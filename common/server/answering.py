"""Outermost layer: a refusal becomes the status of the call."""

import asyncio
from typing import Any

from common.errors import Refusal
from common.server.call import Context, Handler, Method
from common.server.status_details import to_answer

ABORT_SECONDS = 1.0
"""How long ending a stream may wait for its reader. The status waits behind what is in flight; a reader that
takes nothing must not keep the task, its cursor and its SQL until it does."""


def answering(method: Method, inner: Handler) -> Handler:
    """Layer: answer Refusal by its code, sentence and details."""
    limit = ABORT_SECONDS if method.streams else None

    async def call(request: Any, context: Context) -> Any:
        try:
            return await inner(request, context)
        except Refusal as refusal:
            answer = to_answer(refusal)
        # Aborted out here: inside the except block the cause would travel along as context of the abort's
        # exception, into whatever reports exceptions.
        try:
            async with asyncio.timeout(limit):
                await context.abort(answer.code, answer.sentence, answer.trailers)
        except TimeoutError:
            # The status is on its way all the same; grpc sees that the call was aborted.
            return None

    return call
