"""S62: a front whose places are taken says when to come back, before it decodes or stores anything."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schemas.ids import TenantId
from tests.builders import ACME
from tests.http.support import FOREIGN, Front, build_body, open_front

CUSTOMER = build_body("customer-1")
"""A request that needs the models."""

DECISION_S = 100.0


@asynccontextmanager
async def busy_front(tenant_id: TenantId = ACME) -> AsyncIterator[Front]:
    """A front with one place, which a verification of a tenant has, and decisions that take long."""
    async with open_front() as front:
        admission = front.ports.intake.admission
        admission._places, admission.decision_s = 1, DECISION_S
        async with admission.place(tenant_id, None):
            yield front


async def test_s62_the_answer_says_when_there_will_be_room() -> None:
    async with busy_front() as front:
        told = await front.submit(CUSTOMER)

    assert (told.status, told.code, told.headers["Retry-After"]) == (503, "OVERLOADED", "100")


async def test_s62_nothing_is_stored_or_sent_for_a_refused_request() -> None:
    async with busy_front() as front:
        await front.submit(CUSTOMER, idempotency_key="order-1")
        kept = [*front.shelves.evidence, *front.shelves.keys]

    assert (kept, front.gateway.asked) == ([], [])


async def test_s62_images_are_not_decoded_before_there_is_room() -> None:
    async with busy_front() as front:
        told = await front.submit(build_body("customer-1", selfie_image_base64="%%%"))

    assert told.code == "OVERLOADED"


async def test_s62_the_sandbox_does_not_wait_behind_the_models() -> None:
    async with busy_front() as front:
        assert (await front.submit()).status == 201


async def test_s62_a_key_that_was_used_is_answered_without_waiting() -> None:
    async with busy_front() as front:
        first = await front.submit(idempotency_key="order-1")
        again = await front.submit(idempotency_key="order-1")
        other = await front.submit(CUSTOMER, idempotency_key="order-1")

    assert (first.status, again.status, other.code) == (201, 200, "IDEMPOTENCY_KEY_REUSED")


async def test_s62_a_place_is_given_back_whatever_the_answer_was() -> None:
    async with open_front() as front:
        admission = front.ports.intake.admission
        for body in (CUSTOMER, build_body("customer-1", selfie_image_base64="%%%")):
            front.gateway.failing = RuntimeError("the log")
            await front.submit(body, key=FOREIGN)

        assert (admission.released, admission.waiting) == (0, 0)
