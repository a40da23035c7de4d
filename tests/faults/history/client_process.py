"""A program with gateways and subscribers that is there to be killed:
`python -m tests.faults.history.client_process RUN_TARGET AUDIT_TARGET SEED JOURNAL`."""

import asyncio
import random
import sys
from pathlib import Path

from superbizagent_client import AuditClient, RunClient, open_channel
from tests.faults.history.caller import CALL_OPTIONS, Caller
from tests.faults.history.gateway import Gateway
from tests.faults.history.history import History
from tests.faults.history.subscriber import Audience

_GATEWAYS = 3


async def main(run_target: str, audit_target: str, seed: str, path: str) -> None:
    """Work until killed."""
    with Path(path).open("w", encoding="utf-8") as journal:  # noqa: ASYNC230 - it returns at once
        async with open_channel(run_target) as runs, open_channel(audit_target) as audits:
            history = History(journal=journal)
            clients = RunClient(runs, options=CALL_OPTIONS), AuditClient(audits, options=CALL_OPTIONS)
            gateways = [
                Gateway(
                    Caller(history, *clients, random.Random(f"{seed}-{number}")),  # noqa: S311
                    Audience(history, [runs]),
                )
                for number in range(_GATEWAYS)
            ]
            await asyncio.gather(*(gateway.work(asyncio.Event()) for gateway in gateways))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
