"""`python -m audit_service`: serve AuditService until SIGTERM."""

import os
import sys

from audit_service.app import audit_server
from common.errors import StartError
from common.server import run_process
from common.settings import Settings


def main() -> int:
    """Serve; 0 after a drain, 2 if a setting or the contract is wrong."""
    try:
        return run_process(Settings.from_env(os.environ), audit_server)
    except StartError as error:
        sys.stderr.write(f"audit_service: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
