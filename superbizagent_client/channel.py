"""Channels to the services with defaults that survive proxies, restarts and quiet hours."""

import ipaddress
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_SERVICES = ("superbizagent.run.v1.RunService", "superbizagent.audit.v1.AuditService")

_SERVICE_CONFIG = json.dumps(
    {
        "methodConfig": [
            {
                # Every call of the contract may be repeated safely. UNAVAILABLE alone is retried down here:
                # it says that the call was not carried out, or that its acknowledgement was lost.
                "name": [{"service": service} for service in _SERVICES],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            },
            # RunEventStream resumes from where it is; a retry below it would only hide the cut.
            {"name": [{"service": _SERVICES[0], "method": "StreamRunEvents"}]},
        ]
    }
)

_OPTIONS: tuple[tuple[str, str | int], ...] = (
    ("grpc.service_config", _SERVICE_CONFIG),
    # The services allow a ping every 10 s, also without calls. 15 s keep a proxy with a 60 s idle limit awake
    # and find a dead peer within 25 s.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # The library's own default waits up to two minutes before it looks for a restarted server again. The
    # longest wait is shorter than the retries above take together, so that a call gets over a quick restart.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 800),
)


def open_channel(
    address: str,
    *,
    token: str | None = None,
    tls_ca: bytes | None = None,
    tls: bool = False,
    allow_insecure_token: bool = False,
    options: tuple[tuple[str, str | int], ...] = (),
) -> grpc.aio.Channel:
    """Open a channel to `host:port`; call it inside the event loop that will use it, and close it there.

    `tls_ca` is a PEM bundle that the server's certificate must lead to; `tls` alone trusts the system's.
    `token` is sent as a bearer token with each call. Without TLS it is sent to a loopback address only,
    unless `allow_insecure_token` says that something else protects the line (a mesh, a private network).
    `options` are gRPC channel arguments that come after ours, so that they win. The largest message that is
    received stays at gRPC's default of 4 MiB: no page and no event is larger.
    """
    arguments = _OPTIONS + options
    if tls or tls_ca is not None:
        credentials = grpc.ssl_channel_credentials(root_certificates=tls_ca)
        if token is not None:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(token)
            )
        return grpc.aio.secure_channel(address, credentials, options=arguments)
    if token is None:
        return grpc.aio.insecure_channel(address, options=arguments)
    if not (allow_insecure_token or is_loopback(address)):
        raise ValueError("token: needs TLS, except to a loopback address")
    bearer = f"Bearer {token}"
    return grpc.aio.insecure_channel(
        address, options=arguments, interceptors=[_UnaryToken(bearer), _StreamToken(bearer)]
    )


def is_loopback(address: str) -> bool:
    """True if `host:port` (or a unix socket) cannot leave this machine."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# gRPC refuses call credentials on a plaintext channel, so there the token travels by interceptors. A class
# may be registered for one kind of call only, hence two.


class _UnaryToken(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, bearer: str) -> None:
        self._bearer = bearer

    async def intercept_unary_unary(
        self,
        continuation: Callable[
            [grpc.aio.ClientCallDetails, RequestT], Awaitable[grpc.aio.UnaryUnaryCall[RequestT, ResponseT]]
        ],
        client_call_details: grpc.aio.ClientCallDetails,
        request: RequestT,
    ) -> grpc.aio.UnaryUnaryCall[RequestT, ResponseT]:
        return await continuation(_with_token(client_call_details, self._bearer), request)


class _StreamToken(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, bearer: str) -> None:
        self._bearer = bearer

    async def intercept_unary_stream(
        self,
        continuation: Callable[
            [grpc.aio.ClientCallDetails, RequestT], Awaitable[grpc.aio.UnaryStreamCall[RequestT, ResponseT]]
        ],
        client_call_details: grpc.aio.ClientCallDetails,
        request: RequestT,
    ) -> grpc.aio.UnaryStreamCall[RequestT, ResponseT]:
        return await continuation(_with_token(client_call_details, self._bearer), request)


def _with_token(details: grpc.aio.ClientCallDetails, bearer: str) -> grpc.aio.ClientCallDetails:
    metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", bearer))
    return grpc.aio.ClientCallDetails(
        details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
    )
