"""S8: a service beyond loopback is reached over https, and plain http to it is refused rather than served."""

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from app.settings import SettingsRefused, read_settings
from tests.http.reviewers import Office, open_office
from tests.http.support import PATH, Response, build_body

PROXY = (ip_network("127.0.0.0/8"),)


@pytest.fixture
async def proxied() -> AsyncIterator[Office]:
    """A front of an https address whose proxy is trusted, with one member."""
    async with open_office(trusted_proxies=PROXY) as opened:
        await opened.add()
        yield opened


async def sign_in(office: Office, **headers: str) -> Response:
    """Sign in through the proxy."""
    return await office.browser().sign_in(headers=headers)


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example",
        "http://192.0.2.1:8080",
        "http://localhost.example",
        "HTTP://id.example",
        "http://[::2]",
    ],
)
def test_s8_plain_http_beyond_this_machine_refuses_to_start(url: str) -> None:
    with pytest.raises(SettingsRefused, match=r"SERVICE_BASE_URL: .*https address") as response:
        read_settings(base_url=url)

    assert url not in str(response.value)


@pytest.mark.parametrize(
    "url", ["id.example", "ftp://id.example", "https://", "https://a:b@id.example", "https://x/?q"]
)
def test_s8_what_is_no_address_refuses_to_start(url: str) -> None:
    with pytest.raises(SettingsRefused, match="SERVICE_BASE_URL"):
        read_settings(base_url=url)


@pytest.mark.parametrize(
    "url", ["https://id.example", "http://127.0.0.1:8080", "http://localhost", "http://[::1]:1"]
)
def test_s8_https_and_loopback_start(url: str) -> None:
    assert read_settings(base_url=url).base_url == url


@pytest.mark.parametrize("said", ["http", "HTTP", "http, https", " http "])
async def test_s8_a_sign_in_a_proxy_says_came_in_the_clear_is_refused(proxied: Office, said: str) -> None:
    before = proxied.stored_text()

    result = await sign_in(proxied, **{"X-Forwarded-Proto": said})

    assert (result.status, result.code) == (403, "ORIGIN_REFUSED")
    assert "https" in result.json["detail"]
    assert "Set-Cookie" not in result.headers
    assert "Location" not in result.headers
    assert proxied.stored_text() == before


async def test_s8_a_key_sent_in_the_clear_opens_nothing(proxied: Office) -> None:
    headers = {"X-Forwarded-Proto": "http"}
    responses = [
        await proxied.front.ask("GET", PATH, headers=headers),
        await proxied.front.ask("POST", PATH, json=build_body(), headers=headers),
    ]

    assert {(one.status, one.code) for one in responses} == {(403, "ORIGIN_REFUSED")}
    assert proxied.front.keys.addresses == []


@pytest.mark.parametrize("said", ["https", "https, http", "", "wss"])
async def test_s8_what_came_over_tls_is_served(proxied: Office, said: str) -> None:
    result = await sign_in(proxied, **{"X-Forwarded-Proto": said})

    assert result.status == 201
    assert "; Secure" in result.headers["Set-Cookie"]
    assert result.headers["Strict-Transport-Security"].startswith("max-age=31536000")


async def test_s8_a_probe_past_the_proxy_is_answered(proxied: Office) -> None:
    assert (
        await proxied.front.ask("GET", "/livez", None, headers={"X-Forwarded-Proto": "http"})
    ).status == 200


async def test_s8_nobody_else_is_believed() -> None:
    async with open_office() as office:
        await office.add()

        assert (await sign_in(office, **{"X-Forwarded-Proto": "http"})).status == 201


@pytest.mark.parametrize(
    ("given", "networks"),
    [
        ("10.0.0.0/8, ::1/128", ["10.0.0.0/8", "::1/128"]),
        ("192.0.2.1", ["192.0.2.1/32"]),
        ("", []),
    ],
)
def test_s8_proxies_are_trusted_by_name_only(
    monkeypatch: pytest.MonkeyPatch, given: str, networks: list[str]
) -> None:
    monkeypatch.setenv("SERVICE_TRUSTED_PROXIES", given)

    assert [str(one) for one in read_settings().trusted_proxies] == networks


@pytest.mark.parametrize("given", ["10.0.0.1/8", "everybody", "10.0.0.0/8;::1"])
def test_s8_a_network_that_is_none_refuses_to_start(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("SERVICE_TRUSTED_PROXIES", given)

    with pytest.raises(SettingsRefused, match="SERVICE_TRUSTED_PROXIES"):
        read_settings()
