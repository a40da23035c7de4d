"""Options of the gRPC core, each with its reason."""

from typing import Final

MAX_RECEIVE_BYTES: Final = 4 * 1024 * 1024
"""A request. The largest are FinishRun with 1 MiB each of answer and result, and a batch of 1,000 items."""

MAX_SEND_BYTES: Final = 8 * 1024 * 1024
"""A reply. Pages end at 3 MiB; the limit only keeps a mistake from filling memory."""

MAX_PENDING_CALLS: Final = 20_000
"""Calls that the core may hold until the event loop takes them. Beyond this many it cancels them, which tells
a caller nothing, and by default it begins to at 1,000: half a second of calls that are only to be refused.
Each holds some kilobytes."""

KEEPALIVE_SECONDS: Final = 20
"""How long a connection may be silent before the server asks whether its peer is alive, ..."""

KEEPALIVE_TIMEOUT_SECONDS: Final = 10
"""... and how long it waits for the answer: a dead peer is freed after at most the sum of both."""

MIN_CLIENT_PING_SECONDS: Final = 1
"""Clients may ping this often, without calls too. grpc's default is one ping in five minutes, then GOAWAY."""

# Not set, on purpose: grpc.max_concurrent_streams and maximum_concurrent_rpcs (both would let long streams
# starve short calls) and grpc.max_connection_age_ms (it cuts streams; replicas behind a balancer may set it).
SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Two services on one port by mistake must fail at start, not share the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    ("grpc.max_send_message_length", MAX_SEND_BYTES),
    ("grpc.server.max_pending_requests", MAX_PENDING_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_CALLS),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
    # Tried: without this one a dead peer is freed only after the core's ping timeout of a minute.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", MIN_CLIENT_PING_SECONDS * 1000),
)

SHARED_PORT: Final[tuple[tuple[str, int], ...]] = (("grpc.so_reuseport", 1),)
"""In the place of the above for workers: they share a port that their supervisor holds against all others."""
