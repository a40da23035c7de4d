"""A process whose composition root fails, with a value in the error."""

import os
import sys
from collections.abc import Sequence

from common.server import GrpcServer, run_process
from common.settings import Settings


async def build(settings: Settings) -> Sequence[GrpcServer]:
    """The composition root."""
    raise RuntimeError(settings.auth_file)


if __name__ == "__main__":
    sys.exit(run_process(Settings.from_env(os.environ), build, ("RUN_LISTEN",)))
