"""HTTP/2 by hand: headers and frames that a gRPC client would never send."""

import asyncio
import contextlib
import struct
from collections.abc import Sequence

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _RST_STREAM, _GOAWAY = 0, 1, 4, 6, 3, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
# The server then sends binary metadata as it is, so that it can be searched.
_TRUE_BINARY = struct.pack(">HI", 0xFE03, 1)

SECONDS = 10.0

Headers = Sequence[tuple[bytes, bytes]]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def request_headers(path: bytes, /, *more: tuple[bytes, bytes], **replaced: bytes) -> Headers:
    """The headers of a gRPC call, with others put in the place of some, by name with _ for -."""
    usual = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path,
        b":authority": b"localhost",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }
    usual |= {_header_name(name): value for name, value in replaced.items()}
    return (*usual.items(), *more)


def _header_name(name: str) -> bytes:
    known = name.replace("_", "-")
    return (f":{known}" if known in ("method", "scheme", "path", "authority") else known).encode()


def message(raw: bytes) -> bytes:
    """A message as it stands in DATA."""
    return b"\0" + struct.pack(">I", len(raw)) + raw


def _literal(text: bytes) -> bytes:
    """A string of HPACK, not compressed."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, length = len(text) - 127, bytearray([127])
    while rest >= 128:
        length.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*length, rest)) + text


def packed(headers: Headers) -> bytes:
    """Headers as literals that no table keeps."""
    return b"".join(b"\0" + _literal(name) + _literal(value) for name, value in headers)


def call(headers: Headers, body: bytes, stream: int = 1) -> bytes:
    """The frames of a whole call."""
    head = frame(_HEADERS, _END_HEADERS, stream, packed(headers))
    return head + frame(_DATA, _END_STREAM, stream, body)


def reset(stream: int) -> bytes:
    """The caller does not want the answer any more."""
    return frame(_RST_STREAM, 0, stream, struct.pack(">I", 8))


async def answer(address: str, frames: bytes) -> bytes:
    """Send frames on a connection of their own; all that the server says until it is done with stream 1."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    heard = bytearray()
    try:
        writer.write(_PREFACE + frame(_SETTINGS, 0, 0, _TRUE_BINARY) + frames)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(SECONDS):
                while not await _ends(reader, writer, heard):
                    pass
    finally:
        writer.close()
    return bytes(heard)


async def _ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray) -> bool:
    head = await reader.readexactly(9)
    kind, flags = head[3], head[4]
    stream = struct.unpack(">I", head[5:])[0]
    payload = await reader.readexactly(int.from_bytes(head[:3]))
    heard += payload
    if kind == _SETTINGS and not flags & _ACK:
        writer.write(frame(_SETTINGS, _ACK, 0, b""))
    if kind == _PING and not flags & _ACK:
        writer.write(frame(_PING, _ACK, 0, payload))
    done = kind == _RST_STREAM or (kind in (_HEADERS, _DATA) and bool(flags & _END_STREAM))
    return kind == _GOAWAY or (stream == 1 and done)
