"""The grammar as pydantic types: each kind of the contract becomes one annotated type.

Errors are raised as PydanticCustomError whose type is the reason (without its prefix) and whose text is the
fixed rule. A model-level rule names its field in the error's context under "field".
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, PlainValidator, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from superbizagent_contract import (
    CREDENTIAL_RULE,
    JsonRuleError,
    Kind,
    PublishedJson,
    has_credential_shape,
    kinds,
    limits,
    parse_published_json,
)


class Input(BaseModel):
    """Base of every checked request: frozen, and a field that is not declared is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def content(self) -> Mapping[str, Any]:
        """All fields by name, for reading: without the copy, and the odd ways, of `dict(self)`."""
        return vars(self)


def broken_rule(rule: str, *, field: str = "", reason: str = "INVALID_FIELD") -> PydanticCustomError:
    """The error to raise from a validator. `field` is needed where the rule spans fields."""
    return PydanticCustomError(reason, rule, {"field": field} if field else None)


def _string(kind: Kind) -> PlainValidator:
    def check(value: str) -> str:
        if kind.admits(value):
            return value
        raise _not_admitted(kind, value)

    return PlainValidator(check)


def _not_admitted(kind: Kind, value: str) -> PydanticCustomError:
    if has_credential_shape(value):
        return broken_rule(CREDENTIAL_RULE, reason="CREDENTIAL_SHAPED")
    return broken_rule(kind.rule)


def _tool_on_the_list(value: str, info: ValidationInfo) -> str:
    if kinds.TOOL_NAME.admits(value):
        if info.context is not None and value in info.context["tools"]:
            return value
        raise broken_rule("must be on the list of allowed tools", reason="TOOL_NOT_ALLOWED")
    raise _not_admitted(kinds.TOOL_NAME, value)


Identifier = Annotated[str, _string(kinds.IDENTIFIER)]
NewRunId = Annotated[str, _string(kinds.RUN_ID)]
ToolName = Annotated[str, _string(kinds.TOOL_NAME)]
AllowedToolName = Annotated[str, PlainValidator(_tool_on_the_list)]
StatusCode = Annotated[str, _string(kinds.STATUS)]
Code = Annotated[str, _string(kinds.CODE)]
EvidenceStatus = Annotated[str, _string(kinds.EVIDENCE_STATUS)]
RetrievalLayer = Annotated[str, _string(kinds.RETRIEVAL_LAYER)]
Feedback = Annotated[str, _string(kinds.FEEDBACK)]
TraceId = Annotated[str, _string(kinds.TRACE_ID)]
PageToken = Annotated[str, _string(kinds.PAGE_TOKEN)]


class _Number:
    """An integer in a range. The core of pydantic checks it: there is one in most fields of most requests."""

    def __init__(self, smallest: int, largest: int, rule: str) -> None:
        self._schema = core_schema.custom_error_schema(
            core_schema.int_schema(ge=smallest, le=largest, strict=True),
            "INVALID_FIELD",
            custom_error_message=rule,
        )

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return self._schema


Count = Annotated[int, _Number(0, limits.MAX_INT32, "must be 0 to 2147483647")]
StepId = Annotated[int, _Number(1, limits.MAX_INT64, "must be 1 to 9223372036854775807")]
AfterSeq = Annotated[int, _Number(0, limits.MAX_INT64, "must be 0 or more")]


def _page_size(value: int) -> int:
    if value < 0:
        raise broken_rule("must be 0 or more")
    return min(value, limits.MAX_PAGE_SIZE) or limits.DEFAULT_PAGE_SIZE


PageSize = Annotated[int, PlainValidator(_page_size)]
"""As the contract reads it: 0 is 100, more than 1000 is 1000."""


class ProtoEnum(Protocol):
    """What a generated enum wrapper offers."""

    def values(self) -> list[Any]: ...


def known_value(enum: ProtoEnum, *, unspecified: bool = False) -> PlainValidator:
    """A value that this version of the contract knows; 0 only where `unspecified` says so."""
    known = frozenset(int(number) for number in enum.values() if unspecified or int(number) != 0)

    def check(value: int) -> int:
        if value in known:
            return value
        raise broken_rule(
            "must be a value of its enum" if unspecified else "must be a value of its enum, not 0"
        )

    return PlainValidator(check)


_FIRST_SECOND = int(dt.datetime(limits.FIRST_YEAR, 1, 1, tzinfo=dt.UTC).timestamp())
_END_SECOND = int(dt.datetime(limits.LAST_YEAR + 1, 1, 1, tzinfo=dt.UTC).timestamp())
_NANOS = 1_000_000_000


def _moment(value: Timestamp) -> dt.datetime:
    if _FIRST_SECOND <= value.seconds < _END_SECOND and 0 <= value.nanos < _NANOS:
        whole = dt.datetime.fromtimestamp(value.seconds, dt.UTC)
        return whole.replace(microsecond=value.nanos // 1000)
    raise broken_rule("must be a time in the years 2000 to 2100")


Moment = Annotated[dt.datetime, PlainValidator(_moment)]
"""A time in UTC, cut to microseconds."""


def _lease(value: Duration) -> dt.timedelta:
    total = value.seconds * _NANOS + value.nanos
    in_range = limits.MIN_LEASE_SECONDS * _NANOS <= total <= limits.MAX_LEASE_SECONDS * _NANOS
    if in_range and 0 <= value.nanos < _NANOS:
        return dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    raise broken_rule("must be 1 s to 24 h")


Lease = Annotated[dt.timedelta, PlainValidator(_lease)]


def _text(too_long: Callable[[str], bool], too_long_rule: str, *, empty: bool) -> PlainValidator:
    def check(value: str) -> str:
        if not value and not empty:
            raise broken_rule("is required")
        if too_long(value):
            raise broken_rule(too_long_rule)
        if "\0" in value:
            raise broken_rule("must not contain U+0000")
        if has_credential_shape(value):
            raise broken_rule(CREDENTIAL_RULE, reason="CREDENTIAL_SHAPED")
        return value

    return PlainValidator(check)


def _query_too_long(value: str) -> bool:
    return len(value) > limits.MAX_QUERY_CHARACTERS or len(value.encode()) > limits.MAX_QUERY_BYTES


Query = Annotated[
    str, _text(_query_too_long, "must be at most 16000 characters and 65535 bytes of UTF-8", empty=False)
]
Answer = Annotated[
    str,
    _text(
        lambda value: len(value.encode()) > limits.MAX_ANSWER_BYTES,
        "must be at most 1 MiB of UTF-8",
        empty=True,
    ),
]


def _published_json(value: str) -> PublishedJson:
    try:
        return parse_published_json(value)
    except JsonRuleError as error:
        rule = error.rule
    raise broken_rule(rule)


PublishedResult = Annotated[PublishedJson, PlainValidator(_published_json)]
