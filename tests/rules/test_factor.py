"""One-time codes against their RFCs, a second reading of them and the clock (G28, S19, S20, S23)."""

import base64
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest

from streams.sign_in.totp import (
    RECOVERY_CODES,
    SEED_BYTES,
    accepted_step,
    code_of,
    draw_recovery_codes,
    normal_recovery_code,
    otpauth_uri,
    step_of,
    without_code,
)

RFC_SEED = b"12345678901234567890"
START = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("counter", "code"),
    [*enumerate(["755224", "287082", "359152", "969429", "338314", "254676",
        "287922", "162583", "399871", "520489"])],
)  # fmt: skip
def test_codes_are_those_of_rfc_4226(counter: int, code: str) -> None:
    assert code_of(RFC_SEED, counter) == code


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (59, "287082"), (1111111109, "081804"), (1111111111, "050471"), (1234567890, "005924"),
        (2000000000, "279037"), (20000000000, "353130"),
    ],
)  # fmt: skip
def test_codes_are_those_of_rfc_6238(at: int, code: str) -> None:
    assert code_of(RFC_SEED, step_of(datetime.fromtimestamp(at, UTC))) == code


def rfc_code(seed: bytes, at: datetime) -> str:
    """The code of a moment as RFC 4226 section 5.3 and RFC 6238 section 4 say it, step by step."""
    counter = int(at.timestamp()) // 30
    digest = hmac.digest(seed, counter.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0x0F
    truncated = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{truncated % 1_000_000:06}"


def test_a_second_reading_of_the_rfcs_agrees() -> None:
    seed = secrets.token_bytes(SEED_BYTES)
    moments = [START + timedelta(seconds=7 * number) for number in range(200)]

    assert [code_of(seed, step_of(at)) for at in moments] == [rfc_code(seed, at) for at in moments]


def test_an_authenticator_reads_the_address() -> None:
    seed = secrets.token_bytes(SEED_BYTES)
    read = pyotp.parse_uri(otpauth_uri(seed, "ada+x@acme.example"))

    assert isinstance(read, pyotp.TOTP)
    assert (read.name, read.issuer, read.digits, read.interval) == ("ada+x@acme.example", "Veristream", 6, 30)
    assert read.at(START) == code_of(seed, step_of(START))


def test_the_secret_is_160_bits_in_base32_without_padding() -> None:
    uri = otpauth_uri(RFC_SEED, "a@b.example")
    secret = parse_qs(urlsplit(uri).query)["secret"][0]

    assert len(base64.b32decode(secret)) * 8 == 160
    assert "=" not in secret


@pytest.mark.parametrize(
    ("seconds", "drift", "accepted"),
    [
        (0, 0, True), (29, 0, True), (30, 0, False), (31, 0, False), (-1, 0, False), (-29, 0, False),
        (-31, 0, False), (29, 1, True), (31, 1, True), (59, 1, True), (60, 1, False),
        (-1, 1, True), (-29, 1, True), (-31, 1, False),
    ],
)  # fmt: skip
def test_s20_a_code_lives_as_long_as_the_drift_allows(seconds: int, drift: int, *, accepted: bool) -> None:
    code, at = code_of(RFC_SEED, step_of(START)), START + timedelta(seconds=seconds)

    assert (accepted_step(RFC_SEED, code, at, drift_steps=drift, after=0) is not None) is accepted


def test_s19_a_used_step_or_an_older_one_is_refused() -> None:
    present = step_of(START)
    codes = {step: code_of(RFC_SEED, step) for step in range(present - 1, present + 2)}
    taken = {
        step: accepted_step(RFC_SEED, code, START, drift_steps=1, after=present)
        for step, code in codes.items()
    }

    assert taken == {present - 1: None, present: None, present + 1: present + 1}


@pytest.mark.parametrize("code", ["", "00000", "0000000", "abcdef", "١٢٣٤٥٦"])
def test_what_is_no_code_is_no_step(code: str) -> None:
    assert accepted_step(RFC_SEED, code, START, drift_steps=1, after=0) is None


def test_s23_ten_recovery_codes_of_120_bits_are_drawn() -> None:
    codes = draw_recovery_codes(secrets.token_bytes)

    assert len(set(codes)) == RECOVERY_CODES == 10
    assert {len(code.replace("-", "")) * 5 for code in codes} == {120}


def test_a_recovery_code_is_the_same_however_it_is_typed() -> None:
    assert normal_recovery_code("O1Il-abcd EFGH") == normal_recovery_code("0111abcdefgh")


def test_s23_a_recovery_code_is_used_up() -> None:
    left = without_code(("a", "b", "c"), "b")

    assert left == ("a", "c")
    assert without_code(left, "b") is None
