"""Finds marks in whatever a sink holds: raw, and in every encoding in which a text may have got there.

The sink is decoded in each of these ways, and each result once more, so that base64 in JSON in hex is found.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote_to_bytes

from tests.leak.canaries import MARK_LENGTH, PREFIX

_MARK = re.compile(PREFIX.encode() + b"[a-z0-9]{0,%d}" % (MARK_LENGTH - len(PREFIX)), re.IGNORECASE)
_NUMBER = re.compile(rb"\d{10,19}")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){8,}")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}")
_BREAKS = re.compile(rb"(?:[\r\n]|\\[rn])+\s*")
_ESCAPES = re.compile(rb"\\+(?:u00|x)([0-9a-fA-F]{2})|&#x([0-9a-fA-F]{2});")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")

_DEPTH = 2


def marks_in(data: bytes) -> set[str]:
    """Every mark in the data, in lower case; one that was cut is as long as what is left of it."""
    return {found.decode().lower() for view in _views(data, _DEPTH) for found in _MARK.findall(view)}


def numbers_in(data: bytes) -> set[str]:
    """Every long number that is written out in the data."""
    return {found.decode() for found in _NUMBER.findall(data)}


def _views(data: bytes, depth: int) -> Iterator[bytes]:
    yield data
    if depth:
        for decode in _DECODERS:
            for decoded in decode(data):
                if decoded:
                    yield from _views(decoded, depth - 1)


def _wide(data: bytes) -> Iterator[bytes]:
    """UTF-16 and UTF-32."""
    if b"\0" in data:
        yield data.replace(b"\0", b"")


def _percent(data: bytes) -> Iterator[bytes]:
    if b"%" in data:
        yield unquote_to_bytes(data)


def _escaped(data: bytes) -> Iterator[bytes]:
    """JSON, repr and HTML."""
    if _ESCAPES.search(data):
        yield _ESCAPES.sub(lambda found: bytes.fromhex((found[1] or found[2]).decode()), data)


def _hex(data: bytes) -> Iterator[bytes]:
    yield b"\n".join(bytes.fromhex(run[: len(run) // 2 * 2].decode()) for run in _HEX.findall(data))


def _base64(data: bytes) -> Iterator[bytes]:
    """At each of the four places at which a group may begin; line breaks of PEM are no breaks."""
    runs = _BASE64.findall(data)
    joined = _BREAKS.sub(b"", data)
    if joined != data:
        runs += _BASE64.findall(joined)
    yield b"\n".join(_decoded(run[start:]) for run in set(runs) for start in range(4))


def _decoded(run: bytes) -> bytes:
    whole = run[: len(run) // 4 * 4].translate(_TO_STANDARD)
    try:
        rest = run[len(whole) :].translate(_TO_STANDARD)
        padded = rest + b"=" * (-len(rest) % 4) if len(rest) > 1 else b""
        return base64.b64decode(whole + padded)
    except binascii.Error:
        return b""


_DECODERS: tuple[Callable[[bytes], Iterator[bytes]], ...] = (_wide, _percent, _escaped, _hex, _base64)
