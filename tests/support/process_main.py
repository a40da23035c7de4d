"""A process with one fake service: `python -m tests.support.process_main`."""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from common.quiet_core import quiet_grpc_core

quiet_grpc_core()

from common.errors import StartError  # noqa: E402
from common.server import Context, GrpcServer, run_process  # noqa: E402
from common.settings import Settings  # noqa: E402
from superbizagent.run.v1 import run_service_pb2  # noqa: E402
from tests.support.fake_service import run_service  # noqa: E402


async def get(request: Any, context: Context) -> Any:
    """Says so on stdout, then takes as many seconds as the run_id says."""
    print("called", flush=True)  # noqa: T201
    await asyncio.sleep(float(request.run_id or "0"))
    return run_service_pb2.GetRunResponse()


async def close() -> None:
    """Told on stdout, so that the test sees it."""
    print("closed", flush=True)  # noqa: T201


async def build(settings: Settings) -> Sequence[GrpcServer]:
    """The composition root."""
    return [GrpcServer(settings, [run_service(GetRun=get, close=close)], settings.run_listen, "RUN_LISTEN")]


def main() -> int:
    """What a command does."""
    try:
        return run_process(Settings.from_env(os.environ), build, ("RUN_LISTEN",))
    except StartError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


if __name__ == "__main__":
    sys.exit(main())
