"""A look at the bytes of a request before they are decoded.

The limit of a message counts bytes, and an empty item takes two of them: four megabytes, or a few thousand
bytes compressed, would decode into millions of objects before anybody could count them.
"""

from collections import Counter

from superbizagent_contract import limits

MOST_FIELDS = limits.MAX_INVOCATIONS_PER_BATCH + 200
"""More top-level fields, each item of a list counted, has no request that any method takes."""

_PAYLOAD = {1: 8, 5: 4}  # bytes of the fixed wire types


def crowded_field(raw: bytes) -> int | None:
    """The field number that fills a message of more than MOST_FIELDS fields; None if it has not so many.

    Only the top level counts: nothing inside a request repeats. What is cut off or malformed is left to the
    parser, which refuses it at once.
    """
    if len(raw) < 2 * MOST_FIELDS:
        return None
    numbers: Counter[int] = Counter()
    at = 0
    for _ in range(MOST_FIELDS + 1):
        tag, at = _varint(raw, at)
        if tag < 0:
            return None
        numbers[tag >> 3] += 1
        kind = tag & 7
        if kind in (0, 2):
            value, at = _varint(raw, at)
            at += value if kind == 2 else 0
        else:
            at += _PAYLOAD.get(kind, 0)  # a group's begin and end count as a field each
        if at >= len(raw):
            return None
    return numbers.most_common(1)[0][0]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends; -1 where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            return -1, at
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return -1, at
