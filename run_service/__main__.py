"""`python -m run_service`: serve RunService until SIGTERM."""

import os
import sys

from common.errors import StartError
from common.server import run_process
from common.settings import Settings
from run_service.app import run_server


def main() -> int:
    """Serve; 0 after a drain, 2 if a setting or the contract is wrong."""
    try:
        return run_process(Settings.from_env(os.environ), run_server)
    except StartError as error:
        sys.stderr.write(f"run_service: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
