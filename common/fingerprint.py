"""Fingerprints: equal for equal content, stored beside idempotency keys.

Hex text and not bytes: one of the drivers in use refuses bytes parameters.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from common.json_value import json_value, quoted


def fingerprint(content: Mapping[str, Any]) -> str:
    """SHA-256 over the content as JSON, as 64 hex digits: with sorted keys, in ASCII, without spaces.

    A key whose value is None is the same as no key: absent. 0, "" and False are present. Values are strings,
    integers, booleans, floats, or lists of them; times and durations are given as integers.
    """
    canonical = ",".join(
        [f"{quoted(key)}:{json_value(content[key])}" for key in sorted(content) if content[key] is not None]
    )
    return hashlib.sha256(f"{{{canonical}}}".encode("ascii")).hexdigest()
