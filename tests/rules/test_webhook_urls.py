"""Which URLs an endpoint may have, and which addresses may be called at all."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from schemas.problems import ProblemCode, Refused
from streams.webhooks.addresses import is_public
from streams.webhooks.urls import URL_MOST, receiver_url
from tests.specimens.addresses import PUBLIC, REFUSED, SPELLINGS_OF_LOOPBACK, in_url


def refusal(text: str, *, insecure: bool = False) -> str:
    """Why the URL is refused."""
    with pytest.raises(Refused) as raised:
        receiver_url(text, insecure=insecure)
    (problem,) = raised.value.refusal.errors
    assert (problem.pointer, problem.code) == ("/url", ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE)
    return problem.message


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_may_not_be_called_is_refused_at_registration(address: str) -> None:
    assert "internet" in refusal(f"https://{in_url(address)}/hook")


@pytest.mark.parametrize("host", SPELLINGS_OF_LOOPBACK)
def test_no_spelling_hides_where_a_url_leads(host: str) -> None:
    assert "reachable from the internet" in refusal(f"https://{host}/hook")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_accepted(address: str) -> None:
    url = f"https://{in_url(address)}/hook"

    assert receiver_url(url, insecure=False) == url


@pytest.mark.parametrize(
    "octets", [(10, 0, 0, 1), (169, 254, 169, 254), (192, 0, 0, 192), (168, 63, 129, 16)]
)
@pytest.mark.parametrize("form", ["{:d}", "0{:o}", "0x{:x}"])
def test_decimal_octal_and_hexadecimal_are_one_address(octets: tuple[int, ...], form: str) -> None:
    number = int.from_bytes(bytes(octets), "big")
    hosts = (form.format(number), ".".join(form.format(octet) for octet in octets))

    assert {refusal(f"https://{host}/") for host in hosts} == {refusal("https://10.0.0.1/")}


@pytest.mark.parametrize(
    ("given_url", "stored"),
    [
        ("https://Hooks.ACME.example/A?b=C", "https://hooks.acme.example/A?b=C"),
        ("https://hooks.acme.example", "https://hooks.acme.example/"),
        ("HTTPS://hooks.acme.example:443/", "https://hooks.acme.example/"),
        ("https://hooks.acme.example:8443/", "https://hooks.acme.example:8443/"),
        ("https://hooks.acme.example./x", "https://hooks.acme.example/x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://hooks。acme。example/", "https://hooks.acme.example/"),
        ("https://hooks.acme.example/a/../b/./c", "https://hooks.acme.example/b/c"),
        ("https://hooks.acme.example/%2e%2e/b", "https://hooks.acme.example/b"),
        ("https://hooks.acme.example/ü?é", "https://hooks.acme.example/%C3%BC?%C3%A9"),
        ("https://hooks.acme.example/?", "https://hooks.acme.example/"),
        ("https://hooks.acme.example/??", "https://hooks.acme.example/??"),
        ("https://hooks.acme.example/@you", "https://hooks.acme.example/@you"),
        ("https://134744072/", "https://8.8.8.8/"),
        ("https://[2606:4700:0:0::1111]/", "https://[2606:4700::1111]/"),
    ],
)
def test_a_url_is_kept_in_one_form(given_url: str, stored: str) -> None:
    assert receiver_url(given_url, insecure=False) == stored


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "https://"),
        ("hooks.acme.example/x", "https://"),
        ("//hooks.acme.example/x", "https://"),
        ("https:hooks.acme.example", "https://"),
        ("https:///hooks.acme.example", "https://"),
        ("https://", "https://"),
        ("https://?x", "https://"),
        ("http://hooks.acme.example/", "https://"),
        ("ftp://hooks.acme.example/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("javascript:alert(1)", "https://"),
        ("https://user@hooks.acme.example/", "user name"),
        ("https://user:secret@hooks.acme.example/", "user name"),
        ("https://@hooks.acme.example/", "user name"),
        ("https://:@hooks.acme.example/", "user name"),
        ("https://hooks.acme.example@10.0.0.1/", "user name"),
        ("https://hooks.acme.example/#part", "fragment"),
        ("https://hooks.acme.example/#", "fragment"),
        ("https://hooks.acme.example:0/", "port 0"),
        ("https://hooks.acme.example:65536/", "port"),
        ("https://hooks.acme.example:x/", "port"),
        ("https://hooks.acme.example/a b", "space"),
        (" https://hooks.acme.example/", "space"),
        ("https://hooks.acme.example/\n", "space"),
        ("https://hooks.ac\tme.example/", "space"),
        ("https://hooks.acme.example/\x00", "control"),
        ("https://ho\u200boks.acme.example/", "control"),
        ("https://ho\u00adoks.acme.example/", "control"),
        ("https://hooks.acme.example/\ud800", "control"),
        ("https://hooks.acme.example\\@10.0.0.1/", "backslash"),
        ("https:\\\\hooks.acme.example", "backslash"),
        ("https://hooks..example/", "name server"),
        ("https://.example/", "name server"),
        ("https://hooks.example../", "name server"),
        ("https://-hooks.example/", "name server"),
        ("https://ho~oks.example/", "name server"),
        (f"https://{'a' * 64}.example/", "name server"),
        (f"https://{'a.' * 126}example/", "name server"),
        ("https://256.1.1.1/", "IPv4"),
        ("https://1.2.3.4.5/", "IPv4"),
        ("https://0xg.1/", "IPv4"),
        ("https://[::1/", "IPv6"),
        ("https://[fe80::1%25eth0]/", "IPv6"),
        ("https://xn--a/", "domain"),
        ("https://ho%00oks.example/", "domain"),
        (f"https://hooks.example/{'a' * URL_MOST}", "longer"),
        (f"https://hooks.example/{'ü' * 600}", "longer"),
    ],
)
def test_an_unusable_url_is_refused_with_its_reason(text: str, reason: str) -> None:
    assert reason in refusal(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.acme.example/x",
        "http://localhost:8000/x",
        "http://a.localhost:8000/x",
        "http://127.0.0.1:8000/x",
        "http://[::1]:8000/x",
    ],
)
def test_a_developer_may_call_plain_http_and_loopback(url: str) -> None:
    assert receiver_url(url, insecure=True) == url


@pytest.mark.parametrize("address", [a for a in REFUSED if not a.startswith("127.") and a != "::1"])
def test_a_developer_may_call_nothing_else(address: str) -> None:
    assert "internet" in refusal(f"http://{in_url(address)}/x", insecure=True)


@pytest.mark.parametrize("host", ["db", "printer.local", "metadata.google.internal"])
def test_a_developer_may_name_no_other_host_of_the_network(host: str) -> None:
    assert "internet" in refusal(f"http://{host}/x", insecure=True)


def test_the_reason_never_repeats_the_url_which_may_hold_a_secret() -> None:
    assert "s3cret" not in refusal("https://256.1.1.1/s3cret?s3cret")


_HOSTS = st.one_of(
    st.sampled_from([*SPELLINGS_OF_LOOPBACK, *map(in_url, REFUSED), *map(in_url, PUBLIC)]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    st.from_regex(r"\A[a-z0-9_-]{1,8}(\.[a-z0-9_-]{1,8}){1,3}\.?(:[0-9]{1,5})?\Z"),
)
_PATHS = st.one_of(
    st.text(max_size=20), st.from_regex(r"\A/[!-~]{0,30}\Z"), st.sampled_from(["", "/%zz|'<>?a=%7e&b=+%20"])
)


@given(_HOSTS, _PATHS, st.booleans())
def test_what_is_accepted_reads_the_same_everywhere_and_again(host: str, path: str, insecure: bool) -> None:  # noqa: FBT001 - drawn
    try:
        stored = receiver_url(f"https://{host}{path}", insecure=insecure)
    except Refused:
        return
    standard, sent, read = urlsplit(stored), URL(stored, encoded=True), URL(stored)

    assert receiver_url(stored, insecure=insecure) == stored
    assert standard.hostname == sent.raw_host == read.raw_host
    assert (standard.port or 443) == sent.port == read.port
    assert standard.path == sent.raw_path
    assert standard.query == sent.raw_query_string
    assert (standard.username, sent.user, standard.fragment) == (None, None, "")
    assert str(sent) == stored


@given(st.text(st.characters(), max_size=60), st.booleans())
def test_no_text_makes_it_fail_in_another_way(text: str, insecure: bool) -> None:  # noqa: FBT001 - drawn
    for written in (text, f"https://{text}", f"https://hooks.acme.example/{text}"):
        with suppress(Refused):
            assert receiver_url(written, insecure=insecure).startswith("http")


def test_the_table_has_sixty_forms() -> None:
    assert len(REFUSED) >= 60


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_reachable_from_the_internet_is_refused(text: str) -> None:
    assert not is_public(ip_address(text)), REFUSED[text]


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_may_be_called_right_up_to_the_edges(text: str) -> None:
    assert is_public(ip_address(text))


@given(st.ip_addresses())
@example(ip_address("192.0.0.9"))
def test_nothing_is_public_that_the_standard_library_calls_special(
    address: IPv4Address | IPv6Address,
) -> None:
    special = address.is_private or address.is_multicast or address.is_reserved or address.is_link_local

    assert not (special and is_public(address))


@given(st.ip_addresses(v=4), st.sampled_from(["::", "::ffff:", "::ffff:0:", "64:ff9b::", "64:ff9b:1::"]))
def test_no_form_that_stands_for_an_ipv4_address_is_public(address: IPv4Address, prefix: str) -> None:
    assert not is_public(IPv6Address(f"{prefix}{address}"))


@given(st.ip_addresses(v=4), st.sampled_from([0x5EFE, 0x0200_5EFE]))
def test_a_tunnels_end_is_as_public_as_the_address_it_carries(address: IPv4Address, mark: int) -> None:
    network = int(IPv6Address("2606:4700::"))

    assert is_public(IPv6Address(network | mark << 32 | int(address))) is is_public(address)


def test_an_address_of_one_link_is_not_public_whatever_its_numbers() -> None:
    assert not is_public(IPv6Address("2606:4700:4700::1111%1"))
