"""`python -m cli.probe [host:port …]`: is the service of this container ready? For health checks.

Without arguments it asks the addresses of RUN_LISTEN and AUDIT_LISTEN, those that are set. It imports no
settings, no database and no asyncio stubs: it runs every few seconds, and must be quick.
"""

import os
import sys
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.errors import DONE, NOT_THERE, USAGE
from common.address import ADDRESS_RULE, Address, parse_address

_SETTINGS: Final = ("SUPERBIZ_RUN_LISTEN", "SUPERBIZ_AUDIT_LISTEN")
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared, not bound
_SECONDS: Final = 3.0


def main(arguments: list[str]) -> int:
    """0 if every address serves, 1 if one does not, 2 if there is none or it is none."""
    given = arguments or [os.environ[name] for name in _SETTINGS if os.environ.get(name)]
    try:
        addresses = [parse_address(text) for text in given]
    except ValueError:
        return _say(f"an address {ADDRESS_RULE}", USAGE)
    if not addresses:
        return _say("no address given, and neither RUN_LISTEN nor AUDIT_LISTEN is set", USAGE)
    answers = {str(address): _ask(address) for address in addresses}
    not_serving = [f"{address} {answer}" for address, answer in answers.items() if answer != "SERVING"]
    return _say("; ".join(not_serving), NOT_THERE) if not_serving else DONE


def _ask(address: Address) -> str:
    """The status that health answers for the whole server, or the code of the failed call."""
    target = str(Address(_EVERYWHERE.get(address.host, address.host), address.port))
    # A proxy of the environment is for calls to elsewhere.
    with grpc.insecure_channel(target, options=(("grpc.enable_http_proxy", 0),)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_SECONDS)
        except grpc.RpcError as error:
            failed: Any = error
            return str(failed.code().name)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def _say(line: str, exit_code: int) -> int:
    sys.stderr.write(f"probe: {line}\n")
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
