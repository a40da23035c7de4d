"""Addresses that workers share, held by the supervisor.

Each worker listens with SO_REUSEPORT, and the system spreads connections over those who listen. With that
option alone a second start on the same port would succeed and take a share of the calls. So the supervisor
takes the port first as anybody would, which fails if somebody has it, and only then opens it to its workers:
its socket never listens, gets no connection, and keeps the port while workers come and go.
"""

import contextlib
import errno
import socket
from collections.abc import Iterator, Sequence

from common.address import UNBINDABLE_RULE, Address
from common.settings import Settings, SettingsError

_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""A name such as localhost may stand for an IPv6 address on a machine that has none."""


@contextlib.contextmanager
def reserved(settings: Settings, listens: Sequence[str]) -> Iterator[Settings]:
    """The settings with the ports that are really used, held as long as the context lasts.

    `listens` are the settings that name the addresses. Raises SettingsError if one of them is taken.
    """
    with contextlib.ExitStack() as held:
        placed = {name.lower(): _reserve(held, name, getattr(settings, name.lower())) for name in listens}
        yield settings.model_copy(update=placed)


def _reserve(held: contextlib.ExitStack, setting: str, address: Address) -> Address:
    port = 0  # the one that is held; all places of the address have the same
    failed = False
    try:
        places = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, place in places:
            port = _hold(held, family, (place[0], port or address.port)) or port
    except (OSError, UnicodeError):
        failed = True
    if failed or not port:
        raise SettingsError(setting, UNBINDABLE_RULE)
    return address.with_port(port)


def _hold(held: contextlib.ExitStack, family: int, place: tuple[str | int, int]) -> int:
    """Take one place; its port, or 0 if this machine does not have such addresses."""
    try:
        one = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
        # As every server does: connections of the last start that are still closing are in nobody's way.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(place)
    except OSError as error:
        if error.errno in _NOT_HERE:
            return 0
        raise
    # In this order: bound alone, then open to sockets of this user that have the option too. Without the
    # second line, two who bind and do not listen would share the port.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return int(one.getsockname()[1])
