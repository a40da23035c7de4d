"""`python -m run_service`: serve RunService until SIGTERM."""

import sys

from common.server import serve_module
from run_service.app import run_server

if __name__ == "__main__":
    sys.exit(serve_module("run_service", run_server, "RUN_LISTEN"))
