"""What every channel to the services is opened with, whichever face of gRPC opens it."""

import ipaddress
import json
from typing import Final, NamedTuple

import grpc

ChannelOptions = tuple[tuple[str, str | int], ...]

DEADLINE_SECONDS: Final = 10.0
"""Of a short call that was given none: as long as the services work on one by default."""

_SERVICES = ("superbizagent.run.v1.RunService", "superbizagent.audit.v1.AuditService")

_SERVICE_CONFIG = json.dumps(
    {
        # Calls spread over all addresses of the name, and go on with the others when one is gone.
        "loadBalancingConfig": [{"round_robin": {}}],
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
        ],
    }
)

_OPTIONS: ChannelOptions = (
    ("grpc.service_config", _SERVICE_CONFIG),
    # The services allow a ping every 10 s, also without calls. 15 s keep a proxy with a 60 s idle limit awake
    # and find a dead peer within 25 s.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # The core waits this long for the answer to a ping, 60 s by default, whatever the line above says.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # The library's own default waits up to two minutes before it looks for a restarted server again. The
    # longest wait is shorter than the retries above take together, so that a call gets over a quick restart.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 800),
    # A lost connection makes the name be looked up again, by default at most every 30 s: too long where a
    # replica comes back with another address.
    ("grpc.dns_min_time_between_resolutions_ms", 5_000),
)


class ClientCertificate(NamedTuple):
    """What the client shows of itself under TLS, both in PEM: the chain of its certificate, and its key."""

    chain: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(…)"  # the key stays out of logs


def channel_options(address: str, more: ChannelOptions) -> ChannelOptions:
    """All options for an address; `more` wins. Each comes once: of two gRPC takes the first."""
    chosen: dict[str, str | int] = dict(_OPTIONS)
    if is_loopback(address):
        # A proxy of the environment would reach its own loopback, and read the token on the way.
        chosen["grpc.enable_http_proxy"] = 0
    chosen.update(more)
    return tuple(chosen.items())


def tls_credentials(
    *, tls: bool, ca: bytes | None, certificate: ClientCertificate | None, token: str | None
) -> grpc.ChannelCredentials | None:
    """How the line is protected; None if it is not."""
    if not tls and ca is None and certificate is None:
        return None
    chain, key = certificate or (None, None)
    credentials = grpc.ssl_channel_credentials(ca, private_key=key, certificate_chain=chain)
    if token is None:
        return credentials
    return grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))


def check_plaintext_token(address: str, token: str | None, *, allowed: bool) -> None:
    """Without TLS a token stays on this machine, unless the caller says that something else protects it."""
    if token is not None and not (allowed or is_loopback(address)):
        raise ValueError("token: needs TLS, except to a loopback address")


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
