"""What only one of many at once may do, over every store: each looks for itself, and one record decides.

Behind the log one actor at a time has a key; here many have it, as for a moment after a rebalance.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from schemas.audit import AuditFilter
from schemas.enums import ActorType
from schemas.flows import EditFlow, FlowCommand, PublishFlow, StoredFlow
from schemas.ids import FlowId, ReviewCaseId, SubjectId, UserId, derive_id
from schemas.people import Role, SentActor
from schemas.problems import ProblemCode, Refused
from schemas.reviews import CaseChanged, CaseCommand, CaseOutcome, ConcludeCase
from streams.aggregate import retry_conflicts
from streams.catalog.handler import Catalogue
from streams.flows.handler import ChangeFlow
from streams.ports.records import RecordKind
from streams.reviews.dispositions import CaseDispositions
from streams.reviews.handler import ChangeCase
from streams.tenants.settings import read_settings
from streams.verification.policy import VerificationPolicy
from tests.builders import ACME
from tests.contracts.adapters import Opened
from tests.handlers.people_stage import staged
from tests.http.session_steps import draft_flow
from tests.http.support import HASHES, SCREENING, TEST, Front, Memory, Silence, build_body, now, open_front

SUBJECT = SubjectId("sim:review:FACE_MATCH_UNCERTAIN")
CONCLUDING = 50
PUBLISHING = 20
POSTING = 20


@pytest.fixture
async def front(opened: Opened) -> AsyncIterator[Front]:
    """A front over every adapter in turn."""
    async with open_front(stores=opened.stores) as served:
        yield served


def person(number: int) -> SentActor:
    """Somebody whose request is their own."""
    reviewer = derive_id("usr", str(number))
    return SentActor(actor_type=ActorType.REVIEWER, actor_id=reviewer, request_id=f"req-{number}")


async def count_rows(front: Front, action: str) -> int:
    """How many rows tell of an action."""
    return len(await front.stores.audit_log.page(ACME, AuditFilter(action=action), limit=100))


async def test_of_fifty_who_conclude_one_case_at_once_one_does(front: Front) -> None:
    stores = front.stores
    made = (await front.submit(build_body(SUBJECT), TEST)).json
    note = await stores.vault.seal(ACME, SUBJECT, "case-note", b"Seen.")
    leads = [(await front.sign_in(Role.COMPLIANCE_LEAD)).member.reviewer_id for _ in range(CONCLUDING)]

    async def conclude(number: int) -> CaseChanged:
        actor = person(number).model_copy(update={"actor_id": leads[number]})
        command = ConcludeCase(
            tenant_id=ACME, review_case_id=ReviewCaseId(made["review_case_id"]), actor=actor,
            requested_at=now(), reviewer_id=leads[number], may_overturn=True,
            outcome=CaseOutcome.APPROVE if number % 2 else CaseOutcome.REJECT, sealed_note=note,
        )  # fmt: skip
        change = ChangeCase(
            stores, VerificationPolicy(), lambda tenant: read_settings(stores.records, tenant), now, Memory(),
            Silence(), CaseDispositions(stores, SCREENING, HASHES),
        )  # fmt: skip
        return await change(CaseCommand(command))

    results = await asyncio.gather(*map(conclude, range(CONCLUDING)), return_exceptions=True)

    refused = [one.refusal.code for one in results if isinstance(one, Refused)]
    assert sum(isinstance(one, CaseChanged) for one in results) == 1
    assert refused == [ProblemCode.CASE_ALREADY_CONCLUDED] * (CONCLUDING - 1)
    assert await count_rows(front, "case.concluded") == 1


async def test_twenty_publishes_at_once_number_without_gaps(front: Front) -> None:
    """A handler gives up after so many conflicts; like its guard, the test then gives the command again."""
    stores, flow_id = front.stores, FlowId(await draft_flow(await front.sign_in()))
    catalogue = Catalogue(stores.records, stores.journal.commit, now)

    async def edit_and_publish(number: int) -> None:
        change = ChangeFlow(stores, catalogue, now, Memory(), Silence())
        common = {"tenant_id": ACME, "flow_id": flow_id, "requested_at": now()}
        edit = EditFlow(
            **common, actor=person(number), changes={"return_url": f"https://shop.example/{number}"}
        )
        await retry_conflicts(lambda: change(FlowCommand(edit)))
        publish = PublishFlow(
            **common, actor=person(PUBLISHING + number), reviewer_id=UserId(derive_id("usr", str(number)))
        )
        await retry_conflicts(lambda: change(FlowCommand(publish)))

    await asyncio.gather(*map(edit_and_publish, range(PUBLISHING)))

    flow = StoredFlow.from_bytes((await stores.records.get(ACME, RecordKind.FLOW, flow_id)).body).flow
    numbers = await revisions(front, flow_id)
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert flow.published_revision == len(numbers) > 0
    assert await count_rows(front, "flow.published") == len(numbers)


async def revisions(front: Front, flow_id: FlowId) -> list[int]:
    """The numbers of the flow's revisions, however many pages."""
    owner = await front.sign_in()
    listed = (await owner.ask("GET", f"/v1/verification-flows/{flow_id}/revisions?limit=100")).json
    return [one["revision"] for one in listed["revisions"]]


async def test_s19_of_twenty_posts_of_one_code_at_once_one_is_accepted(opened: Opened) -> None:
    async with staged(opened.stores) as stage:
        await stage.add()
        seed, _, _ = await stage.enrol(await stage.enter())
        callers = [await stage.enter(address=f"192.0.2.{number}") for number in range(4)]
        posts = [stage.verify_factor(callers[number % 4], stage.code(seed)) for number in range(POSTING)]

        results = await asyncio.gather(*posts, return_exceptions=True)

        assert sum(not isinstance(one, BaseException) for one in results) == 1
        assert sum(isinstance(one, Refused) for one in results) == POSTING - 1
        assert (await stage.actions()).count("mfa.verified") == 1
