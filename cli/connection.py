"""How the client commands reach the services: addresses, channels, and what their errors say to people."""

import contextlib
import os
from collections.abc import Iterator
from typing import Final, TypeVar

import grpc

from cli.access import Access
from cli.errors import NOT_THERE, USAGE, CommandError
from common.address import Address, parse_address
from common.settings import PREFIX, Settings
from superbizagent_client import (
    AccessDeniedError,
    CallOptions,
    InvalidRequestError,
    RunNotFoundError,
    ServiceError,
    service_error,
)
from superbizagent_contract import kinds

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

CALL_SECONDS: Final = 5.0
"""For a short call. Its retries are inside, so that a server that is just restarting is met."""

ONE_TRY: Final = CallOptions(attempt=CALL_SECONDS, retry=0)
"""For the clients: a person at a terminal repeats a command sooner than they would give up."""

RUN_SERVICE: Final = "RunService"
AUDIT_SERVICE: Final = "AuditService"


class Service:
    """One service at one address, with a channel of its own. Use it as an async context manager."""

    def __init__(self, name: str, address: str, access: Access) -> None:
        self.name = name
        self.address = address
        self._is_tls = access.tls_ca is not None
        try:
            self.channel = access.open_channel(address)
        except ValueError:
            raise CommandError(
                f"{PREFIX}TOKEN is sent to this machine or over TLS only: set {PREFIX}TLS_CA", USAGE
            ) from None

    async def __aenter__(self) -> "Service":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def ask(
        self, method: grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        """Make a short call that no client has (health, say); raise CommandError if it fails."""
        try:
            return await method(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            failed = service_error(error)
        raise self.explain(failed)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """A call of a client that fails in this block raises CommandError."""
        try:
            yield
        except ServiceError as error:
            failed = error
        else:
            return
        raise self.explain(failed)

    def explain(self, error: ServiceError) -> CommandError:
        """What to tell a person about the error."""
        where = f"{self.name} at {self.address}"
        known = " ".join(word for word in (error.code.name, error.reason) if word)
        if isinstance(error, RunNotFoundError):
            return CommandError(f"{where} knows no such run", NOT_THERE)
        if isinstance(error, AccessDeniedError):
            wanted = "a role that may do this" if error.reason == "ROLE_REQUIRED" else "a valid token"
            return CommandError(f"{where} wants {wanted}: see {PREFIX}TOKEN", USAGE)
        if isinstance(error, InvalidRequestError):
            rules = "; ".join(f"{one.field} {one.rule}" for one in error.violations)
            return CommandError(f"{where} refused the request: {rules or known}", USAGE)
        if error.code is grpc.StatusCode.UNIMPLEMENTED:
            return CommandError(f"{where} is another service or an older one ({known})", NOT_THERE)
        if error.transient:
            return CommandError(f"{where} does not answer ({known}){self._guess(error)}", NOT_THERE)
        return CommandError(f"{where} failed ({error})", NOT_THERE)

    def _guess(self, error: ServiceError) -> str:
        """Why no service said anything: gRPC does not tell a closed port from a failed handshake."""
        if error.reason or error.code is not grpc.StatusCode.UNAVAILABLE:
            return ""
        if not self._is_tls:
            return f": nothing listens there, or it wants TLS, see {PREFIX}TLS_CA"
        return (
            f": nothing listens there, or it has no certificate of {PREFIX}TLS_CA, "
            f"or it wants one of the client, see {PREFIX}TLS_CLIENT_CERT"
        )


def service_address(name: str, given: str | None, settings: Settings) -> str:
    """The address of a service: the option, or else where the settings say that it listens."""
    option, listen = (
        ("--run", settings.run_listen) if name == RUN_SERVICE else ("--audit", settings.audit_listen)
    )
    address = listen
    if given is not None:
        try:
            address = parse_address(given)
        except ValueError as error:
            raise CommandError(f"{option} {error}", USAGE) from None
    if address.port == 0:
        raise CommandError(f"{option} must name the port: port 0 is one that the service chose itself", USAGE)
    return str(_reachable(address))


def checked_run_id(run_id: str) -> str:
    """The run id of the command line, if it can be one."""
    if not kinds.IDENTIFIER.admits(run_id):
        raise CommandError(f"RUN_ID {kinds.IDENTIFIER.rule}", USAGE)
    return run_id


def checked_session_id(session_id: str | None) -> str | None:
    """The session id of the command line, if it can be one."""
    if session_id is not None and not kinds.IDENTIFIER.admits(session_id):
        raise CommandError(f"--session {kinds.IDENTIFIER.rule}", USAGE)
    return session_id


def settings_and_access() -> tuple[Settings, Access]:
    """Both, from the environment."""
    return Settings.from_env(os.environ), Access.from_env(os.environ)


def _reachable(address: Address) -> Address:
    """A service that listens everywhere is called on this machine."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared, not bound
    return Address(everywhere.get(address.host, address.host), address.port)
