"""How the log is reached: settings that contradict each other are refused, and no secret is ever said."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.kafka.cluster import access_of, prepare_topics
from app.kafka.diagnostics import Unreachable, reach
from app.process.startup import CannotStart
from app.settings import Settings, SettingsRefused
from streams.runtime.app import credentials_of
from streams.runtime.kafka_client_config import LogAccess, SaslMechanism, SignIn
from tests.engines.certificates import Authority
from tests.engines.jvm import free_ports

SECRET = "never to be said"  # noqa: S105 - it opens nothing
SIGNED_IN: dict[str, Any] = {
    "kafka_security_protocol": "SASL_PLAINTEXT",
    "kafka_username": "veristream",
    "kafka_password": SecretStr(SECRET),
}


def settings(**given: Any) -> Settings:
    """Settings of a configured Kafka."""
    return Settings(kafka_bootstrap="kafka-1:9092,kafka-2:9092", **given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        pytest.param({"kafka_security_protocol": "SASL_SSL"}, "KAFKA_USERNAME", id="a sign-in of nobody"),
        pytest.param({"kafka_password": SecretStr(SECRET)}, "SECURITY_PROTOCOL", id="a password for nothing"),
        pytest.param({"kafka_tls_ca_file": "ca.pem"}, "SECURITY_PROTOCOL", id="a CA for nothing"),
        pytest.param(
            {"kafka_security_protocol": "SSL", "kafka_tls_ca_file": "absent.pem"},
            "TLS_CA_FILE",
            id="a CA that is not there",
        ),
        pytest.param(
            {"kafka_security_protocol": "SSL", "kafka_tls_cert_file": "ours.pem"},
            "TLS_KEY_FILE",
            id="a certificate without its key",
        ),
        pytest.param({"kafka_min_insync_replicas": 2}, "MIN_INSYNC", id="more copies in sync than there are"),
    ],
)
def test_contradicting_settings_are_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsRefused, match=named) as refused:
        access_of(settings(**given))

    assert SECRET not in str(refused.value)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    ours, other = authority.sign("ours"), authority.sign("other")
    given = settings(
        kafka_security_protocol="SSL", kafka_tls_cert_file=ours.certificate, kafka_tls_key_file=other.key
    )

    with pytest.raises(SettingsRefused, match="its own key"):
        access_of(given)


def test_an_access_does_not_tell_its_password() -> None:
    access = access_of(settings(**SIGNED_IN))

    assert access.protocol == "SASL_PLAINTEXT"
    assert access.client()["sasl_plain_password"] == SECRET
    assert SECRET not in repr(access) + repr(credentials_of(access))


async def test_tls_to_the_embedded_broker_is_refused_at_once(tmp_path: Path) -> None:
    context = Authority.make(tmp_path / "authority").client_context()
    async with Broker(BrokerSettings(directory=tmp_path / "log")) as broker:
        with pytest.raises(CannotStart, match="speaks no TLS"):
            await prepare_topics(LogAccess(broker.address, tls=context))


async def test_a_broker_that_is_there_is_found_among_others_that_are_not(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(directory=tmp_path)) as broker:
        assert await reach(LogAccess(f"127.0.0.1:{free_ports(1)[0]},{broker.address}")) == 1


@pytest.mark.parametrize("address", ["", "kafka", "kafka:ninety", ":9092"])
async def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(Unreachable, match="SERVICE_KAFKA_BOOTSTRAP"):
        await reach(LogAccess(address, sign_in=SignIn(SaslMechanism.PLAIN, "n", SecretStr(SECRET))))
