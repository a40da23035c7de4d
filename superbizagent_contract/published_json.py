"""The rules of `published_result_json`: what is accepted comes back equal in value from every engine.

The standard parser accepts more than the engines keep (NaN, 1E400, unpaired surrogates, duplicate keys,
integers that become doubles), so each of these is refused here, before anything is stored.
"""

import contextlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from superbizagent_contract import limits

_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class JsonRuleError(ValueError):
    """The text breaks a rule. `rule` is a fixed sentence and never repeats the text."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class PublishedJson:
    """An accepted document: `text` is what is stored, `canonical` is equal for documents of equal value."""

    text: str
    canonical: str


def parse_published_json(text: str) -> PublishedJson:
    """Check a document against every rule of the contract and return it rewritten; raise JsonRuleError."""
    # surrogatepass: a lone surrogate must reach its own rule below, not end as an encoding error here.
    if len(text.encode("utf-8", "surrogatepass")) > limits.MAX_PUBLISHED_RESULT_BYTES:
        raise JsonRuleError("must be at most 1 MiB of UTF-8")
    whole_floats: list[str] = []

    def exact_float(literal: str) -> float:
        value = _exact_float(literal)
        if value.is_integer():
            whole_floats.append(literal)
        return value

    document = _parse(text, exact_float)
    if not isinstance(document, dict):
        raise JsonRuleError("must be a JSON object")
    _check_levels(document)
    rewritten = _rewrite(document)
    # 1 and 1.0 are one value: the canonical form writes both as 1.
    by_value = _parse(text, _integer_if_whole) if whole_floats else document
    canonical = json.dumps(by_value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return PublishedJson(rewritten, canonical)


def _rewrite(document: dict[str, Any]) -> str:
    """The text that is stored. Not in ASCII: the limit means the same in every language."""
    rewritten = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        size = len(rewritten.encode("utf-8"))
    except UnicodeEncodeError:
        size = -1
    if size < 0:
        raise JsonRuleError("must not contain an unpaired surrogate")
    if size > limits.MAX_PUBLISHED_RESULT_BYTES:
        raise JsonRuleError("must be at most 1 MiB of UTF-8, also when it is rewritten with spaces")
    if _NUL_ESCAPE.search(rewritten):
        raise JsonRuleError("must not contain U+0000")
    return rewritten


def _parse(text: str, parse_float: Any) -> Any:
    try:
        return json.loads(
            text,
            parse_float=parse_float,
            parse_int=_bounded_int,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except RecursionError:
        rule = _LEVELS_RULE
    except json.JSONDecodeError:
        rule = "must be well-formed JSON"
    # Raised out here so that the parser's error, which holds the text, is not carried along as context.
    raise JsonRuleError(rule)


_LEVELS_RULE = f"must have at most {limits.MAX_PUBLISHED_RESULT_LEVELS} levels"


def _check_levels(document: dict[str, Any]) -> None:
    level: list[Any] = [document]
    for _ in range(limits.MAX_PUBLISHED_RESULT_LEVELS):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise JsonRuleError(_LEVELS_RULE)


def _refuse_constant(_: str) -> NoReturn:
    raise JsonRuleError("must not contain NaN or Infinity")


def _bounded_int(literal: str) -> int:
    # 20 characters hold every allowed value; longer ones are not converted at all.
    digits = literal.lstrip("-")
    if len(digits) <= 20:
        value = int(literal)
        if limits.MIN_JSON_INTEGER <= value <= limits.MAX_JSON_INTEGER:
            return value
    raise JsonRuleError("must not contain an integer outside of -2^63 to 2^64-1")


def _exact_float(literal: str) -> float:
    value = float(literal)
    exact = repr(value) == literal  # the usual case, at a fraction of the cost
    with contextlib.suppress(InvalidOperation):  # an exponent beyond what Decimal takes
        exact = exact or Decimal(literal) == Decimal(repr(value))
    if not exact or value in (float("inf"), float("-inf")):
        raise JsonRuleError("must not contain a number that a double cannot show as it is written")
    return value


def _integer_if_whole(literal: str) -> float | int:
    value = float(literal)
    # From the literal: above 2^53 a double stands for other integers than the one that is written.
    return int(Decimal(literal)) if value.is_integer() and abs(value) < 2**64 else value


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonRuleError("must not contain a duplicate key")
    for key in found:
        if len(key) * 4 > limits.MAX_JSON_KEY_BYTES and _utf8_size(key) > limits.MAX_JSON_KEY_BYTES:
            raise JsonRuleError("must not contain a key of more than 65,535 bytes")
    return found


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
