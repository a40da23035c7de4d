"""A certificate authority of a test, and what it signs."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificate(NamedTuple):
    cert: Path
    key: Path


class Authority:
    """A certificate authority of its own, with files for a server and its clients."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        self.ca = folder / "ca.pem"
        certificate = self._sign(self._name, self._key, ca=True)
        self.ca.write_bytes(certificate)

    def issue(self, name: str, *, expired: bool = False) -> Certificate:
        """A certificate for this machine; an expired one ended an hour ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert_path, key_path = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert_path.write_bytes(self._sign(subject, key, ca=False, hours=-1 if expired else 1))
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Certificate(cert_path, key_path)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool, hours: int = 1
    ) -> bytes:
        now = dt.datetime.now(dt.UTC)
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=2))
            .not_valid_after(now + dt.timedelta(hours=hours))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
