"""Issue 13.7: the sender of webhooks holds a key of its own, which opens endpoints' secrets alone."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from app.adapters.security.crypto import (
    RECORDS,
    SENDER_LABELS,
    Purpose,
    RootKey,
    RootKeyRefused,
    SenderKey,
    chain_key_of,
)
from app.adapters.sqlite.stores import open_sqlite_stores
from app.composition.stores import keys_of
from app.settings import Settings, SettingsRefused
from schemas.ids import EndpointId, SubjectId, derive_id
from schemas.topics import Topic
from schemas.webhooks import SealedSecret
from streams.audit.rules import chain_key
from streams.ports.errors import KeyUnavailable
from streams.runtime.authentication import RecordKeys, Unauthentic
from streams.runtime.message import Delivery
from streams.webhooks.signing import open_secrets, seal_secret
from tests.builders import ACME, NOW, build_endpoint
from tests.journeys.service import run_preloaded

ROOT = RootKey(hashlib.sha256(b"a root key of a test").digest())
SENDER = ROOT.sender_key()
SECRET = "a secret of the tenant's receiver"  # noqa: S105 - of nobody
SUBJECT = SubjectId("ada")

FOREIGN = [purpose for purpose in Purpose if purpose not in SENDER_LABELS] + [
    RECORDS + topic
    for topic in (
        Topic.VERIFICATION_COMMANDS, Topic.FLOW_COMMANDS, Topic.POLICY_COMMANDS, Topic.SESSION_COMMANDS,
        Topic.REVIEW_COMMANDS,
        Topic.REPLIES,
    )
]  # fmt: skip


def test_a_sender_derives_what_the_root_key_derives_for_it() -> None:
    assert {label: SENDER.derive(label) for label in SENDER_LABELS} == {
        label: ROOT.derive(label) for label in SENDER_LABELS
    }
    assert len({ROOT.derive(label) for label in [*SENDER_LABELS, *FOREIGN]}) == len(SENDER_LABELS) + len(
        FOREIGN
    )


@pytest.mark.parametrize("label", FOREIGN)
def test_a_sender_derives_no_key_of_others(label: str) -> None:
    with pytest.raises(KeyUnavailable):
        SENDER.derive(label)


def test_a_stolen_sender_key_signs_no_command() -> None:
    """Deriving past the list with the sender's bytes gives another key than the deployment's."""
    topic = Topic.REVIEW_COMMANDS
    thief = RecordKeys(RootKey(SENDER.secret).derive)
    name, code = thief.sign(topic, 0, b"key", b"{}", (), 0)

    with pytest.raises(Unauthentic):
        RecordKeys(ROOT.derive).check(Delivery(topic, 0, 0, b"key", b"{}", {name: code}))


async def test_a_sender_opens_endpoints_secrets_and_no_subjects(tmp_path: Path) -> None:
    endpoint = EndpointId(derive_id("whe", "of", "acme"))
    async with open_sqlite_stores(tmp_path, ROOT, durable=False) as stores:
        sealed = await seal_secret(stores.vault, ACME, endpoint, SECRET)
        personal = await stores.vault.seal(ACME, SUBJECT, "address", b"1 Marina, Lagos")

    async with open_sqlite_stores(tmp_path, SENDER, durable=False) as stores:
        stored = build_endpoint((SealedSecret(sealed=sealed),), endpoint_id=endpoint)
        assert await open_secrets(stores.vault, stored, NOW) == [SECRET.encode()]
        with pytest.raises(KeyUnavailable):
            await stores.vault.open(ACME, SUBJECT, "address", personal)
    with pytest.raises(KeyUnavailable):
        chain_key(chain_key_of(SENDER), ACME)


async def test_a_sender_key_of_another_deployment_is_refused_at_start(tmp_path: Path) -> None:
    async with open_sqlite_stores(tmp_path, ROOT, durable=False):
        pass

    with pytest.raises(RootKeyRefused):
        async with open_sqlite_stores(tmp_path, SenderKey(bytes(32)), durable=False):
            pass


async def test_both_keys_at_once_are_refused(given: Callable[..., Settings]) -> None:
    with pytest.raises(SettingsRefused, match="SERVICE_SENDER_KEY"):
        await keys_of(given(root_key=ROOT.secret.hex(), sender_key=SENDER.secret.hex()))


@pytest.fixture
def given(tmp_path: Path) -> Callable[..., Settings]:
    """Settings of a folder of its own."""
    return lambda **more: Settings(data_dir=tmp_path, **more)


@pytest.mark.parametrize("role", [("worker", "--streams", "reviews"), ("front", "--port", "0")])
async def test_a_role_that_needs_the_root_key_does_not_start_with_the_senders(
    tmp_path: Path, role: tuple[str, ...]
) -> None:
    result = {"SERVICE_SENDER_KEY": SENDER.secret.hex(), "SERVICE_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    status, _, said = await run_preloaded(tmp_path, *role, given=result)

    assert status != 0
    assert "SERVICE_ROOT_KEY" in said, said
    assert "Traceback" not in said


async def test_the_command_prints_the_derived_key_and_makes_no_root_key(tmp_path: Path) -> None:
    missing, _, said = await run_preloaded(tmp_path, "sender-key")
    result = {"SERVICE_ROOT_KEY": ROOT.secret.hex()}
    _, printed, _ = await run_preloaded(tmp_path, "sender-key", given=result)

    assert (missing, "SERVICE_ROOT_KEY_FILE" in said, (tmp_path / "root.key").exists()) == (2, True, False)
    assert await keys_of(Settings(data_dir=tmp_path, sender_key=printed.strip())) == SENDER
