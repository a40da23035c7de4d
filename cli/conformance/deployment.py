"""The services that are examined: channels to one or more replicas of each."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import grpc

from cli.access import Access
from common.address import parse_address
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub

_OPTIONS: tuple[tuple[str, str | int], ...] = (
    # A call that is repeated below a scenario could hide that its first attempt was carried out.
    ("grpc.enable_retries", 0),
    # Two channels to one address stay two connections.
    ("grpc.use_local_subchannel_pool", 1),
)

_NOTHING_TO_SHOW = Access()


@dataclass(frozen=True, slots=True)
class Deployment:
    """Channels to every replica. Scenarios ask for replica 0, 1, 2 …; if there is but one, it is that."""

    run_channels: Sequence[grpc.aio.Channel]
    audit_channels: Sequence[grpc.aio.Channel]

    def run_channel(self, replica: int = 0) -> grpc.aio.Channel:
        return self.run_channels[replica % len(self.run_channels)]

    def audit_channel(self, replica: int = 0) -> grpc.aio.Channel:
        return self.audit_channels[replica % len(self.audit_channels)]

    def runs(self, replica: int = 0) -> RunServiceStub:
        return RunServiceStub(self.run_channel(replica))

    def audits(self, replica: int = 0) -> AuditServiceStub:
        return AuditServiceStub(self.audit_channel(replica))


def split_addresses(text: str) -> list[str]:
    """Read a comma list of host:port; raise ValueError, which does not repeat the text."""
    return [str(parse_address(one.strip())) for one in text.split(",")]


@contextlib.asynccontextmanager
async def open_deployment(
    run_targets: Sequence[str],
    audit_targets: Sequence[str],
    access: Access = _NOTHING_TO_SHOW,
) -> AsyncIterator[Deployment]:
    """Open a channel to each target, and close them at the end. A target is host:port or a gRPC name."""
    async with contextlib.AsyncExitStack() as stack:

        async def opened(target: str) -> grpc.aio.Channel:
            return await stack.enter_async_context(access.open_channel(target, _OPTIONS))

        yield Deployment(
            [await opened(target) for target in run_targets],
            [await opened(target) for target in audit_targets],
        )
