"""How an API key is written, read and judged, on paper."""

from datetime import timedelta
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.access import ApiKey
from schemas.enums import Scope
from schemas.problems import Unauthenticated
from streams.tenants.rules import BASE62, PresentedKey, admit, hash_key, read_key, write_key
from tests.builders import ACME, KEY, NOW, build_api_key

PEPPER = b"pepper of a test"
WRITTEN = write_key(livemode=True, prefix_entropy=bytes(range(10)), secret=bytes(range(32)))


def stored(**changes: object) -> ApiKey:
    """The key as it is kept."""
    return build_api_key(**{"prefix": WRITTEN.prefix, "secret_hash": hash_key(WRITTEN, PEPPER)} | changes)


def test_a_key_says_its_mode_its_prefix_and_nothing_more() -> None:
    assert WRITTEN.text.startswith("idv_live_0123456789_")
    assert len(WRITTEN.text) == len("idv_live_") + 10 + 1 + 43 + 6


def test_a_test_key_says_so() -> None:
    written = write_key(livemode=False, prefix_entropy=bytes(10), secret=bytes(32))

    assert written.text.startswith("idv_test_")


@given(st.booleans(), st.binary(min_size=10, max_size=10), st.binary(min_size=32, max_size=32))
def test_a_written_key_reads_back(livemode: bool, entropy: bytes, secret: bytes) -> None:  # noqa: FBT001 - drawn
    written = write_key(livemode=livemode, prefix_entropy=entropy, secret=secret)

    assert read_key(written.text) == written


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_other_secrets_make_other_keys(one: bytes, other: bytes) -> None:
    keys = {write_key(livemode=True, prefix_entropy=bytes(10), secret=secret).text for secret in (one, other)}

    assert len(keys) == len({one, other})


@pytest.mark.parametrize(("entropy", "secret"), [(bytes(9), bytes(32)), (bytes(10), bytes(31))])
def test_s29_a_key_is_never_made_of_less_randomness(entropy: bytes, secret: bytes) -> None:
    with pytest.raises(ValueError, match="random"):
        write_key(livemode=True, prefix_entropy=entropy, secret=secret)


@given(st.integers(0, len(WRITTEN.text) - 1), st.sampled_from(BASE62 + "_-"))
def test_s29_any_mistyped_character_is_noticed_offline(place: int, character: str) -> None:
    mistyped = WRITTEN.text[:place] + character + WRITTEN.text[place + 1 :]
    if mistyped == WRITTEN.text:
        return

    with pytest.raises(Unauthenticated):
        read_key(mistyped)


@given(st.text(max_size=90))
def test_no_text_breaks_the_reader(text: str) -> None:
    with pytest.raises(Unauthenticated):
        read_key(text)


@pytest.mark.parametrize("around", [" {}", "{} ", "{}\n", "Bearer {}", "{}0"])
def test_nothing_may_stand_around_a_key(around: str) -> None:
    with pytest.raises(Unauthenticated):
        read_key(around.format(WRITTEN.text))


def test_a_presented_key_does_not_show_itself() -> None:
    assert WRITTEN.text not in repr(WRITTEN)


def test_the_hash_needs_the_pepper() -> None:
    assert hash_key(WRITTEN, PEPPER) != hash_key(WRITTEN, b"another pepper")


def test_the_hash_covers_the_whole_text() -> None:
    other = PresentedKey(WRITTEN.prefix, livemode=False, text=WRITTEN.text.replace("live", "test"))

    assert hash_key(WRITTEN, PEPPER) != hash_key(other, PEPPER)


def judge(key: ApiKey | None, address: str | None = None, after: timedelta = timedelta()) -> ApiKey | None:
    """The key when it is admitted."""
    caller = admit(key, hash_key(WRITTEN, PEPPER), address, NOW + after)
    assert key is not None
    assert (caller.tenant_id, caller.key_id, caller.livemode) == (ACME, KEY, key.livemode)
    assert caller.scopes == frozenset(key.scopes)
    return key


def test_a_good_key_is_its_tenant_with_its_scopes() -> None:
    assert judge(stored(scopes=(Scope.AUDIT_READ,), livemode=False))


@pytest.mark.parametrize(
    "key", [None, stored(secret_hash="0" * 64), stored(revoked_at=NOW), stored(expires_at=NOW)]
)
def test_a_key_that_is_unknown_wrong_revoked_or_expired_is_not_accepted(key: ApiKey | None) -> None:
    with pytest.raises(Unauthenticated):
        judge(key)


def test_every_refusal_says_the_same() -> None:
    said = set()
    for key in (None, stored(secret_hash="0" * 64), stored(revoked_at=NOW), stored(expires_at=NOW)):
        with pytest.raises(Unauthenticated) as refused:
            judge(key)
        said.add(str(refused.value))

    assert len(said) == 1


def test_a_key_is_good_until_the_moment_it_expires() -> None:
    key = stored(expires_at=NOW + timedelta(seconds=1))

    assert judge(key, after=timedelta(milliseconds=999))
    with pytest.raises(Unauthenticated):
        judge(key, after=timedelta(seconds=1))


BOUND = stored(allowed_cidrs=(ip_network("203.0.113.0/24"), ip_network("2001:db8::/32")))


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::1", "::ffff:203.0.113.7"])
def test_a_bound_key_is_good_from_its_networks(address: str) -> None:
    assert judge(BOUND, address)


@pytest.mark.parametrize(
    "address", ["203.0.114.7", "2001:db9::1", "::ffff:203.0.114.7", None, "", "nonsense"]
)
def test_a_bound_key_is_good_from_nowhere_else(address: str | None) -> None:
    with pytest.raises(Unauthenticated):
        judge(BOUND, address)


def test_a_key_without_networks_is_good_from_anywhere() -> None:
    assert judge(stored(), None)
