"""What a caller may do, when AUTH_FILE is set.

A door asks before anything of a call is read, and a layer where a rule depends on the request.

What a role may do is data: each service names, for each of its methods, the roles and what of the request
they depend on; `operator` may do everything, and what a table does not name only an operator may do.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from common.errors import Refusal
from common.log import get_logger
from common.server.auth import OPERATOR, Metadata, Tokens, current_caller
from common.server.call import Context, Handler, Method
from common.settings import SettingsError
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

Rules: TypeAlias = Mapping[str, Callable[[Any], bool]]
"""Role -> whether it may send this request."""

RoleTable: TypeAlias = Mapping[str, Rules]
"""Method name -> its rules."""

_log = get_logger("server")


def any_request(_: Any) -> bool:
    """For role tables: the role may send whatever request."""
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    """An open stream and what it was let in for."""

    timer: asyncio.Timeout
    digest: bytes
    rules: Rules
    request: Any


class Access:
    """`tables` is by service; `open_services` are for everybody, token or not."""

    def __init__(
        self, tokens: Tokens, tables: Mapping[str, RoleTable], open_services: frozenset[str]
    ) -> None:
        self._tokens = tokens
        self._tables = tables
        self._open_services = open_services
        self._streams: set[_Stream] = set()

    def door(self, method: Method, metadata: Metadata) -> Refusal | None:
        """The refusal of a call without a known token, or with one that no request of this method helps."""
        if method.service in self._open_services:
            return None
        caller = self._tokens.caller(metadata)
        if caller is None:
            return Refusal(ErrorReason.ERROR_REASON_UNAUTHENTICATED)
        current_caller.set(caller)
        if OPERATOR in caller.roles or caller.roles.intersection(self._rules(method)):
            return None
        return Refusal(ErrorReason.ERROR_REASON_ROLE_REQUIRED)

    def layer(self, method: Method, inner: Handler) -> Handler:
        """Layer: the role may send this very request."""
        if method.service in self._open_services:
            return inner
        rules = self._rules(method)
        carry_out = self._revocable(rules, inner) if method.streams else inner

        async def call(request: Any, context: Context) -> Any:
            caller = current_caller.get()
            if caller is None or not _may(caller.roles, rules, request):
                raise Refusal(ErrorReason.ERROR_REASON_ROLE_REQUIRED)
            return await carry_out(request, context)

        return call

    def reload(self) -> None:
        """Read the file again. Streams of tokens that are gone end; a wrong file changes nothing."""
        try:
            self._tokens.reload()
        except SettingsError as error:
            _log.error("tokens not reloaded", setting=error.setting, rule=error.rule)
            return
        revoked = [stream for stream in self._streams if not self._still_may(stream)]
        for stream in revoked:
            stream.timer.reschedule(asyncio.get_running_loop().time())
        _log.info("tokens reloaded", count=len(self._tokens), lost=len(revoked))

    def _still_may(self, stream: _Stream) -> bool:
        holder = self._tokens.holder(stream.digest)
        return holder is not None and _may(holder.roles, stream.rules, stream.request)

    def _rules(self, method: Method) -> Rules:
        return self._tables.get(method.service, {}).get(method.name, {})

    def _revocable(self, rules: Rules, inner: Handler) -> Handler:
        """A stream may outlive its token: it is ended as if it were opened now."""

        async def call(request: Any, context: Context) -> Any:
            caller = current_caller.get()
            timer = asyncio.timeout(None)
            stream = _Stream(timer, b"" if caller is None else caller.digest, rules, request)
            try:
                async with timer:
                    self._streams.add(stream)
                    try:
                        return await inner(request, context)
                    finally:
                        self._streams.discard(stream)
            except TimeoutError:
                if not timer.expired():
                    raise
            raise Refusal(ErrorReason.ERROR_REASON_UNAUTHENTICATED)

        return call


def _may(roles: frozenset[str], rules: Rules, request: Any) -> bool:
    return OPERATOR in roles or any(role in roles and may_send(request) for role, may_send in rules.items())
