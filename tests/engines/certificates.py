"""A certificate authority of a test's own, and what it signs for a server and its clients."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

STORE_PASSWORD = "not-a-secret"  # noqa: S105 - it opens a folder that dies with its test
"""Java wants one on a PKCS12 file."""

PEM, PKCS8 = Encoding.PEM, PrivateFormat.PKCS8


@dataclass(frozen=True, slots=True)
class Identity:
    """A key and its certificate in the forms their users read."""

    certificate: Path
    """PEM."""
    key: Path
    """PEM, not encrypted."""
    combined: Path
    """PEM: key and certificate in one file, as Kafka reads them."""
    keystore: Path
    """PKCS12 under `STORE_PASSWORD`, as Cassandra reads it."""


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that signs; `certificate` is what the other side is reported to trust."""

    folder: Path
    certificate: Path
    truststore: Path
    """The same certificate as PKCS12 under `STORE_PASSWORD`."""
    signer: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, folder: Path, name: str = "Test Authority") -> Self:
        """Found a new authority; its files and those it signs are kept in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        built = _begin(subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        signer = built.issuer_name(subject).sign(key, hashes.SHA256())
        certificate, truststore = folder / "authority.pem", folder / "trusted.p12"
        certificate.write_bytes(signer.public_bytes(PEM))
        truststore.write_bytes(_truststore(signer))
        return cls(folder, certificate, truststore, signer, key)

    def sign(self, name: str, *hosts: str) -> Identity:
        """Issue a certificate for these host names and addresses, by default of the loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_general(host) for host in hosts or ("localhost", "127.0.0.1")]
        built = _begin(_named(name), key).add_extension(x509.SubjectAlternativeName(names), critical=False)
        issued = built.issuer_name(self.signer.subject).sign(self.key, hashes.SHA256())
        return self._keep(name, issued, key)

    def client_context(self) -> ssl.SSLContext:
        """Trust this authority and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def _keep(self, name: str, issued: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
        parts = ("crt", "key", "pem", "p12")
        identity = Identity(*(self.folder / f"{name}.{part}" for part in parts))
        certificate, private = issued.public_bytes(PEM), key.private_bytes(PEM, PKCS8, NoEncryption())
        identity.certificate.write_bytes(certificate)
        identity.key.write_bytes(private)
        identity.combined.write_bytes(private + certificate)
        locked = BestAvailableEncryption(STORE_PASSWORD.encode())
        identity.keystore.write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), key, issued, [self.signer], locked)
        )
        return identity


def _begin(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    begun = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    begun = begun.serial_number(x509.random_serial_number())
    return begun.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=2))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _truststore(signer: x509.Certificate) -> bytes:
    entry = pkcs12.PKCS12Certificate(signer, b"authority")
    return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(STORE_PASSWORD.encode()))
