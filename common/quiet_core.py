"""Keeps the C core of grpc from writing to stderr by itself.

Its lines would stand between the JSON lines of our log and beside the one line of an error. The core reads
the variable when grpc is imported: common.server calls this before that, and so must a command that imports
grpc earlier.
"""

import os


def quiet_grpc_core() -> None:
    """Call it first in a process; a GRPC_VERBOSITY that is set already is left alone."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
