"""A single value as JSON, in the form that `json.dumps` gives it.

Most values are short texts and integers, and the encoder of the library is made anew for each of them, which
costs several times the work.
"""

import json
from typing import Any

quoted = json.encoder.encode_basestring_ascii
"""Text as JSON, in ASCII."""

_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode


def json_value(value: Any) -> str:
    """The value as JSON in ASCII; what has items without spaces."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    return _canonical(value)
