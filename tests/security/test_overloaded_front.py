"""S62: a front whose places are taken says when to come back, before it decodes or stores anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schemas.base import Event
from schemas.ids import TenantId
from schemas.problems import ProblemCode, Refused
from schemas.topics import Topic
from schemas.verifications import SubmitVerification
from tests.builders import ACME
from tests.http.session_steps import Page, open_page, publish_flow
from tests.http.support import FOREIGN, Front, Response, build_body, open_front

CUSTOMER = build_body("customer-1")
"""A request that needs the models."""

DECISION_S = 100.0


@asynccontextmanager
async def busy_front(tenant_id: TenantId = ACME) -> AsyncIterator[Front]:
    """A front with one place, which a verification of a tenant has while another one waits for it."""
    async with open_front() as front:
        admission = front.ports.intake.admission
        admission._places, admission.decision_s = 1, DECISION_S

        async def wait() -> None:
            async with admission.place(tenant_id, None):
                pass

        async with admission.place(tenant_id, None):
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            yield front
            waiting.cancel()


async def test_s62_the_answer_says_when_there_will_be_room() -> None:
    async with busy_front() as front:
        response = await front.submit(CUSTOMER)

    assert (response.status, response.code, response.headers["Retry-After"]) == (503, "OVERLOADED", "200")


async def test_s62_nothing_is_stored_or_sent_for_a_refused_request() -> None:
    async with busy_front() as front:
        await front.submit(CUSTOMER, idempotency_key="order-1")
        stored = [*front.shelves.evidence, *front.shelves.keys]

    assert (stored, front.gateway.asked) == ([], [])


async def test_s62_images_are_not_decoded_before_there_is_room() -> None:
    async with busy_front() as front:
        response = await front.submit(build_body("customer-1", selfie_image_base64="%%%"))

    assert response.code == "OVERLOADED"


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


async def test_s62_a_capture_session_is_handed_in_at_its_tenants_turn() -> None:
    async with busy_front() as front:
        flow_id = await publish_flow(await front.sign_in())
        answer, simulated = [
            await handed_in(await open_page(front, flow_id, subject))
            for subject in ("customer-1", "sim:approved")
        ]

    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "OVERLOADED", "200")
    assert simulated.status == 202


async def test_s62_a_capture_session_has_its_place_until_its_outcome() -> None:
    door = asyncio.Event()

    async def refuse_later(_: SubmitVerification) -> Event:
        await door.wait()
        raise Refused.because(ProblemCode.IMAGE_UNDECODABLE, "not now")

    async with open_front() as front:
        admission = front.ports.intake.admission
        front.gateway._handlers = {**front.gateway._handlers, Topic.VERIFICATION_COMMANDS: refuse_later}
        page = await open_page(front, await publish_flow(await front.sign_in()), "customer-1")
        first = await handed_in(page)
        again = await page.ask("POST", "/submit", json={})
        released = admission.released
        door.set()
        await admission.aclose()

    assert (first.status, again.status, released, admission.released) == (202, 202, 1, 0)


async def handed_in(page: Page) -> Response:
    """Take both pictures and hand them in."""
    await page.consent()
    for what in ("document", "selfie"):
        await page.put(what)
    return await page.ask("POST", "/submit", json={})
