"""Runs Python snippets: the blocks of a document are one program, with `await` at its top level."""

import ast
import asyncio
import contextlib
import inspect
import sys
from typing import Any

from tests.docs.markdown import Block
from tests.docs.serving import SECONDS, Pair
from tests.support.redis_server import private_redis


async def run_blocks(blocks: list[Block], pair: Pair) -> None:
    """Run the blocks in order, in one namespace. A block with a main of its own is a program by itself."""
    namespace: dict[str, Any] = {
        "__name__": "snippet",
        "RUN_ADDRESS": pair.run_address,
        "AUDIT_ADDRESS": pair.audit_address,
    }
    async with contextlib.AsyncExitStack() as stack:
        if any("REDIS_URL" in block.text for block in blocks):
            namespace["REDIS_URL"] = (await stack.enter_async_context(private_redis(pair.folder))).url
        await stack.enter_async_context(asyncio.timeout(SECONDS))
        for block in blocks:
            if "asyncio.run(" in block.text:
                await _run_program(block, pair)
            else:
                await _run_in(namespace, block, pair)


async def _run_in(namespace: dict[str, Any], block: Block, pair: Pair) -> None:
    # The empty lines make a traceback name the lines of the document.
    text = "\n" * (block.line - 1) + pair.placed(block.text)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(text, str(block.document), "exec", flags=flags)
    result = eval(code, namespace)  # noqa: S307  # it is our own document
    if inspect.isawaitable(result):
        await result


async def _run_program(block: Block, pair: Pair) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", pair.placed(block.text)),
        cwd=pair.folder,
        env=pair.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, f"{block.place} ended with {process.returncode}:\n{said.decode()}"
