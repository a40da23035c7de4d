"""How a client command shows who it is, and how it knows the server: four variables of the environment."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from cli.errors import USAGE, CommandError
from common.settings import PREFIX
from superbizagent_client import ClientCertificate, open_channel


@dataclass(frozen=True, slots=True)
class Access:
    """The caller's token and certificate, and the authority of the server's. None of them is ever shown."""

    token: str | None = None
    tls_ca: bytes | None = None
    client_certificate: ClientCertificate | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Access":
        """Read TOKEN, TLS_CA, TLS_CLIENT_CERT and TLS_CLIENT_KEY; an empty variable counts as not set."""
        token = environ.get(f"{PREFIX}TOKEN") or None
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise CommandError(f"{PREFIX}TOKEN must be printable ASCII without spaces", USAGE)
        ca, cert, key = (
            environ.get(f"{PREFIX}{name}") or None for name in ("TLS_CA", "TLS_CLIENT_CERT", "TLS_CLIENT_KEY")
        )
        if (cert is None) != (key is None):
            lacking = "TLS_CLIENT_KEY" if key is None else "TLS_CLIENT_CERT"
            raise CommandError(f"{PREFIX}{lacking} must be set too: a certificate and its key", USAGE)
        if cert is not None and ca is None:
            # A certificate is shown over TLS only; unnoticed, the call would go out in plain text.
            raise CommandError(f"{PREFIX}TLS_CA must be set where {PREFIX}TLS_CLIENT_CERT is", USAGE)
        shown = None if cert is None or key is None else _read_certificate(cert, key)
        return cls(token, None if ca is None else _read_ca(ca), shown)

    def open_channel(self, address: str, options: tuple[tuple[str, str | int], ...] = ()) -> grpc.aio.Channel:
        """A channel that shows it. ValueError if the token would go out in plain text."""
        return open_channel(
            address,
            token=self.token,
            tls_ca=self.tls_ca,
            client_certificate=self.client_certificate,
            options=options,
        )


# gRPC would find what is wrong with a file only later, at each handshake, and say no word about it.


def _read_ca(path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
        ssl.create_default_context(cadata=content.decode("ascii"))
    except (OSError, ValueError, ssl.SSLError):
        raise CommandError(
            f"{PREFIX}TLS_CA must be a PEM file of certificates that can be read", USAGE
        ) from None
    return content


def _read_certificate(cert: str, key: str) -> ClientCertificate:
    try:
        # A password would be asked for at the terminal; an empty one makes a locked key an error.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="")
        return ClientCertificate(Path(cert).read_bytes(), Path(key).read_bytes())
    except (OSError, ValueError, ssl.SSLError):
        raise CommandError(
            f"{PREFIX}TLS_CLIENT_CERT and {PREFIX}TLS_CLIENT_KEY must be PEM files of a certificate and its "
            "key, without a password",
            USAGE,
        ) from None
