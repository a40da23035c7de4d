"""Hears everything that a Redis is told, by MONITOR, and reads all that it keeps."""

import contextlib
import socket
import threading
import time

from redis import Redis

from tests.leak.canaries import Canary
from tests.support.redis_server import RedisServer


class RedisEar:
    """Listens from now on. `secret` becomes the password that the services need."""

    def __init__(self, server: RedisServer, secret: str) -> None:
        self._heard = bytearray()
        self._secret = secret
        self._port = server.port
        # Connected before there is a password: MONITOR does not show the one that is set.
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.sendall(b"MONITOR\r\n")
        assert self._socket.recv(5) == b"+OK\r\n"
        self._listener = threading.Thread(target=self._listen, daemon=True)
        with Redis(port=server.port) as admin:
            admin.config_set("requirepass", secret)
        self._listener.start()
        self.url = f"redis://:{secret}@127.0.0.1:{server.port}/0"

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := self._socket.recv(65536):
                self._heard += chunk

    def everything(self, planted: Canary) -> bytes:
        """All commands so far, and all keys with what they hold; after `planted` was published and set."""
        with Redis(port=self._port, password=self._secret) as asking:
            asking.publish(f"planted:{planted.mark}", "1")
            asking.set("planted", planted.mark)
            kept = b"\n".join(key + b" " + (asking.dump(key) or b"") for key in asking.scan_iter())
        end = time.monotonic() + 10
        while b"planted:" + planted.mark.encode() not in self._heard:
            assert time.monotonic() < end, "MONITOR shows nothing"
            time.sleep(0.01)
        return bytes(self._heard) + kept

    def close(self) -> None:
        """Listen no longer."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._listener.join(10)
        self._socket.close()
