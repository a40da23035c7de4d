"""Runs a module as `python -m` would, after saying on both outputs what the test planted there.

So a search of the outputs that finds nothing else is known to have read what the process really printed. With
LEAK_FAULT set, one of the services' parts fails with an exception that holds what it was given.
"""

import os
import resource
import runpy
import sys


def main() -> None:
    """`python -m tests.leak.started MODULE ARGUMENT…`"""
    planted = os.environ.pop("LEAK_PLANTED")
    for stream in (sys.stdout, sys.stderr):
        stream.write(f"planted {planted}\n")
        stream.flush()
    # As some systems are set up: a process that crashes leaves its memory in a file.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    fault = os.environ.pop("LEAK_FAULT", "")
    if fault:
        from tests.leak.injected import inject

        inject(fault)
    module = sys.argv[1]
    sys.argv[:] = [module, *sys.argv[2:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
