"""Fingerprints: equal for equal content, stored beside idempotency keys.

Hex text and not bytes: one of the drivers in use refuses bytes parameters.
"""

import hashlib
import json
from typing import Any

_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode


def fingerprint(content: dict[str, Any]) -> str:
    """SHA-256 over the content in canonical form, as 64 hex digits.

    A key whose value is None is the same as no key: absent. 0, "" and False are present. Values are strings,
    integers, booleans, floats, or lists of them; times and durations are given as integers.
    """
    present = {key: value for key, value in content.items() if value is not None}
    return hashlib.sha256(_canonical(present).encode("ascii")).hexdigest()
