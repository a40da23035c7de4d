"""What a service hands to the server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import grpc

from common.server.access import RoleTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedService:
    """One service, as the server sees it."""

    name: str
    """Full protobuf name, such as superbizagent.run.v1.RunService."""

    add_to_server: Callable[[grpc.aio.Server], None]
    """Registers the servicer."""

    ready: Callable[[], Awaitable[None]]
    """Raises if the service cannot serve now: its store does not answer or is not migrated. Called about once
    a second."""

    drain_streams: Callable[[], Awaitable[None]]
    """Ends the open streams with DRAINING and their position, and refuses those that are just opening."""

    close: Callable[[], Awaitable[None]]
    """Closes the store and all else, after the last call."""

    roles: RoleTable = field(default_factory=dict)
    """What which role may call; without AUTH_FILE it is not asked."""
