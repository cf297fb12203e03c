"""What the root key, the keys under it and the seals promise."""

import base64
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.security.crypto import Purpose, RootKey, RootKeyRefused, bind, load_root_key, seal, unseal
from app.adapters.security.keyring import TOMBSTONE, KeyRing
from schemas.ids import SubjectId
from streams.ports.errors import Damaged, Erased
from tests.builders import ACME, GLOBEX, SUBJECT
from tests.contracts.adapters import ROOT_KEY

SECRET = hashlib.sha256(b"a root key of the tests").digest()


@pytest.mark.parametrize(
    "text",
    [
        SECRET.hex(),
        SECRET.hex().upper(),
        base64.b64encode(SECRET).decode(),
        base64.b64encode(SECRET).decode().rstrip("="),
        f"  {SECRET.hex()}\n",
    ],
)
def test_a_configured_key_is_hexadecimal_or_base64(text: str, tmp_path: Path) -> None:
    assert load_root_key(SecretStr(text), tmp_path / "root.key") == RootKey(SECRET)


def test_a_configured_key_may_be_base64_for_addresses(tmp_path: Path) -> None:
    secret = b"\xff\xfb\xff\xfb" + SECRET[4:]

    text = base64.urlsafe_b64encode(secret).decode()

    assert load_root_key(SecretStr(text), tmp_path / "root.key") == RootKey(secret)


def test_a_configured_key_makes_no_file(tmp_path: Path) -> None:
    load_root_key(SecretStr(SECRET.hex()), tmp_path / "root.key")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "short", SECRET.hex()[:-1], "zz" * 32, "é" * 43, "A" * 44, "====", "0" * 65]
)
def test_a_malformed_key_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(RootKeyRefused, match="SERVICE_ROOT_KEY is not 32 bytes"):
        load_root_key(SecretStr(text), tmp_path / "root.key")


def test_a_refusal_does_not_repeat_the_key(tmp_path: Path) -> None:
    with pytest.raises(RootKeyRefused) as refused:
        load_root_key(SecretStr("a secret mistyped"), tmp_path / "root.key")

    assert "mistyped" not in str(refused.value)


def test_a_root_key_does_not_show_itself() -> None:
    assert repr(RootKey(SECRET)) == "RootKey()"


def test_the_first_start_makes_a_key_that_stays(tmp_path: Path) -> None:
    made = load_root_key(None, tmp_path / "new" / "root.key")

    assert load_root_key(None, tmp_path / "new" / "root.key") == made


def test_the_made_key_is_its_owners_alone(tmp_path: Path) -> None:
    load_root_key(None, tmp_path / "root.key")

    assert [path.name for path in tmp_path.iterdir()] == ["root.key"]
    assert (tmp_path / "root.key").stat().st_mode & 0o777 == 0o600


def test_starts_at_the_same_time_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as starters:
        made = list(starters.map(lambda _: load_root_key(None, tmp_path / "root.key"), range(32)))

    assert len(set(made)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    load_root_key(None, tmp_path / "root.key")
    (tmp_path / "root.key").chmod(mode)

    with pytest.raises(RootKeyRefused, match="chmod 600"):
        load_root_key(None, tmp_path / "root.key")


@pytest.mark.parametrize("content", [b"", b"\xff" * 32, b"rubbish", b"AA==" * 99])
def test_a_malformed_key_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "root.key").write_bytes(content)
    (tmp_path / "root.key").chmod(0o600)

    with pytest.raises(RootKeyRefused, match=r"root\.key is not 32 bytes"):
        load_root_key(None, tmp_path / "root.key")


def test_a_lost_key_beside_data_is_refused_not_replaced(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).touch()

    with pytest.raises(RootKeyRefused, match="put the key back"):
        load_root_key(None, tmp_path / "root.key")

    assert not (tmp_path / "root.key").exists()


def test_a_key_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    load_root_key(None, tmp_path / "elsewhere")
    (tmp_path / "root.key").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(RootKeyRefused, match="cannot be used"):
        load_root_key(None, tmp_path / "root.key")


def test_each_purpose_has_its_own_key() -> None:
    derived = {ROOT_KEY.derive(purpose) for purpose in Purpose} | {ROOT_KEY.secret}

    assert len(derived) == len(Purpose) + 1
    assert {len(key) for key in derived} == {32}


