"""Runs the black-box scenarios of tests/compose against the running compose stack.

SUPERBIZ_TEST_RUN and SUPERBIZ_TEST_AUDIT name other addresses. Arguments go to pytest.
"""

import os
import subprocess
import sys

from tools.compose_stack import ROOT, published

RUN, AUDIT = "SUPERBIZ_TEST_RUN", "SUPERBIZ_TEST_AUDIT"


def main() -> int:
    environment = dict(os.environ)
    for name, service in ((RUN, "run-service"), (AUDIT, "audit-service")):
        addresses = environment.get(name) or ",".join(published(service))
        if not addresses:
            sys.exit(f"error: no {service} is running; start the stack with: make compose-up")
        environment[name] = addresses
        print(f"compose-test: {service} at {addresses}", flush=True)
    tests = ["tests/compose/test_scenarios.py", "-k", "given", *sys.argv[1:]]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *tests], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
