"""Telephone numbers, e-mail and postal addresses of parties are examined by published rules (G127)."""

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phonenumbers import PhoneNumberType

from schemas.reasons import ReasonCode
from streams.contacts.address import examine_address
from streams.contacts.details import (
    DISPOSABLE_DOMAINS,
    ROLES,
    SHARED_BY,
    ContactDetail,
    examine_email,
    examine_phone,
    shared,
)

REGIONS = sorted(phonenumbers.SUPPORTED_REGIONS)


@pytest.mark.parametrize("region", REGIONS)
def test_the_example_number_of_a_region_is_valid_there_in_both_forms(region: str) -> None:
    number = phonenumbers.example_number(region)
    assert number is not None
    national = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
    international = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)

    assert examine_phone(international, region) == examine_phone(national, region)
    assert examine_phone(international, region).normalized == international
    assert ReasonCode.PHONE_COUNTRY_MISMATCH not in examine_phone(international, region).findings


@pytest.mark.parametrize(
    ("kind", "finding"),
    [(PhoneNumberType.VOIP, ReasonCode.PHONE_VOIP), (PhoneNumberType.PREMIUM_RATE, ReasonCode.PHONE_PREMIUM)],
)
def test_the_example_numbers_of_a_kind_are_found_to_be_of_it(kind: int, finding: ReasonCode) -> None:
    examples = [phonenumbers.example_number_for_type(region, kind) for region in REGIONS]
    numbers = [
        number for number in examples if number is not None and phonenumbers.number_type(number) == kind
    ]
    written = [phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164) for number in numbers]

    assert len(written) > 20
    assert {examine_phone(number, None).findings for number in written} == {(finding,)}


def test_a_number_of_another_country_contradicts_the_partys() -> None:
    assert examine_phone("+442079460958", "NG").findings == (ReasonCode.PHONE_COUNTRY_MISMATCH,)
    assert examine_phone("+442079460958", None).findings == ()


def test_a_satellite_number_contradicts_no_country() -> None:
    assert examine_phone("+88216 00000000".replace(" ", ""), "NG") == examine_phone("+8821600000000", None)


@pytest.mark.parametrize(
    "number", ["", "12", "+", "08031234567", "+0", "+999123456789", "call me", "+1" * 400]
)
def test_what_is_no_number_of_any_plan_is_invalid(number: str) -> None:
    assert examine_phone(number, None) == ContactDetail((ReasonCode.PHONE_INVALID,))


@given(st.text(max_size=300), st.sampled_from([None, "NG", "US", "XX"]))
def test_any_text_given_as_a_number_gets_an_answer(text: str, country: str | None) -> None:
    found = examine_phone(text, country)

    assert (found.normalized is None) == (found.findings == (ReasonCode.PHONE_INVALID,))


@pytest.mark.parametrize(
    "address",
    [
        "amina@example.com", "AMINA@example.com", "amina+shop@example.com", "amina@EXAMPLE.com",
    ],
)  # fmt: skip
def test_spellings_of_one_mailbox_are_one_address(address: str) -> None:
    assert examine_email(address) == ContactDetail((), "amina@example.com")


@pytest.mark.parametrize("mailbox", ["+shop", "a.+shop"])
def test_what_is_no_mailbox_without_its_tag_keeps_it(mailbox: str) -> None:
    assert examine_email(f"{mailbox}@example.com") == ContactDetail((), f"{mailbox}@example.com")


def test_a_domain_is_the_same_in_unicode_and_in_ascii() -> None:
    assert examine_email("a.b@bücher.example") == examine_email("a.b@xn--bcher-kva.example")


@pytest.mark.parametrize(
    "address",
    [
        "", "@", "a", "a@", "@example.com", "a@b@example.com", "a..b@example.com", ".a@example.com",
        "a.@example.com", "a@example", "a@-example.com", "a@[127.0.0.1]", '"a b"@example.com',
        "a@exa mple.com", "a b@example.com", "a\n@example.com", "x" * 65 + "@example.com",
        "a@" + "x" * 64 + ".com", "a@" + ".".join(["x" * 63] * 4) + ".com",
    ],
)  # fmt: skip
def test_an_address_against_the_syntax_is_invalid(address: str) -> None:
    assert examine_email(address) == ContactDetail((ReasonCode.EMAIL_INVALID,))