def test_a_derived_key_is_the_same_every_time() -> None:
    assert RootKey(SECRET).derive(Purpose.CURSORS) == RootKey(SECRET).derive("cursors")


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_no_two_lists_of_parts_are_bound_alike(one: list[str], other: list[str]) -> None:
    assert (bind(*one) == bind(*other)) == (one == other)


def test_no_nonce_is_used_twice() -> None:
    cipher = AESGCM(SECRET)

    nonces = {seal(cipher, b"", b"")[1:13] for _ in range(5_000)}

    assert len(nonces) == 5_000


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_a_seal_opens_with_what_it_was_bound_to(plain: bytes, bound: bytes) -> None:
    cipher = AESGCM(SECRET)

    assert unseal(cipher, seal(cipher, plain, bound), bound) == plain


@given(st.binary(max_size=80))
def test_no_bytes_open_by_chance(rubbish: bytes) -> None:
    with pytest.raises(Damaged):
        unseal(AESGCM(SECRET), rubbish, b"")


def test_a_seal_of_an_unknown_version_is_damaged() -> None:
    cipher = AESGCM(SECRET)

    with pytest.raises(Damaged):
        unseal(cipher, b"\x02" + seal(cipher, b"plain", b"")[1:], b"")


@pytest.fixture
def ticks() -> Iterator[float]:
    """A clock that goes on by a second whenever it is read."""
    return iter(map(float, range(1_000)))


def test_a_wrapped_key_unwraps_under_the_same_root_alone() -> None:
    wrapped = KeyRing(ROOT_KEY).make(ACME, SUBJECT).wrapped

    assert KeyRing(ROOT_KEY).unwrap(ACME, SUBJECT, wrapped).wrapped == wrapped
    with pytest.raises(Damaged):
        KeyRing(RootKey(bytes(32))).unwrap(ACME, SUBJECT, wrapped)


@pytest.mark.parametrize("owner", [(GLOBEX, SUBJECT), (ACME, SubjectId("somebody-else"))])
def test_a_wrapped_key_is_its_subjects_alone(owner: tuple[str, SubjectId]) -> None:
    wrapped = KeyRing(ROOT_KEY).make(ACME, SUBJECT).wrapped

    with pytest.raises(Damaged):
        KeyRing(ROOT_KEY).unwrap(type(ACME)(owner[0]), owner[1], wrapped)


def test_a_tombstone_has_the_length_of_a_wrapped_key() -> None:
    assert len(TOMBSTONE) == len(KeyRing(ROOT_KEY).make(ACME, SUBJECT).wrapped)


def test_a_made_key_is_not_remembered_before_it_is_kept() -> None:
    ring = KeyRing(ROOT_KEY)
    ring.make(ACME, SUBJECT)

    assert ring.recall(ACME, SUBJECT) is None


def test_a_remembered_key_is_used_while_it_is_fresh(ticks: Iterator[float]) -> None:
    ring = KeyRing(ROOT_KEY, fresh_s=2.5, clock=lambda: next(ticks))
    ring.remember(ring.make(ACME, SUBJECT))

    assert [ring.recall(ACME, SUBJECT) is not None for _ in range(4)] == [True, True, False, False]


def test_the_ring_forgets_the_keys_used_longest_ago() -> None:
    ring = KeyRing(ROOT_KEY, capacity=3)
    subjects = [SubjectId(str(n)) for n in range(5)]
    for subject in subjects:
        ring.remember(ring.make(ACME, subject))

    assert [ring.recall(ACME, subject) is not None for subject in subjects] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_a_key_known_to_be_destroyed_is_never_remembered_again() -> None:
    ring = KeyRing(ROOT_KEY)
    key = ring.make(ACME, SUBJECT)
    ring.bury(ACME, SUBJECT)

    ring.remember(key)

    with pytest.raises(Erased):
        ring.recall(ACME, SUBJECT)


def test_a_replaced_wrapped_key_is_unwrapped_anew() -> None:
    ring = KeyRing(ROOT_KEY)
    keys = [ring.make(ACME, SUBJECT) for _ in range(3)]

    unwrapped = [ring.unwrap(ACME, SUBJECT, key.wrapped).seal("n", "K", b"plain") for key in keys]

    assert [key.open("n", "K", sealed) for key, sealed in zip(keys, unwrapped, strict=True)] == [b"plain"] * 3
    for (one, _), (_, sealed) in pairwise(zip(keys, unwrapped, strict=True)):
        with pytest.raises(Damaged):
            one.open("n", "K", sealed)
