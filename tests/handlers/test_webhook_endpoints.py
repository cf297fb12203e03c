"""Endpoints over every store: registered once, at most twenty, changed and rotated by several at a time."""

import asyncio
import base64
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.ids import PLATFORM, EndpointId, derive_id
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.webhooks import DisabledReason, EndpointHealth, StoredEndpoint
from streams.ports.errors import Erased
from streams.ports.records import Change, RecordKind
from streams.tenants.handler import RequestName
from streams.webhooks.endpoint_limit import MOST_ENDPOINTS
from streams.webhooks.records import ALL_TENANTS, endpoint_record, firing_index, health_record
from streams.webhooks.rules import MOST_SECRETS
from streams.webhooks.signing import open_secrets
from tests.builders import ACME, GLOBEX, NOW
from tests.contracts.adapters import MemoryBreaker, Opened
from tests.handlers.endpoint_stage import ACTOR, BOTH, OTHER_SECRET, SECRET, Stage, build_endpoint_command

FIRST = RequestName(derive_id("whe", "first"), "fingerprint")


@pytest.fixture
def stage(opened: Opened) -> Stage:
    """The use cases over every adapter in turn."""
    return Stage(opened.stores)


async def firing(stage: Stage, *, livemode: bool = True) -> list[str]:
    """The endpoints in force of a mode."""
    index = firing_index(livemode=livemode)
    page = await stage.stores.records.page(ACME, RecordKind.WEBHOOK_ENDPOINT, index, limit=100)
    return [record.id for record in page]


async def secrets_of(stage: Stage, endpoint_id: EndpointId) -> list[bytes]:
    """What signs now."""
    found = await stage.endpoints.find(ACME, endpoint_id, BOTH)
    return await open_secrets(stage.stores.vault, found.stored, stage.now)


async def test_a_new_endpoint_is_in_force_and_signs_with_its_secret(stage: Stage) -> None:
    made = await stage.create()

    assert await firing(stage) == [made.endpoint_id]
    assert await secrets_of(stage, made.endpoint_id) == [SECRET.encode()]
    assert await stage.actions() == ["webhook.created"]


async def test_the_url_is_kept_in_its_normal_form(stage: Stage) -> None:
    assert (await stage.create(url="https://Receiver.Example:443/a")).url == "https://receiver.example/a"


async def test_the_same_request_answers_the_first_whatever_became_of_it(stage: Stage) -> None:
    made = await stage.create(FIRST)
    await stage.change(made, description="changed")
    await stage.delete(made.endpoint_id)

    again = await stage.endpoints.create(ACME, build_endpoint_command(), FIRST, ACTOR)

    assert (again.endpoint, again.replayed) == (made, True)


async def test_of_many_equal_requests_at_once_one_makes_an_endpoint(stage: Stage) -> None:
    made = await asyncio.gather(
        *(stage.endpoints.create(ACME, build_endpoint_command(), FIRST, ACTOR) for _ in range(10))
    )

    assert sum(not one.replayed for one in made) == 1
    assert len({one.endpoint.to_bytes() for one in made}) == 1
    assert await stage.actions() == ["webhook.created"]


async def test_the_key_of_another_request_is_refused(stage: Stage) -> None:
    await stage.create(FIRST)

    with pytest.raises(Refused) as refused:
        await stage.create(replace(FIRST, fingerprint="of another body"))

    assert refused.value.refusal.code is ProblemCode.IDEMPOTENCY_KEY_REUSED


async def test_of_many_endpoints_at_once_twenty_are_made(stage: Stage) -> None:
    results = await asyncio.gather(*(stage.try_to_create() for _ in range(MOST_ENDPOINTS + 6)))

    assert sorted(set(results) - {*await firing(stage)}) == ["/url"]
    assert len(await firing(stage)) == MOST_ENDPOINTS
    assert len(await stage.actions()) == MOST_ENDPOINTS


async def test_endpoints_of_both_modes_count_and_another_tenants_do_not(stage: Stage) -> None:
    for number in range(MOST_ENDPOINTS):
        await stage.create(livemode=number % 2 == 0)

    assert await stage.try_to_create() == "/url"
    assert (await stage.create(tenant_id=GLOBEX)).active


async def test_a_deleted_endpoint_gives_its_place_back_once(stage: Stage) -> None:
    made = [await stage.create() for _ in range(MOST_ENDPOINTS)]
    await stage.delete(made[3].endpoint_id)

    assert (await stage.try_to_create()).startswith("whe_")
    assert await stage.try_to_create() == "/url"


