"""Channels to the services with defaults that survive proxies, restarts and quiet hours."""

import grpc

from superbizagent_client._channel_options import (
    DEADLINE_SECONDS,
    ChannelOptions,
    ClientCertificate,
    channel_options,
    check_plaintext_token,
    tls_credentials,
)
from superbizagent_client._defaults import Additions, AioChannel, SyncChannel


def open_channel(
    address: str,
    *,
    token: str | None = None,
    tls_ca: bytes | None = None,
    tls: bool = False,
    client_certificate: ClientCertificate | None = None,
    allow_insecure_token: bool = False,
    deadline: float | None = DEADLINE_SECONDS,
    options: ChannelOptions = (),
) -> grpc.aio.Channel:
    """Open a channel to `host:port`; call it inside the event loop that will use it, and close it there.

    Calls go in turn to every address that the host's name has; it is looked up again when a connection is
    lost. `tls_ca` is a PEM bundle that the server's certificate must lead to; `tls` alone trusts the
    system's. `client_certificate` is shown to a server that asks for one. `token` is sent as a bearer token
    with each call. Without TLS it is sent to a loopback address only, unless `allow_insecure_token` says that
    something else protects the line (a mesh, a private network). `deadline` seconds are given to each short
    call that comes without a timeout of its own; streams have none. `options` are gRPC channel arguments that
    win over ours. The largest message that is received stays at gRPC's default of 4 MiB: no page and no event
    is larger.
    """
    credentials = tls_credentials(tls=tls, ca=tls_ca, certificate=client_certificate, token=token)
    arguments = channel_options(address, options)
    if credentials is not None:
        channel = grpc.aio.secure_channel(address, credentials, options=arguments)
        return AioChannel(channel, Additions(deadline, None))
    check_plaintext_token(address, token, allowed=allow_insecure_token)
    return AioChannel(grpc.aio.insecure_channel(address, options=arguments), Additions(deadline, token))


def open_sync_channel(
    address: str,
    *,
    token: str | None = None,
    tls_ca: bytes | None = None,
    tls: bool = False,
    client_certificate: ClientCertificate | None = None,
    allow_insecure_token: bool = False,
    deadline: float | None = DEADLINE_SECONDS,
    options: ChannelOptions = (),
) -> grpc.Channel:
    """The same for programs without an event loop. The channel may be used from any thread."""
    credentials = tls_credentials(tls=tls, ca=tls_ca, certificate=client_certificate, token=token)
    arguments = channel_options(address, options)
    if credentials is not None:
        channel = grpc.secure_channel(address, credentials, options=arguments)
        return SyncChannel(channel, Additions(deadline, None))
    check_plaintext_token(address, token, allowed=allow_insecure_token)
    return SyncChannel(grpc.insecure_channel(address, options=arguments), Additions(deadline, token))
