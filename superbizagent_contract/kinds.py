"""The kinds of string that may cross the wire, each with its pattern and the rule told to callers.

A kind is declared here and nowhere else: the gate of the services, the checks of the client and the test
that walks the protobuf descriptors all read this file. Patterns are matched against the whole value, in
ASCII, so a trailing newline or a look-alike digit never passes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from superbizagent_contract.credentials import CREDENTIAL_PATTERN


@dataclass(frozen=True, slots=True)
class Kind:
    """A closed set of strings. `rule` is what a refused caller is told; it never repeats the value."""

    name: str
    pattern: str
    rule: str
    _match: re.Pattern[str] = field(init=False, repr=False, compare=False)
    admits: Callable[[str], re.Match[str] | None] = field(init=False, repr=False, compare=False)
    """Something if the value may be passed on, else None: it fits and does not look like a credential.

    The matcher itself and no method around it: every string of every write is asked.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "_match", re.compile(self.pattern, re.ASCII))
        # Both questions in one.
        admitted = rf"(?!(?:{CREDENTIAL_PATTERN})\Z)(?:{self.pattern})"
        object.__setattr__(self, "admits", re.compile(admitted, re.ASCII).fullmatch)

    def fits(self, value: str) -> bool:
        """True if the whole value has the form of this kind; credentials are judged by `admits`."""
        return self._match.fullmatch(value) is not None


def _code(name: str, longest: int) -> Kind:
    return Kind(
        name,
        rf"[A-Z][A-Z0-9_]{{0,{longest - 1}}}",
        f"must be 1 to {longest} of A-Z, 0-9 and _, and start with a letter",
    )


RUN_ID = Kind(
    "run_id",
    r"run-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "must be run- and a lower-case UUID",
)
IDENTIFIER = Kind(
    "identifier",
    r"[A-Za-z0-9_-][A-Za-z0-9._:-]{0,63}",
    "must be 1 to 64 of A-Z, a-z, 0-9, _ and -, after the first character also . and :",
)
TOOL_NAME = Kind(
    "tool_name",
    r"[A-Za-z][A-Za-z0-9_.-]{0,63}",
    "must be 1 to 64 of A-Z, a-z, 0-9, _, . and -, and start with a letter",
)
STATUS = _code("status", 32)
CODE = _code("code", 64)
EVIDENCE_STATUS = _code("evidence_status", 20)
RETRIEVAL_LAYER = _code("retrieval_layer", 8)
AGENT_FLOW = _code("agent_flow", 32)
FEEDBACK = Kind(
    "feedback",
    r"(?:[A-Za-z0-9+-][A-Za-z0-9_+-]{0,15})?",
    "must be empty, or 1 to 16 of A-Z, a-z, 0-9, +, - and, after the first character, _",
)
TRACE_ID = Kind("trace_id", r"[0-9a-f]{32}", "must be 32 lower-case hex digits")
PAGE_TOKEN = Kind("page_token", r"[A-Za-z0-9_-]{0,256}", "must be a token from the page before")
FIELD_PATH = Kind(
    "field_path",
    r"(?=.{1,128}\Z)[a-z][a-z0-9_]*(\[\d{1,4}\])?(\.[a-z][a-z0-9_]*)*",
    "must be the path of a protobuf field",
)
