"""Bytes that no client of ours would send, drawn from a seed: messages bent, cut, nested and blown up."""

import random
from collections.abc import Callable

_NESTED = 10_000
_MOST = 4 * 1024 * 1024


def varint(number: int) -> bytes:
    """As protobuf writes it; any size, also beyond 64 bits."""
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def tag(field: int, wire_type: int) -> bytes:
    """The tag of a field."""
    return varint(field << 3 | wire_type)


def _noise(draw: random.Random, valid: bytes) -> bytes:
    return draw.randbytes(draw.randrange(300))


def _flipped(draw: random.Random, valid: bytes) -> bytes:
    bent = bytearray(valid)
    for _ in range(draw.randint(1, 8)):
        if bent:
            bent[draw.randrange(len(bent))] ^= 1 << draw.randrange(8)
    return bytes(bent)


def _cut(draw: random.Random, valid: bytes) -> bytes:
    return valid[: draw.randrange(len(valid) + 1)]


def _spliced(draw: random.Random, valid: bytes) -> bytes:
    place = draw.randrange(len(valid) + 1)
    return valid[:place] + draw.randbytes(draw.randint(1, 20)) + valid[place + draw.randrange(4) :]


def _repeated(draw: random.Random, valid: bytes) -> bytes:
    return valid * draw.randint(2, 40)


def _odd_field(draw: random.Random, valid: bytes) -> bytes:
    """A field of any number and wire type, with what does not belong to it."""
    field = draw.choice((0, 1, 2, 3, 7, 15, 16, 19000, 2**29 - 1, 2**29, 2**40))
    value = draw.choice((varint(2**63), varint(2**64 - 1), varint(2**70), b"\xff" * 12, b"", b"\x05abc"))
    return valid + tag(field, draw.randrange(8)) + value


def _lying_length(draw: random.Random, valid: bytes) -> bytes:
    length = draw.choice((2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(valid) + 1))
    return tag(draw.randint(1, 15), 2) + varint(length) + valid


def _groups(draw: random.Random, valid: bytes) -> bytes:
    """Groups in groups, closed or not."""
    depth = draw.choice((1, 99, 100, 101, _NESTED))
    field = draw.choice((1, 2, 1000))
    closed = draw.random() < 0.5
    return valid + tag(field, 3) * depth + (tag(field, 4) * depth if closed else b"")


def _nested(draw: random.Random, valid: bytes) -> bytes:
    """Messages in messages, of a known field or an unknown one."""
    field = draw.choice((1, 2, 1000))
    inner = valid
    for _ in range(draw.choice((10, 99, 101, 1000))):
        inner = tag(field, 2) + varint(len(inner)) + inner
    return inner


def _no_utf8(draw: random.Random, valid: bytes) -> bytes:
    text = draw.choice((b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\x80"))
    return valid + tag(draw.randint(1, 8), 2) + varint(len(text)) + text


def _many_items(draw: random.Random, valid: bytes) -> bytes:
    """Hundreds of thousands of empty items."""
    return valid + tag(draw.choice((1, 2)), 2) + (b"\0" + tag(draw.choice((1, 2)), 2)) * 300_000 + b"\0"


def _large(draw: random.Random, valid: bytes) -> bytes:
    """About as large as a message may be, and larger."""
    size = draw.choice((_MOST - 100, _MOST - len(valid) - 8, _MOST + 1))
    return valid + tag(draw.choice((1, 2, 4, 1000)), 2) + varint(size) + b"a" * size


_LIGHT: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_noise, _flipped, _flipped, _cut, _spliced, _spliced, _repeated, _odd_field, _lying_length),
    *(_groups, _nested, _no_utf8),
)
_HEAVY = (_many_items, _large)
_HEAVY_SHARE = 0.02


def bent(draw: random.Random, valid: bytes) -> bytes:
    """The bytes of a valid message after one or more accidents."""
    if draw.random() < _HEAVY_SHARE:
        return draw.choice(_HEAVY)(draw, valid)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        valid = draw.choice(_LIGHT)(draw, valid)[:_MOST]
    return valid


def bent_frames(draw: random.Random, whole: bytes) -> bytes:
    """The HTTP/2 frames of a call after an accident."""
    how = draw.choice((_flipped, _cut, _spliced, _noise, _repeated))
    return how(draw, whole)
