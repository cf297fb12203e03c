"""No spelling, name, answer of a name server or redirect leads a webhook to what is not public (S34-S36)."""

import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address

import pytest
import pytest_asyncio
from aiohttp import ClientConnectorError

from app.adapters.webhooks.address_guard import AddressGuard, AddressRefused, GuardedResolver, _is_own
from app.adapters.webhooks.sender import AiohttpSender, open_sender
from schemas.webhooks import FailureKind
from streams.webhooks.ports import WebhookSender
from tests.http.receivers import (
    BODY,
    EVERY_PORT,
    HEADERS,
    TRUSTING_NOBODY,
    Receiver,
    answering,
    names,
    post,
    receiving,
)
from tests.specimens.addresses import PUBLIC, REFUSED, SPELLINGS_OF_LOOPBACK, in_url

LOOPBACKS = ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",)


@pytest_asyncio.fixture
async def both() -> AsyncIterator[Receiver]:
    """A receiver on every address of this machine."""
    async with receiving(everywhere=True) as opened:
        yield opened


@pytest_asyncio.fixture
async def sender() -> AsyncIterator[WebhookSender]:
    """A sender as a deployment has it, whose names lead to this machine."""
    here = names(["127.0.0.1"])
    async with open_sender(
        insecure=False, ports=EVERY_PORT, version="0.1.0", resolver=here, tls=TRUSTING_NOBODY
    ) as opened:
        yield opened


@pytest.mark.parametrize("host", [*map(in_url, REFUSED), *SPELLINGS_OF_LOOPBACK])
async def test_no_literal_reaches_a_listener(both: Receiver, sender: WebhookSender, host: str) -> None:
    answer = await sender.post(f"https://{host}:{both.port}/hook", HEADERS, BODY)

    assert (answer.failure, both.connections) == (FailureKind.ADDRESS_REFUSED, 0)


@pytest.mark.parametrize("address", REFUSED)
async def test_no_name_reaches_a_listener(both: Receiver, address: str) -> None:
    url = f"https://hooks.acme.example:{both.port}/hook"
    answer = await post(url, insecure=False, resolver=names([address]))

    assert (answer.failure, both.connections) == (FailureKind.ADDRESS_REFUSED, 0)


@pytest.mark.parametrize("address", REFUSED)
async def test_the_socket_itself_refuses_whatever_led_there(
    both: Receiver, sender: AiohttpSender, address: str
) -> None:
    with pytest.raises(ClientConnectorError) as raised:
        await sender._session.post(f"http://{in_url(address)}:{both.port}/hook")

    assert (type(raised.value.os_error), both.connections) == (AddressRefused, 0)


@pytest.mark.parametrize("address", LOOPBACKS)
async def test_the_listener_would_have_been_reached(both: Receiver, address: str) -> None:
    answer = await post(f"http://{in_url(address)}:{both.port}/hook")

    assert (answer.status, both.connections) == (200, 1)


@pytest.mark.parametrize("text", ["127.1", "2130706433", "0x7f.1", "localhost", "", "fe80::1%lo", "\x00"])
async def test_a_name_servers_nonsense_is_no_address(both: Receiver, text: str) -> None:
    answer = await post(f"http://hooks.acme.example:{both.port}/hook", resolver=names([text]))

    assert (answer.failure, both.connections) == (FailureKind.ADDRESS_REFUSED, 0)


@pytest.mark.parametrize(
    "answers", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "::ffff:127.0.0.1"]]
)
async def test_of_mixed_addresses_none_is_used(both: Receiver, answers: list[str]) -> None:
    url = f"http://hooks.acme.example:{both.port}/hook"
    answer = await post(url, resolver=names(answers))

    assert (answer.failure, both.connections) == (FailureKind.ADDRESS_REFUSED, 0)


async def test_a_bad_address_far_down_the_list_refuses_the_name_as_well(both: Receiver) -> None:
    url = f"http://hooks.acme.example:{both.port}/hook"
    answer = await post(url, resolver=names([*["127.0.0.1"] * 50, "10.0.0.1"]))

    assert (answer.failure, both.connections) == (FailureKind.ADDRESS_REFUSED, 0)


async def test_a_name_that_turns_is_judged_at_every_attempt(both: Receiver) -> None:
    url = f"http://hooks.acme.example:{both.port}/hook"
    turning = names(["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"])
    async with open_sender(insecure=True, version="0.1.0", resolver=turning, tls=TRUSTING_NOBODY) as sender:
        answers = [await sender.post(url, HEADERS, BODY) for _ in range(3)]

    assert [answer.failure for answer in answers] == [None, FailureKind.ADDRESS_REFUSED, None]
    assert both.connections == 2


async def test_the_address_that_was_judged_is_the_one_that_is_called(both: Receiver) -> None:
    asked: list[str] = []

    async def look_up(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    await post(f"http://hooks.acme.example:{both.port}/hook", resolver=look_up)

    assert asked == ["hooks.acme.example"]


async def test_a_public_name_that_turns_private_is_refused() -> None:
    guarded = GuardedResolver(names(["8.8.8.8"], ["127.0.0.1"]), AddressGuard(insecure=False))
    before = await guarded.resolve("hooks.acme.example", 443)
    with pytest.raises(AddressRefused):
        await guarded.resolve("hooks.acme.example", 443)

    assert [found["host"] for found in before] == ["8.8.8.8"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(both: Receiver, status: int) -> None:
    away = answering(f"{status} Elsewhere", f"Location: {both.url}")
    async with receiving(away) as redirecting:
        answer = await post(redirecting.url)

    assert (answer.status, answer.failure, both.connections) == (status, FailureKind.STATUS, 0)


async def test_a_redirect_to_itself_ends_at_once() -> None:
    async with receiving(answering("302 Found", "Location: /hook")) as redirecting:
        await post(redirecting.url)

        assert redirecting.connections == 1


@pytest.mark.parametrize("url", ["http://8.8.8.8/", "https://a:b@hooks.acme.example/", "ftp://x/", "x", ""])
async def test_what_could_not_be_registered_now_is_not_called(sender: WebhookSender, url: str) -> None:
    answer = await sender.post(url, HEADERS, BODY)

    assert (answer.status, answer.failure) == (None, FailureKind.ADDRESS_REFUSED)


def test_this_machines_own_addresses_are_known() -> None:
    assert _is_own(ip_address("127.0.0.1"))
    assert not any(_is_own(ip_address(address)) for address in PUBLIC)
