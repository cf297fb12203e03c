"""Which addresses may be called at all."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams.webhooks.addresses import is_public
from tests.specimens.addresses import PUBLIC, REFUSED


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
