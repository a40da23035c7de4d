"""Where and how the server may listen: TLS, and the refusal to be open to others by accident."""

import contextlib
import ssl
from pathlib import Path

import grpc

from common.address import UNBINDABLE_RULE, Address
from common.settings import PREFIX, Settings, SettingsError


def check_listen(settings: Settings, setting: str, address: Address) -> None:
    """Refuse an address that others can reach unless calls are encrypted and callers known.

    METRICS_LISTEN is not asked: it answers counts only, and scrapers speak plain HTTP.
    """
    if address.is_loopback or settings.allow_insecure_listen:
        return
    if settings.tls_cert is None or (settings.auth_file is None and settings.tls_client_ca is None):
        raise SettingsError(
            setting,
            f"must be a loopback address unless {PREFIX}TLS_CERT with {PREFIX}AUTH_FILE or "
            f"{PREFIX}TLS_CLIENT_CA is set, or {PREFIX}ALLOW_INSECURE_LISTEN=true",
        )


def bind(server: grpc.aio.Server, settings: Settings, setting: str, address: Address) -> int:
    """Bind the address and return the port, which the system may have chosen."""
    check_listen(settings, setting, address)
    credentials = _credentials(settings)
    port = 0
    try:
        if credentials is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials)
    except RuntimeError:
        pass
    if port == 0:
        raise SettingsError(setting, UNBINDABLE_RULE)
    return port


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    cert, key, client_ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    if cert is None or key is None:
        return None
    chain = _read("TLS_CERT", cert)
    private = _read("TLS_KEY", key)
    authorities = None if client_ca is None else _read("TLS_CLIENT_CA", client_ca)
    _check_pem(cert, key, client_ca)
    return grpc.ssl_server_credentials(
        [(private, chain)], root_certificates=authorities, require_client_auth=authorities is not None
    )


def _read(setting: str, path: Path) -> bytes:
    content = None
    with contextlib.suppress(OSError):
        content = path.read_bytes()
    if content is None:
        raise SettingsError(setting, "must be a file that can be read")
    return content


def _check_pem(cert: Path, key: Path, client_ca: Path | None) -> None:
    """grpc would bind the port and fail at each handshake; this fails at start."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wrong = ""
    try:
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, OSError, ValueError):
        wrong = "TLS_CERT"
    if wrong:
        raise SettingsError(wrong, f"must be a PEM certificate that fits the unencrypted {PREFIX}TLS_KEY")
    try:
        if client_ca is not None:
            context.load_verify_locations(client_ca)
    except (ssl.SSLError, OSError):
        wrong = "TLS_CLIENT_CA"
    if wrong:
        raise SettingsError(wrong, "must be a PEM file of certificates")
