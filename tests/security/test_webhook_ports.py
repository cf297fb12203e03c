"""Webhooks go to ports 443 and 8443, or to those a setting names: at registration and at delivery (S36)."""

import pytest

from app.doctor.checks import _receivers
from app.settings import Settings, SettingsRefused, read_settings
from schemas.problems import Refused
from schemas.webhooks import FailureKind
from streams.webhooks.urls import USUAL_PORTS, receiver_url
from tests.http.receivers import post, receiving
from tests.http.support import open_front

PATH = "/v1/webhooks/endpoints"
REQUESTED = {"event_types": ["*"], "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
INNER = [1, 22, 25, 80, 444, 2375, 3306, 5432, 6379, 8080, 8444, 9042, 9092, 9200, 11211, 65535]


@pytest.mark.parametrize("port", INNER)
def test_s36_a_receiver_at_another_port_is_refused(port: int) -> None:
    with pytest.raises(Refused, match=rf"names port {port}; use 443, 8443") as refused:
        receiver_url(f"https://hooks.acme.example:{port}/in", insecure=False)

    assert [error.pointer for error in refused.value.refusal.errors] == ["/url"]


@pytest.mark.parametrize("port", sorted(USUAL_PORTS))
def test_s36_the_usual_ports_are_allowed(port: int) -> None:
    assert receiver_url(f"https://hooks.acme.example:{port}/in", insecure=False)


async def test_s36_an_endpoint_at_another_port_is_neither_made_nor_changed_to() -> None:
    async with open_front() as front:
        refused = await front.ask(
            "POST", PATH, json=REQUESTED | {"url": "https://hooks.acme.example:9200/in"}
        )
        made = await front.ask("POST", PATH, json=REQUESTED | {"url": "https://hooks.acme.example:8443/in"})
        place = f"{PATH}/{made.json['endpoint_id']}"
        changed = await front.ask("PATCH", place, json={"url": "https://hooks.acme.example:22/in"})

    assert [refused.status, made.status, changed.status] == [422, 201, 422]
    assert refused.pointers == changed.pointers == {"/url": "WEBHOOK_ENDPOINT_UNUSABLE"}


async def test_s36_a_setting_allows_more_ports() -> None:
    async with open_front(webhooks_ports=frozenset({443, 9443})) as front:
        responses = [
            (
                await front.ask(
                    "POST", PATH, json=REQUESTED | {"url": f"https://hooks.acme.example:{port}/in"}
                )
            ).status
            for port in (9443, 443, 8443)
        ]

    assert responses == [201, 201, 422]


async def test_s36_what_was_registered_before_is_judged_again_at_delivery() -> None:
    """At a port that is not allowed any more not even the receiver's name is looked up."""
    asked: list[str] = []

    async def look_up(name: str) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"]

    async with receiving(everywhere=True) as receiver:
        url = f"https://hooks.acme.example:{receiver.port}/in"
        answer = await post(url, insecure=False, ports=USUAL_PORTS, resolver=look_up)
        before = len(asked)
        await post(url, insecure=False, ports={receiver.port}, resolver=look_up)

    assert (answer.failure, receiver.connections) == (FailureKind.ADDRESS_REFUSED, 0)
    assert (before, asked) == (0, ["hooks.acme.example"])


async def test_s36_for_development_any_port_is_allowed() -> None:
    async with receiving() as receiver:
        answer = await post(receiver.url, insecure=True, ports=USUAL_PORTS)

    assert (answer.status, receiver.connections) == (200, 1)


def test_s36_the_setting_is_a_list_of_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_WEBHOOKS_PORTS", "443, 9443")

    assert read_settings().webhooks_ports == frozenset({443, 9443})
    assert "443, 9443" in _receivers(read_settings()).found
    assert Settings.model_fields["webhooks_ports"].default == frozenset({443, 8443})


@pytest.mark.parametrize("value", ["", "0", "65536", "https", "443;8443"])
def test_s36_a_setting_that_names_no_port_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SERVICE_WEBHOOKS_PORTS", value)

    with pytest.raises(SettingsRefused, match="SERVICE_WEBHOOKS_PORTS"):
        read_settings()
