"""A certificate authority of a test's own, and the certificates that it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

BEGINS, ENDS = datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)


class Authority:
    """An authority that nobody trusts yet; `path` is the file with its certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        built = self._builder(self._name, self._key.public_key())
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = built.add_extension(x509.BasicConstraints(True, None), True).add_extension(usage, True)
        self.path = self._write("authority.pem", made.sign(self._key, hashes.SHA256()))

    def certificate(self, name: str, ends: datetime = ENDS) -> tuple[Path, Path]:
        """Returns the files of a certificate for a host name or an IP address, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            names: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            names = x509.DNSName(name)
        built = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(), ends)
        made = built.add_extension(x509.SubjectAlternativeName([names]), False)
        secret = self._folder / f"{name}.key"
        form = serialization.PrivateFormat.PKCS8
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return self._write(f"{name}.pem", made.sign(self._key, hashes.SHA256())), secret

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime = ENDS
    ) -> x509.CertificateBuilder:
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        return built.serial_number(x509.random_serial_number()).not_valid_before(BEGINS).not_valid_after(ends)

    def _write(self, name: str, made: x509.Certificate) -> Path:
        path = self._folder / name
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return path
