"""Fingerprints: equal for equal content, stored beside idempotency keys.

Hex text and not bytes: one of the drivers in use refuses bytes parameters.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# The canonical form is that of _canonical: JSON, with sorted keys, in ASCII, without spaces. Most contents
# are a few strings and integers; written one by one they cost half of what one encoder for the whole costs.
_quoted = json.encoder.encode_basestring_ascii
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode


def fingerprint(content: Mapping[str, Any]) -> str:
    """SHA-256 over the content in canonical form, as 64 hex digits.

    A key whose value is None is the same as no key: absent. 0, "" and False are present. Values are strings,
    integers, booleans, floats, or lists of them; times and durations are given as integers.
    """
    present = {key: value for key, value in content.items() if value is not None}
    canonical = ",".join([f"{_quoted(key)}:{_value(present[key])}" for key in sorted(present)])
    return hashlib.sha256(f"{{{canonical}}}".encode("ascii")).hexdigest()


def _value(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _quoted(value)
    return str(value) if kind is int else _canonical(value)
