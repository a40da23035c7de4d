"""gRPC calls over a plain socket: a driver that costs a tenth of what it measures.

A client of grpc.aio spends as much time on a call as the server does, so on one core it would measure itself.
This one sends frames that were made beforehand and looks in each answer for one thing: `grpc-status: 0`.
"""

import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_OK = b"grpc-status\x010"
"""The trailer as it stands there: this client keeps no table of headers, so the server sends it in full."""

_LARGEST_FRAME = 16384
_FIRST_WINDOW = 65535
_OUR_WINDOW = 1 << 30
_SECONDS = 30.0
_head = struct.Struct(">I").pack


class BrokenConnectionError(Exception):
    """The server ended the connection, or did not answer for half a minute."""


@dataclass
class Reply:
    """What came back on one stream so far; `body` has every message with its prefix of five bytes."""

    sent: float
    body: bytearray = field(default_factory=bytearray)
    rest: memoryview = field(default_factory=lambda: memoryview(b""))
    window: int = _FIRST_WINDOW
    status: bytes = b""

    @property
    def ok(self) -> bool:
        """True if the call ended with OK."""
        return _OK in self.status


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview) -> bytes:
    """One frame."""
    return b"".join((_head(len(payload))[1:], bytes((kind, flags)), _head(stream), payload))


def message(raw: bytes) -> bytes:
    """A message as it stands in DATA."""
    return b"\0" + _head(len(raw)) + raw


def messages(body: bytearray) -> Iterator[bytes]:
    """Take every whole message out of `body`."""
    begin = 0
    while len(body) - begin >= 5:
        end = begin + 5 + int.from_bytes(body[begin + 1 : begin + 5])
        if end > len(body):
            break
        yield bytes(body[begin + 5 : end])
        begin = end
    del body[:begin]


