"""A server that wants TLS, with certificates of our own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from afl.clock import SYSTEM_CLOCK
from afl.errors import StoreUnavailable
from afl.runtime.mongo_store import MongoStore
from afl.testing.contracts.store.exam import add_tasks, claim_one, new_task
from afl.testing.servers import MongoServer

_DAY = timedelta(days=1)


class Authority:
    """Signs certificates, its own first."""

    def __init__(self, name: str, folder: Path) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(own)

    def pair(self, name: str) -> Path:
        """A file with a certificate for this machine, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        path = self._folder / f"{name}.pem"
        path.write_bytes(self._signed(subject, key, here) + _text_of(key))
        return path

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> bytes:
        now = SYSTEM_CLOCK.now()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)


def _text_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


class GuardedServer(MongoServer):
    """It takes nobody without TLS, and nobody without a certificate."""

    def __init__(self, folder: Path) -> None:
        authority = Authority("authority", folder)
        self._ca = authority.file
        self._own = authority.pair("server")
        self._client = authority.pair("client")
        super().__init__()

    @property
    def plain_url(self) -> str:
        return super().url

    @property
    def url(self) -> str:
        return self.url_with(self._ca)

    def url_with(self, ca: Path) -> str:
        return f"{self.plain_url}/?tls=true&tlsCAFile={ca}&tlsCertificateKeyFile={self._client}"

    def _command(self) -> Sequence[str]:
        settings = {
            "tlsMode": "requireTLS",
            "tlsCAFile": str(self._ca),
            "tlsCertificateKeyFile": str(self._own),
        }
        tls = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return [*super()._command(), *tls]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServer]:
    with GuardedServer(tmp_path_factory.mktemp("tls")) as started:
        yield started


def test_a_store_works_through_tls(server: GuardedServer) -> None:
    with MongoStore(server.url) as store:
        add_tasks(store, new_task(uuid="one"))
        assert store.wait_for_work(["Pay"], 20)
        assert claim_one(store).uuid == "one"


def test_who_trusts_another_authority_is_told_to_look_at_it(
    server: GuardedServer, tmp_path: Path
) -> None:
    other = Authority("other", tmp_path)
    url = f"{server.url_with(other.file)}&serverSelectionTimeoutMS=500"
    with pytest.raises(StoreUnavailable, match="tlsCAFile") as refusal:
        MongoStore(url)
    assert "is it running" not in str(refusal.value)


def test_who_does_not_ask_for_tls_is_told_of_it(server: GuardedServer) -> None:
    url = f"{server.plain_url}/?serverSelectionTimeoutMS=500"
    with pytest.raises(StoreUnavailable, match="tls=true"):
        MongoStore(url)


def test_who_asks_for_tls_where_there_is_none_is_told_of_it(
    server: GuardedServer, mongo_url: str
) -> None:
    url = server.url.replace(server.plain_url, mongo_url) + "&serverSelectionTimeoutMS=500"
    with pytest.raises(StoreUnavailable, match="TLS does not come about"):
        MongoStore(url)