async def test_an_endpoint_that_is_not_active_keeps_its_place(stage: Stage) -> None:
    made = [await stage.create() for _ in range(MOST_ENDPOINTS)]
    await stage.change(made[0], active=False)

    assert await stage.try_to_create() == "/url"


async def test_the_platform_finds_a_tenant_once_and_its_place_in_the_feed_stays(stage: Stage) -> None:
    await stage.create()
    [record] = await stage.stores.records.page(PLATFORM, RecordKind.WEBHOOK_TENANT, ALL_TENANTS, limit=10)
    moved = replace(record, body=b"somewhere", version=2)
    await stage.stores.journal.commit(Change(PLATFORM, (moved,)))
    await stage.create()

    listed = await stage.stores.records.page(PLATFORM, RecordKind.WEBHOOK_TENANT, ALL_TENANTS, limit=10)

    assert [(one.id, one.body) for one in listed] == [(ACME, b"somewhere")]


async def test_another_tenants_endpoint_is_not_there(stage: Stage) -> None:
    made = await stage.create()

    for asked in (
        stage.endpoints.find(GLOBEX, made.endpoint_id, BOTH),
        stage.endpoints.change(GLOBEX, made.endpoint_id, BOTH, {"active": False}, ACTOR),
        stage.endpoints.rotate(GLOBEX, made.endpoint_id, BOTH, OTHER_SECRET, timedelta(), ACTOR),
        stage.endpoints.delete(GLOBEX, made.endpoint_id, BOTH, ACTOR),
    ):
        with pytest.raises(NotFound):
            await asked


async def test_an_endpoint_of_the_other_mode_is_not_there(stage: Stage) -> None:
    made = await stage.create(livemode=True)

    with pytest.raises(NotFound):
        await stage.endpoints.delete(ACME, made.endpoint_id, (False,), ACTOR)


async def test_a_change_without_a_difference_writes_nothing(stage: Stage) -> None:
    made = await stage.create()

    await stage.change(made, active=True, url="https://RECEIVER.example/hooks")

    assert await stage.actions() == ["webhook.created"]


async def test_two_changes_at_once_both_come_to_be(stage: Stage) -> None:
    made = await stage.create()

    await asyncio.gather(stage.change(made, description="a"), stage.change(made, active=False))

    stored = await stage.stored(made)
    assert (stored.endpoint.description, stored.endpoint.active) == ("a", False)
    assert await firing(stage) == []


async def test_a_row_names_the_fields_and_neither_url_nor_secret(stage: Stage) -> None:
    made = await stage.create()
    await stage.change(made, url="https://receiver.example/token-in-the-path", active=False)
    await stage.rotate(made)

    rows = await stage.rows()

    assert rows[1].context["changes"] == {"fields": ["active", "url"]}
    assert not any("receiver.example" in row.model_dump_json() for row in rows)


async def test_an_endpoint_made_active_again_is_judged_anew(stage: Stage) -> None:
    made = await stage.create()
    stored = await stage.stored(made)
    gone = stored.endpoint.model_copy(update={"active": False, "disabled_reason": DisabledReason.GONE})
    disabled = stored.model_copy(update={"endpoint": gone})
    await stage.stores.journal.commit(Change(ACME, (endpoint_record(disabled, 2),)))
    stage.wait(days=1)

    again = await stage.change(made, active=True)

    assert (again.endpoint.active, again.endpoint.disabled_reason) == (True, None)
    assert again.judged_from == stage.now
    assert await firing(stage) == [made.endpoint_id]


async def test_an_endpoint_at_another_url_is_judged_anew(stage: Stage) -> None:
    made = await stage.create()
    stage.wait(hours=1)

    assert (await stage.change(made, url="https://other.example/")).judged_from == stage.now


async def test_a_change_that_leaves_it_where_it_is_does_not_change_how_it_is_judged(stage: Stage) -> None:
    made = await stage.create()
    stage.wait(hours=1)

    assert (await stage.change(made, description="a", active=True)).judged_from is None


async def test_the_last_success_is_that_of_its_health(stage: Stage) -> None:
    made = await stage.create()
    health = EndpointHealth(tenant_id=ACME, endpoint_id=made.endpoint_id, last_success_at=NOW)
    await stage.stores.journal.commit(Change(ACME, (health_record(health, NOW, 1),)))

    assert (await stage.endpoints.show(await stage.stored(made))).last_success_at == NOW