class Connection:
    """One connection that calls one method, many calls at once."""

    def __init__(self, address: str, path: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._heard = bytearray()
        self._stream = 1
        self._window = self._initial_window = _FIRST_WINDOW
        self._taken = 0
        self.open: dict[int, Reply] = {}
        self._unsent: list[int] = []
        # No table of headers, no pushes, and windows that are never in the way.
        settings = b"".join(struct.pack(">HI", *one) for one in ((1, 0), (2, 0), (4, _OUR_WINDOW)))
        wide = frame(_WINDOW, 0, 0, _head(_OUR_WINDOW))
        self._out: list[bytes] = [_PREFACE, frame(_SETTINGS, 0, 0, settings), wide]
        self._headers = _first_headers(path.encode(), address.encode())

    def send(self, body: bytes) -> int:
        """Queue a call with an encoded `message`; the number of its stream. `flush` sends it."""
        stream = self._stream
        self._stream += 2
        reply = self.open[stream] = Reply(time.monotonic(), window=self._initial_window)
        self._out.append(frame(_HEADERS, _END_HEADERS, stream, self._headers))
        self._headers = _LATER_HEADERS
        size = len(body)
        if size <= _LARGEST_FRAME and size <= self._window and size <= reply.window:
            self._window -= size
            self._out.append(frame(_DATA, _END_STREAM, stream, body))
        else:
            reply.rest = memoryview(body)
            self._unsent.append(stream)
            self._send_rest()
        return stream

    def flush(self) -> None:
        """Send what is queued."""
        if self._out:
            self._socket.sendall(b"".join(self._out))
            self._out.clear()

    def has_news(self, seconds: float) -> bool:
        """True if something has come; waits for it so long."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def receive(self) -> list[tuple[int, Reply, bool]]:
        """Wait for something to come; the streams that got something, and whether they ended."""
        self.flush()
        try:
            got = self._socket.recv(1 << 18)
        except OSError as error:
            raise BrokenConnectionError(type(error).__name__) from None
        if not got:
            raise BrokenConnectionError("the server closed it")
        heard = self._heard
        heard += got
        begin, size, changed = 0, len(heard), []
        while size - begin >= 9:
            length = heard[begin] << 16 | heard[begin + 1] << 8 | heard[begin + 2]
            end = begin + 9 + length
            if end > size:
                break
            stream = int.from_bytes(heard[begin + 5 : begin + 9])
            news = self._hear(heard[begin + 3], heard[begin + 4], stream, heard[begin + 9 : end])
            if news is not None:
                changed.append(news)
            begin = end
        del heard[:begin]
        self._send_rest()
        self.flush()
        return changed

    def close(self) -> None:
        """Close the socket; the server sees its streams cancelled."""
        self._socket.close()

    def _hear(self, kind: int, flags: int, stream: int, payload: bytearray) -> tuple[int, Reply, bool] | None:
        if kind in (_DATA, _HEADERS, _RST):
            return self._hear_stream(kind, flags, stream, payload)
        if kind == _SETTINGS and not flags & _ACK:
            self._take_settings(payload)
            self._out.append(frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._out.append(frame(_PING, _ACK, 0, bytes(payload)))
        elif kind == _WINDOW:
            more = int.from_bytes(payload)
            if stream == 0:
                self._window += more
            elif stream in self.open:
                self.open[stream].window += more
        elif kind == _GOAWAY:
            raise BrokenConnectionError("GOAWAY")
        return None

    def _hear_stream(
        self, kind: int, flags: int, stream: int, payload: bytearray
    ) -> tuple[int, Reply, bool] | None:
        reply = self.open.get(stream)
        if kind == _DATA:
            self._taken += len(payload)
            if self._taken > _OUR_WINDOW // 4:
                self._out.append(frame(_WINDOW, 0, 0, _head(self._taken)))
                self._taken = 0
        if reply is None:
            return None
        if kind == _DATA:
            reply.body += payload
        elif flags & _END_STREAM or kind == _RST:
            reply.status = bytes(payload)
        ended = bool(flags & _END_STREAM) or kind == _RST
        if ended:
            del self.open[stream]
        return stream, reply, ended

    def _take_settings(self, payload: bytearray) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == 4:
                for reply in self.open.values():
                    reply.window += value - self._initial_window
                self._initial_window = value

    def _send_rest(self) -> None:
        """Send of large requests what the windows let through."""
        while self._unsent and self._window > 0:
            stream = self._unsent[0]
            reply = self.open.get(stream)
            if reply is None:
                self._unsent.pop(0)
                continue
            size = min(_LARGEST_FRAME, len(reply.rest), self._window, reply.window)
            if size <= 0:
                return
            self._window -= size
            reply.window -= size
            part, reply.rest = reply.rest[:size], reply.rest[size:]
            self._out.append(frame(_DATA, 0 if reply.rest else _END_STREAM, stream, part))
            if not reply.rest:
                self._unsent.pop(0)


def call(address: str, path: str, request: bytes = b"") -> bytes:
    """One call; the reply's bytes. Raises BrokenConnectionError if it does not end OK."""
    (reply,) = call_all(address, path, [request])
    return reply


def call_all(address: str, path: str, requests: Sequence[bytes]) -> list[bytes]:
    """Many calls at once; their replies in the order of the requests."""
    connection = Connection(address, path)
    try:
        streams = [connection.send(message(request)) for request in requests]
        replies: dict[int, bytes] = {}
        while len(replies) < len(streams):
            for stream, reply, ended in connection.receive():
                if ended and not reply.ok:
                    raise BrokenConnectionError(status_text(reply))
                if ended:
                    replies[stream] = bytes(reply.body[5:])
        return [replies[stream] for stream in streams]
    finally:
        connection.close()


def status_text(reply: Reply) -> str:
    """The status of a call that did not end OK, for people."""
    _, found, rest = reply.status.partition(b"grpc-status")
    return (
        f"grpc-status {rest[1 : 1 + rest[0]].decode('ascii', 'replace')}"
        if found and rest
        else "no grpc-status"
    )


def _first_headers(path: bytes, authority: bytes) -> bytes:
    """The headers of the first call, each put into the server's table, as every client does."""
    return b"\x83\x86" + b"".join(
        (
            b"\x44" + _string(path),
            b"\x41" + _string(authority),
            b"\x5f" + _string(b"application/grpc"),
            b"\x40" + _string(b"te") + _string(b"trailers"),
        )
    )


_LATER_HEADERS = b"\x83\x86\xc1\xc0\xbf\xbe"
"""The same by their places in the table."""


def _string(text: bytes) -> bytes:
    assert len(text) < 127
    return bytes((len(text),)) + text
