"""The search finds a mark whatever became of the text around it."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.leak.canaries import ADMITTED, BODIES, CREDENTIALS, NUL, canary, new_mark
from tests.leak.search import marks_in, numbers_in

Encode = Callable[[str], bytes]

ENCODINGS: dict[str, Encode] = {
    "as it is": str.encode,
    "in capitals": lambda text: text.upper().encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64, one later": lambda text: base64.b64encode(b"x" + text.encode()),
    "base64, two later": lambda text: base64.b64encode(b"xx" + text.encode()),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode("\u07ff\u07ff".encode() + text.encode()),
    "base64 without its end": lambda text: base64.b64encode(text.encode()).rstrip(b"="),
    "base64 in lines": lambda text: base64.encodebytes(b"x" * 50 + text.encode()),
    "hex": lambda text: text.encode().hex().encode(),
    "HEX": lambda text: text.encode().hex().upper().encode(),
    "UTF-16": lambda text: text.encode("utf-16-le"),
    "UTF-16 BE": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()).encode(),
    "JSON": lambda text: json.dumps(text).encode(),
    "JSON, every letter": lambda text: "".join(f"\\u00{byte:02x}" for byte in text.encode()).encode(),
    "repr, every letter": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()).encode(),
    "base64 in base64": lambda text: base64.b64encode(base64.b64encode(text.encode())),
    "hex in base64": lambda text: base64.b64encode(text.encode().hex().encode()),
    "base64 in an address": lambda text: quote(base64.b64encode(b"???" + text.encode())).encode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("around", [b"", b"key=", b"/path/", b'{"a":"', b"\xff\x00\x80"])
def test_a_mark_is_found_in_every_encoding(encoding: str, around: bytes) -> None:
    mark = new_mark()
    joined = encoding.startswith("base64") and around == b"/path/"
    encoded = ENCODINGS[encoding](mark)
    data = around + (b" " if joined else b"") + encoded + b"\n" + around
    assert mark in marks_in(data)


@pytest.mark.parametrize("shape", [*CREDENTIALS, *BODIES, *NUL, *ADMITTED])
@pytest.mark.parametrize("encoding", ["as it is", "base64", "hex", "UTF-16", "JSON"])
def test_every_shape_is_found_in_every_encoding(shape: str, encoding: str) -> None:
    given = canary(shape)
    assert given.mark in marks_in(ENCODINGS[encoding](given.text))


def test_nothing_is_found_where_nothing_is() -> None:
    assert marks_in(b"a quiet line " * 1000) == set()
    assert numbers_in(b"seq=1 id=1234567890") == {"1234567890"}


def test_a_mark_that_was_cut_is_found_as_far_as_it_goes() -> None:
    mark = new_mark()
    assert mark[:11] in marks_in(f"{mark[:11]}...".encode())
