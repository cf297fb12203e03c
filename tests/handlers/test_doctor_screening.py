"""What `veristream doctor` says of lists and policies: age, failed replacements, texts that load no more."""

from datetime import date
from typing import Final

from app.adapters.memory.stores import open_memory_stores
from app.doctor.running_service import Finding
from app.doctor.screening import NO_LISTS, check_screening
from schemas.enums import CheckKind
from schemas.ids import PLATFORM, TenantId
from schemas.lists import ListKind
from schemas.policy_records import PublishedRevision, StoredPolicy, StoredText
from schemas.tenant_lists import StoredList, StoredLists
from streams.lists.storage import LISTS_ID
from streams.policies.reading.document import POLICY
from streams.policies.storage import revision_id
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.tenants.handler import TENANTS_INDEX
from tests.builders import ACME, GLOBEX, NOW, build_tenant
from tests.contracts.adapters import ROOT_KEY

UN: Final = StoredList(
    name="un_sc_sanctions", kind=ListKind.NAMES, check=CheckKind.SANCTIONS, entries=1002,
    sha256="5f2b9c1e" * 8, source_date=date(2026, 3, 1), loaded_at=NOW, place="x", parts=1,
)  # fmt: skip


async def store(stores: Stores, *records: Record) -> None:
    """Commit records, each alone."""
    for record in records:
        await stores.journal.commit(Change(record.tenant_id, (record,)))


async def store_tenants(stores: Stores) -> None:
    """Create two tenants."""
    for tenant_id in (ACME, GLOBEX):
        body = build_tenant(tenant_id=tenant_id).to_bytes()
        await store(
            stores, Record(PLATFORM, RecordKind.TENANT, tenant_id, body, NOW, indexes=(TENANTS_INDEX,))
        )


async def store_lists(stores: Stores, *lists: StoredList) -> None:
    """Store the deployment's lists."""
    body = StoredLists(lists=lists).to_bytes()
    await store(stores, Record(PLATFORM, RecordKind.LISTS, LISTS_ID, body, NOW))


async def publish(stores: Stores, tenant_id: TenantId, text: bytes) -> None:
    """Store a published revision, whether its text loads or not."""
    published = PublishedRevision(revision=2, sha256="0" * 64, published_at=NOW, published_by="usr_x")
    revision = StoredText(text=text, revision=published).to_bytes()
    await store(
        stores,
        Record(tenant_id, RecordKind.POLICY, POLICY, StoredPolicy(published=published).to_bytes(), NOW),
        Record(tenant_id, RecordKind.POLICY_REVISION, revision_id(POLICY, 2), revision, NOW),
    )


async def checked(stores: Stores) -> dict[str, Finding]:
    """Return the findings by what was looked at."""
    return {one.looked_at: one for one in await check_screening(stores)}


async def test_a_new_deployment_reads_that_no_list_is_loaded() -> None:
    stores = open_memory_stores(ROOT_KEY)
    await store_tenants(stores)

    found = await checked(stores)

    assert (found["lists"].ok, found["lists"].found) == (True, NO_LISTS)
    assert (found["policies"].ok, found["policies"].found) == (True, "those of 2 tenants load")


async def test_a_list_has_its_version_and_why_it_could_not_be_replaced() -> None:
    stores = open_memory_stores(ROOT_KEY)
    await store_lists(stores, UN, UN.model_copy(update={"name": "ofac", "problem": "it is half a file"}))

    lists = (await checked(stores))["lists"]

    assert "un_sc_sanctions 2026-03-01#5f2b9c1e (1002 entries)" in lists.found
    assert "not replaced: ofac: it is half a file" in lists.found
    assert (lists.ok, "veristream lists load" in (lists.fix or "")) == (False, True)


async def test_a_tenant_whose_policy_loads_no_more_is_named() -> None:
    stores = open_memory_stores(ROOT_KEY)
    await store_tenants(stores)
    await publish(stores, GLOBEX, b"policy: transactions\nchecks: [{check: OF_LAST_YEAR}]\n")

    policies = (await checked(stores))["policies"]

    assert (policies.ok, policies.found) == (False, f"no longer loads: {GLOBEX}")
    assert "veristream policy publish" in (policies.fix or "")
