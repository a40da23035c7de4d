"""What the commands that serve have in common, whoever calls them: `superbizagent …` or `python -m …`."""

import os
import sys
from collections.abc import Sequence

from common.errors import StartError
from common.server.process import Build, run_process
from common.settings import PREFIX, Settings

_OPTION = "--workers"


def serve(build: Build, listens: Sequence[str], workers: str | None = None) -> int:
    """Serve what `build` makes, by the settings of the environment; return the exit code.

    `listens` names the settings of its addresses; `workers`, if given, counts more than the environment.
    Raises StartError.
    """
    given = dict(os.environ)
    if workers is not None:
        given[f"{PREFIX}WORKERS"] = workers
    return run_process(Settings.from_env(given), build, listens)


def serve_module(name: str, build: Build, *listens: str) -> int:
    """`python -m NAME [--workers N]`; the exit code, 2 if an argument, a setting or the contract is wrong."""
    try:
        return serve(build, listens, _workers(sys.argv[1:]))
    except StartError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2


def _workers(arguments: Sequence[str]) -> str | None:
    """By hand: the parser of the library repeats values that it does not know."""
    words = [part for word in arguments for part in word.split("=", 1)]
    if not words:
        return None
    if len(words) != 2 or words[0] != _OPTION:
        raise StartError(f"takes no arguments but {_OPTION} N")
    # An empty variable would count as not set.
    return words[1] or "0"
