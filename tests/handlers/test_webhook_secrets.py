"""Signing secrets are kept sealed, and signed with for as long as they are in force."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from schemas.ids import EndpointId
from schemas.webhooks import SealedSecret
from streams.ports.errors import Damaged
from streams.ports.evidence import Vault
from streams.webhooks.signing import open_secrets, seal_secret
from tests.builders import ACME, NOW, build_endpoint

NEW, OLD = "new-secret-of-the-tenant-1", "old-secret-of-the-tenant-2"
ENDPOINT = build_endpoint().endpoint.endpoint_id


@dataclass
class Stored:
    """A vault, and an endpoint whose secret is being rotated."""

    vault: Vault
    new: SealedSecret
    old: SealedSecret


@pytest.fixture
async def stored() -> Stored:
    """Two secrets; the old one signs for an hour more."""
    vault = open_memory_stores(RootKey(bytes(32))).vault
    new, old = [await seal_secret(vault, ACME, ENDPOINT, text) for text in (NEW, OLD)]
    ends_at = NOW + timedelta(hours=1)
    return Stored(vault, SealedSecret(sealed=new), SealedSecret(sealed=old, ends_at=ends_at))


async def test_both_secrets_sign_during_a_rotation(stored: Stored) -> None:
    """G54: the one in force first."""
    endpoint = build_endpoint((stored.new, stored.old))

    assert await open_secrets(stored.vault, endpoint, NOW) == [NEW.encode(), OLD.encode()]


async def test_the_former_secret_ends_with_its_overlap(stored: Stored) -> None:
    """From its last moment on it signs no more."""
    endpoint = build_endpoint((stored.new, stored.old))

    assert await open_secrets(stored.vault, endpoint, NOW + timedelta(hours=1)) == [NEW.encode()]


async def test_a_sealed_secret_does_not_show_it(stored: Stored) -> None:
    """S39."""
    assert NEW not in stored.new.sealed


async def test_a_secret_sealed_for_one_endpoint_opens_for_no_other(stored: Stored) -> None:
    """A row copied to another endpoint signs nothing."""
    other = build_endpoint((stored.new,), endpoint_id=EndpointId("whe_other"))

    with pytest.raises(Damaged):
        await open_secrets(stored.vault, other, NOW)
