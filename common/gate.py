"""The gate: every write, and every id of a read, passes here before a use-case sees it.

protobuf message → only the fields that are present → pydantic model. What does not pass becomes a Refusal
that names fields and rules and never a value.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from common.errors import Refusal, Violation
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_contract import limits

M = TypeVar("M", bound=BaseModel)

_MOST_VIOLATIONS = 20  # an error must fit into the trailers of a reply, 8 KiB by default
_OUR_PACKAGES = "superbizagent."
# One more than the longest list of the contract. Whatever lies behind, the model refuses the list by its
# length; opening millions of empty items, which fit into one message, would hold the event loop for seconds.
_MOST_ITEMS = limits.MAX_INVOCATIONS_PER_BATCH + 1


class Gate:
    """Turns protobuf messages into checked models. `allowed_tools` are the tools that may be recorded."""

    def __init__(self, allowed_tools: Collection[str]) -> None:
        self._context = {"tools": frozenset(allowed_tools)}

    def read(self, model: type[M], message: Message) -> M:
        """Check the request of a read. Unknown fields are left alone: nothing of them is kept."""
        return self._check(model, message)

    def write(self, model: type[M], message: Message) -> M:
        """Check the request of a write. A field that this version does not know could carry a body."""
        if carries_unknown_fields(message):
            raise unknown_field("request")
        return self._check(model, message)

    def _check(self, model: type[M], message: Message) -> M:
        try:
            return model.model_validate(_present_fields(message), context=self._context)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        # Raised out here: the validation error holds the refused values and must not come along as context.
        raise _refusal(details)


def carries_unknown_fields(message: Message) -> bool:
    """True if the message, or one inside it, has unknown fields; they are dropped from it."""
    before = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != before


def unknown_field(field: str) -> Refusal:
    """UNKNOWN_FIELD somewhere inside `field`."""
    return Refusal(
        ErrorReason.ERROR_REASON_UNKNOWN_FIELD,
        violations=[Violation(field, "must not carry protobuf fields that this version does not know")],
    )


class _Opening(dict[FieldDescriptor, tuple[str, Callable[[Any], Any] | None]]):
    """The name of each field that was met, and what opens its value: asking a descriptor costs more."""

    def __missing__(self, field: FieldDescriptor) -> tuple[str, Callable[[Any], Any] | None]:
        # Timestamp and Duration have grammar types of their own; only our own messages are opened.
        ours = field.message_type is not None and field.message_type.full_name.startswith(_OUR_PACKAGES)
        opened = (_present_items if field.is_repeated else _present_fields) if ours else None
        found = self[field] = (field.name, opened)
        return found


_opening = _Opening()


def _present_fields(message: Message) -> dict[str, Any]:
    present = {}
    for field, value in message.ListFields():
        name, opened = _opening[field]
        present[name] = value if opened is None else opened(value)
    return present


def _present_items(items: Sequence[Message]) -> list[dict[str, Any]]:
    return [_present_fields(item) for item in items[:_MOST_ITEMS]]


def _refusal(details: list[ErrorDetails]) -> Refusal:
    reason = details[0]["type"] if details[0]["type"] in _GATE_REASONS else "INVALID_FIELD"
    violations = [Violation(_path(error), _rule(error)) for error in details[:_MOST_VIOLATIONS]]
    return Refusal(_GATE_REASONS[reason], violations=violations)


_GATE_REASONS = {
    name: ErrorReason.Value(f"ERROR_REASON_{name}")
    for name in ("INVALID_FIELD", "CREDENTIAL_SHAPED", "TOOL_NOT_ALLOWED")
}


def _path(error: ErrorDetails) -> str:
    steps = [*error["loc"], *([error["ctx"]["field"]] if "field" in error.get("ctx", {}) else [])]
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path or "request"


def _rule(error: ErrorDetails) -> str:
    if error["type"] in _GATE_REASONS:
        return error["msg"]
    return "is required" if error["type"] == "missing" else "has a wrong form"