@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_mailbox_of_a_role_is_found(role: str) -> None:
    assert examine_email(f"{role.title()}@example.com").findings == (ReasonCode.EMAIL_ROLE,)


@pytest.mark.parametrize("domain", ["mailinator.com", "inbox.mailinator.com", "MAILINATOR.com"])
def test_a_throw_away_domain_is_found_with_those_below_it(domain: str) -> None:
    assert examine_email(f"amina@{domain}").findings == (ReasonCode.EMAIL_DISPOSABLE,)
    assert examine_email(f"amina@{domain}.example.org").findings == ()


def test_a_list_of_the_tenants_own_replaces_the_packaged_domains() -> None:
    assert examine_email("amina@mailinator.com", {"example.com"}).findings == ()
    assert examine_email("amina@example.com", {"example.com"}).findings == (ReasonCode.EMAIL_DISPOSABLE,)
    assert len(DISPOSABLE_DOMAINS) > 5_000


@given(st.text(max_size=300))
def test_any_text_given_as_an_e_mail_address_gets_an_answer(text: str) -> None:
    found = examine_email(text)

    assert found.normalized is None or examine_email(found.normalized).normalized == found.normalized


@pytest.mark.parametrize(
    ("address", "country", "findings"),
    [
        ("12 Allen Avenue, Ikeja, Lagos, Nigeria", "NG", []),
        ("12 Allen Avenue\nIkeja\nLagos", "NG", []),
        ("Lagos, Nigeria", "NG", [ReasonCode.ADDRESS_INCOMPLETE]),
        ("12 Allen Avenue, Ikeja", None, [ReasonCode.ADDRESS_INCOMPLETE]),
        ("", "NG", [ReasonCode.ADDRESS_INCOMPLETE]),
        ("10 Downing Street, London SW1A 2AA, UK", "GB", []),
        ("10 Downing Street, London SW1A 2AA, UK", "NG", [ReasonCode.ADDRESS_COUNTRY_MISMATCH]),
        ("1 Peachtree Street, Atlanta, Georgia", "US", []),
        ("548 Market Street, San Francisco, CA 94104", "US", []),
        ("ул. Ленина 1, Симферополь, Крым", "UA", [ReasonCode.ADDRESS_SANCTIONED_TERRITORY]),
        ("ul. Lenina 1, Yalta, Republic of Crimea", "RU", [ReasonCode.ADDRESS_SANCTIONED_TERRITORY]),
        ("1 Yalta Street, Kyiv, Ukraine", "UA", []),
        ("Artema 1, 83000 Donetsk City, Ukraine", "UA", [ReasonCode.ADDRESS_SANCTIONED_TERRITORY]),
        ("Enghelab 1, Tehran, Iran", "IR", [ReasonCode.ADDRESS_SANCTIONED_TERRITORY]),
        ("Calle 23, La Habana", "CU", [ReasonCode.ADDRESS_SANCTIONED_TERRITORY]),
    ],
)  # fmt: skip
def test_an_address_is_examined_by_its_parts(
    address: str, country: str | None, findings: list[ReasonCode]
) -> None:
    assert list(examine_address(address, country).findings) == findings


@given(st.text(max_size=2_000), st.sampled_from([None, "NG", "GE"]))
def test_any_text_given_as_an_address_gets_an_answer(text: str, country: str | None) -> None:
    assert len(examine_address(text, country).findings) <= 3


@given(st.integers(min_value=0, max_value=10))
def test_a_detail_is_shared_from_the_third_other_subject_on(others: int) -> None:
    found = shared(ContactDetail((), "+2348031234567"), others, ReasonCode.PHONE_SHARED)

    assert (ReasonCode.PHONE_SHARED in found.findings) == (others >= SHARED_BY)
