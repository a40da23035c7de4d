"""A host and port to listen on or to call, as the settings write them."""

import ipaddress
import re
from dataclasses import dataclass

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)

UNBINDABLE_RULE = "must be a free address of this machine: it cannot be bound"

ADDRESS_RULE = "must be host:port, with IPv6 addresses in [brackets] and a port of 0 to 65535"


@dataclass(frozen=True, slots=True)
class Address:
    """`host` is a name or an IP address without brackets; port 0 lets the system choose a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def with_port(self, port: int) -> "Address":
        """The same host with the port that the system chose."""
        return Address(self.host, port)

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it: localhost, 127.0.0.0/8 or ::1.

        Any other name counts as reachable from outside, whatever it resolves to now.
        """
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """Read `host:port`; raise ValueError with ADDRESS_RULE, which never repeats the text."""
    host, _, port = text.rpartition(":")
    if _PORT.fullmatch(port) is None or int(port) > 65535:
        raise ValueError(ADDRESS_RULE)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        good = _is_ipv6(host)
    else:
        good = _HOST.fullmatch(host) is not None
    if not good:
        raise ValueError(ADDRESS_RULE)
    return Address(host, int(port))


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    # A zone such as %eth0 is of one machine only, and grpc wants it escaped: not supported.
    return "%" not in host