async def test_without_an_overlap_only_the_new_secret_signs(stage: Stage) -> None:
    made = await stage.create()

    await stage.rotate(made)

    assert await secrets_of(stage, made.endpoint_id) == [OTHER_SECRET.encode()]


async def test_the_former_secret_signs_until_the_overlap_ends(stage: Stage) -> None:
    made = await stage.create()
    rotated = await stage.rotate(made, overlap_s=60)

    assert rotated.endpoint.secret_rotated_at == stage.now
    stage.wait(seconds=59)
    assert await secrets_of(stage, made.endpoint_id) == [OTHER_SECRET.encode(), SECRET.encode()]
    stage.wait(seconds=1)
    assert await secrets_of(stage, made.endpoint_id) == [OTHER_SECRET.encode()]


async def test_a_second_rotation_does_not_shorten_the_first_overlap(stage: Stage) -> None:
    made = await stage.create()
    await stage.rotate(made, overlap_s=600)
    await stage.rotate(made, "a third secret of thirty characters", overlap_s=60)

    stage.wait(seconds=300)

    assert await secrets_of(stage, made.endpoint_id) == [
        b"a third secret of thirty characters", SECRET.encode()
    ]  # fmt: skip


async def test_a_rotation_beyond_the_bound_lets_the_oldest_secret_go(stage: Stage) -> None:
    made = await stage.create()
    for number in range(4):
        await stage.rotate(made, f"secret number {number} of some characters", overlap_s=600)

    signing = await secrets_of(stage, made.endpoint_id)

    assert [secret[:15] for secret in signing] == [b"secret number 3", b"secret number 2", b"secret number 1"]
    assert len(signing) == MOST_SECRETS


async def test_a_rotation_sent_again_changes_nothing(stage: Stage) -> None:
    made = await stage.create()

    first = await stage.rotate(made, overlap_s=60)
    again = await stage.rotate(made, overlap_s=60)

    assert again == first
    assert await stage.actions() == ["webhook.created", "webhook.rotated"]


async def test_a_deleted_endpoint_is_gone_and_its_secrets_forgotten(stage: Stage) -> None:
    made = await stage.create()

    await stage.delete(made.endpoint_id)

    with pytest.raises(NotFound):
        await stage.stored(made)
    assert await firing(stage) == []
    record = await stage.stores.records.get(ACME, RecordKind.WEBHOOK_ENDPOINT, made.endpoint_id)
    with pytest.raises(Erased):
        await open_secrets(stage.stores.vault, StoredEndpoint.from_bytes(record.first_body), stage.now)


async def test_deleting_again_changes_nothing(stage: Stage) -> None:
    made = await stage.create()

    await asyncio.gather(*(stage.delete(made.endpoint_id) for _ in range(5)))
    await stage.delete(made.endpoint_id)

    assert await stage.actions() == ["webhook.created", "webhook.deleted"]


async def test_a_rotation_while_the_endpoint_is_deleted_finds_it_or_does_not(stage: Stage) -> None:
    made = await stage.create()

    results = await asyncio.gather(
        *(stage.rotate(made, f"secret number {number} of some characters") for number in range(5)),
        stage.delete(made.endpoint_id),
        *(stage.rotate(made, f"secret number {number} of some characters") for number in range(5)),
        return_exceptions=True,
    )

    failed = [one for one in results if isinstance(one, BaseException)]
    assert [one for one in failed if not isinstance(one, NotFound)] == []
    with pytest.raises(NotFound):
        await stage.stored(made)


def lying_in(opened: Opened, folder: Path) -> bytes:
    """All that a store keeps on this machine's disk or in memory; Cassandra is another machine."""
    if isinstance(opened.breaker, MemoryBreaker):
        return repr(opened.breaker.shelves).encode()
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_s39_no_secret_lies_open_in_the_store(stage: Stage, opened: Opened, tmp_path: Path) -> None:
    made = await stage.create()
    await stage.rotate(made, "whsec_" + base64.b64encode(OTHER_SECRET.encode()).decode(), overlap_s=600)

    record = await stage.stores.records.get(ACME, RecordKind.WEBHOOK_ENDPOINT, made.endpoint_id)
    stored = lying_in(opened, tmp_path) + record.body + record.first_body
    assert made.endpoint_id.encode() in stored
    plain = [SECRET.encode(), OTHER_SECRET.encode()]
    assert [one for one in (*plain, *map(base64.b64encode, plain)) if one in stored] == []
