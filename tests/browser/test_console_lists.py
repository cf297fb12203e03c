"""Lists, transactions, judged matches and a subject's page of the console in a browser."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import expect

from schemas.base import rfc3339
from tests.browser.conftest import Show
from tests.browser.office import Office
from tests.browser.test_console_case import CANARY, WIDE
from tests.http.test_case_dispositions import PAYEE, REVIEWED
from tests.journeys.people import Person, sign_in
from tests.journeys.service import Service, veristream_json

pytestmark = pytest.mark.asyncio(loop_scope="session")

DISPOSITIONS: Final = "/v1/control/dispositions"
POLICY: Final = "/v1/policies/transactions"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def desk(service: Service, admin: Person) -> AsyncIterator[Office]:
    """Signed-in members, under a policy that asks a person about each match."""

    async def command(*words: str) -> Any:
        return await veristream_json(service.data_dir, *words)

    async def enter(role: str) -> Person:
        email = f"lists.{role.lower()}@acme.example"
        return await sign_in(service.client, service.url, command, service.tenant_id, role, email)

    people = {role: await enter(role) for role in ("REVIEWER", "COMPLIANCE_LEAD")}
    lead, yaml = people["COMPLIANCE_LEAD"], {"Content-Type": "application/yaml"}
    assert (await lead.ask("PUT", f"{POLICY}/draft", data=REVIEWED, headers=yaml))[0] == 200
    assert (await lead.ask("POST", f"{POLICY}/publish", json={}))[0] == 200
    yield Office(service, admin, people)


async def pay(service: Service, key: str, **changes: Any) -> dict[str, Any]:
    """Ask about a transaction as a tenant's server does."""
    sent = {
        "subject_id": "customer-77", "type": "PAYMENT", "direction": "OUTBOUND", "metadata": {"note": CANARY},
        "amount": {"value": "5", "currency": "EUR"}, "occurred_at": rfc3339(datetime.now(UTC)),
    } | changes  # fmt: skip
    return await service.decide("/v1/transactions", sent, key)


async def test_a_match_is_judged_with_the_conclusion_and_ended_on_the_subjects_page(
    shown: Show, desk: Office
) -> None:
    await desk.settle(four_eyes="NEVER")
    made = await pay(desk.service, "first", subject_id="customer-78", subject=PAYEE, reference=CANARY)
    page = await shown(desk.page_of(made), **desk.seen_by("REVIEWER"), **WIDE)
    await expect(page.page.locator("#conclude")).to_be_visible()
    await page.page.keyboard.press("a")
    box = page.page.locator("[name=dispositions]")
    await expect(box).to_be_visible()
    wrong = await page.judge("case-matches")
    await page.page.set_viewport_size({"width": 1280, "height": 900})
    await box.check()
    await page.page.locator("[name=judged_days]").select_option("90")
    await page.page.keyboard.press("n")
    await page.page.keyboard.type("Another birth date.")
    await page.page.keyboard.press("Control+Enter")
    await expect(page.page.locator(".said")).to_contain_text("Concluded")
    status, listed = await desk.people["REVIEWER"].ask("GET", f"{DISPOSITIONS}?subject_id=customer-78")
    await desk.settle(four_eyes="CRITICAL")
    assert (status, [one["entity_id"] for one in listed["dispositions"]]) == (200, ["sandbox-1"])

    await page.page.goto(f"{desk.service.url}/console/subjects?subject_id=customer-78&livemode=false")
    await expect(page.page.locator("[data-method=DELETE]")).to_be_visible()
    wrong += await page.judge("subject")
    await page.page.locator("[data-method=DELETE]").press("Enter")
    await expect(page.page.locator(".said")).to_contain_text("counts again")
    await expect(page.page.locator("[data-part=dispositions]")).to_contain_text("ended")
    assert wrong == []


async def test_lists_are_narrowed_and_lead_to_their_pages(shown: Show, desk: Office) -> None:
    made = await pay(desk.service, "third", reference=CANARY)
    await desk.verify("sim:review:FACE_MATCH_UNCERTAIN@listed")
    page = await shown(
        f"{desk.service.url}/console/transactions?livemode=false", **desk.seen_by("REVIEWER"), **WIDE
    )
    await page.page.locator("[name=reference]").fill(CANARY)
    await page.page.locator("[name=subject_id]").fill("customer-77")
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator("[data-row]")).to_have_count(1)
    wrong = await page.judge("transactions")
    await page.page.locator("[data-row] a").click()
    await page.page.wait_for_url(f"**/{made['transaction_id']}?livemode=false")
    await expect(page.page.locator(".facts")).to_contain_text(CANARY)
    wrong += await page.judge("transaction")

    await page.page.goto(f"{desk.service.url}/console/verifications?livemode=false&status=REVIEW_REQUIRED")
    await expect(page.page.locator("[data-row]").first).to_be_visible()
    wrong += await page.judge("verifications")
    assert wrong == []


async def test_an_erasure_is_asked_for_by_keyboard(shown: Show, desk: Office) -> None:
    await pay(desk.service, "fourth", subject_id="customer-gone")
    address = f"{desk.service.url}/console/subjects?subject_id=customer-gone&livemode=false"
    page = await shown(address, **desk.seen_by("COMPLIANCE_LEAD"), **WIDE)
    await page.page.locator("#why-erase").fill(CANARY)
    await page.page.keyboard.press("Tab")
    await page.page.keyboard.press("Space")
    wrong = await page.judge("subject-erase")
    await page.page.locator(".danger").press("Enter")
    await expect(page.page.locator(".said")).to_contain_text("asked for")
    await expect(page.page.locator("[data-part=privacy]")).to_contain_text(CANARY)
    assert wrong == []
