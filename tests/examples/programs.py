"""Examples in other languages, run as their users would run them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 60


@dataclass
class Program:
    """A running program. `lines` is what it printed so far, `errors` what it said on stderr."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def end(self) -> int:
        """Wait for the end; the exit code."""
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()

    @property
    def said(self) -> str:
        """Everything, for the message of a failure."""
        return "\n".join([*self.lines, *self.errors])


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> AsyncIterator[Program]:
    """Start a program; it is killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=_clean(os.environ) | dict(environment or {}),
    )
    program = Program(process)
    async with asyncio.TaskGroup() as readers:
        readers.create_task(_read(process.stdout, program.lines))
        readers.create_task(_read(process.stderr, program.errors))
        try:
            yield program
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run a program to its end; what it printed. Fails if it fails."""
    async with running(command, environment, folder) as program:
        code = await program.end()
    assert code == 0, f"exit code {code}\n{program.said}"
    return "\n".join(program.lines)


async def _read(pipe: asyncio.StreamReader | None, lines: list[str]) -> None:
    assert pipe is not None
    async for raw in pipe:
        lines.append(raw.decode().rstrip("\n"))  # noqa: PERF401  # others look at the list meanwhile


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without settings of whoever runs the tests."""
    return {name: value for name, value in environment.items() if not name.startswith("SUPERBIZ_")}
