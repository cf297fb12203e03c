"""The case page of the console in a browser: two people conclude by keyboard, and nothing typed is lost."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
from playwright.async_api import expect

from schemas.base import rfc3339
from tests.browser.adapted import judge_adapted
from tests.browser.conftest import Open, Show
from tests.browser.console import tab_to
from tests.browser.office import Office
from tests.browser.shown import Shown, until_scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES: Final = "/v1/control/review-cases"
CASE_REQUESTS: Final = 10
CASE_BYTES: Final = 60_000
CANARY: Final = '<img src=x onerror="console.error(1)">'
WIDE: Final = {"viewport": {"width": 1280, "height": 900}}


async def decide_by_keyboard(page: Shown, key: str, note: str) -> None:
    """Choose an outcome, write a note and conclude, by keys alone."""
    await expect(page.page.locator("#conclude")).to_be_visible()
    await page.page.keyboard.press(key)
    await page.page.keyboard.press("n")
    await page.page.keyboard.type(note)
    await page.page.keyboard.press("Control+Enter")


async def write_and_press(page: Shown, note: str, act: str) -> None:
    """Write a note and press the button that sends it to a route, by keys alone."""
    await expect(page.page.locator("#note")).to_be_visible()
    await until_scripted(page.page)
    await page.page.keyboard.press("n")
    await expect(page.page.locator("#note")).to_be_focused()
    await page.page.keyboard.type(note)
    await tab_to(page.page, page.page.locator(f'[data-post$="/{act}"]'))
    await page.page.keyboard.press("Enter")


async def test_two_people_conclude_a_doubtful_verification_by_keyboard(shown: Show, office: Office) -> None:
    made = await office.verify("customer-8841", extracted_fields={"surname": "Ericsson"})
    await office.verify("sim:review:FACE_MATCH_UNCERTAIN@next")
    await office.settle(four_eyes="ALWAYS")
    try:
        first = await shown(office.page_of(made), **office.seen_by("REVIEWER"), **WIDE)
        marks = first.page.locator(".mark")
        assert await marks.count() >= 5
        await expect(first.page.locator("tr.differs")).to_contain_text("Ericsson")
        await expect(first.page.locator("[data-slot=looked]")).to_contain_text("3 of 3")
        wrong = await first.judge("case")
        wrong += await judge_adapted(first, "case")
        await first.page.set_viewport_size({"width": 1280, "height": 900})
        await first.page.keyboard.press("r")
        await expect(first.page.locator(".end")).to_contain_text("Reject customer-8841")
        wrong += await first.judge("case-reject")
        await decide_by_keyboard(first, "r", "Another name was declared.")
        await expect(first.page.locator(".said")).to_contain_text("Another person must agree")
        await expect(first.page.locator("#h-case")).to_be_focused()
        await expect(first.page.locator("#h-case")).not_to_have_text("customer-8841")
        await first.page.goto(office.page_of(made))
        await expect(first.page.locator(".decide")).to_contain_text("You made the first conclusion")

        second = await shown(office.page_of(made), **office.seen_by("COMPLIANCE_LEAD"), **WIDE)
        await expect(second.page.locator(".decide")).to_contain_text("concluded first: Reject")
        await decide_by_keyboard(second, "r", "I agree.")
        await expect(second.page.locator(".said")).to_contain_text("Concluded")
        await second.page.goto(office.page_of(made))
        await expect(second.page.locator(".timeline")).to_contain_text("Ada Obi concluded: Reject")
        wrong += await second.judge("case-concluded")
    finally:
        await office.settle(four_eyes="CRITICAL")

    status, case = await office.people["REVIEWER"].ask("GET", f"{CASES}/{made['review_case_id']}")
    assert (status, case["status"], case["conclusion"]["outcome"]) == (200, "CONCLUDED", "REJECT")
    assert case["conclusion"]["note"] == "I agree."
    assert wrong == []


async def test_a_case_that_changed_meanwhile_says_so_and_keeps_the_note(shown: Show, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@stale")
    page = await shown(office.page_of(made), **office.seen_by("REVIEWER"), **WIDE)
    page.expected = ("409 (Conflict)", "412 (Precondition Failed)")
    case, lead = f"{CASES}/{made['review_case_id']}", office.people["COMPLIANCE_LEAD"]
    assert (await lead.ask("POST", f"{case}/notes", json={"text": CANARY}))[0] == 200

    await decide_by_keyboard(page, "a", "Looks right to me.")
    await expect(page.page.locator(".said")).to_contain_text("changed meanwhile")
    await expect(page.page.locator(".timeline")).to_contain_text(CANARY)
    await expect(page.page.locator("#note")).to_have_value("Looks right to me.")
    await expect(page.page.locator(".end")).to_contain_text("Approve")

    assert (await lead.ask("POST", f"{case}/claim", json={}))[0] == 200
    await page.page.keyboard.press("Control+Enter")
    await expect(page.page.locator(".decide")).to_contain_text("A colleague is working on this case")
    assert (await lead.ask("POST", f"{case}/release", json={}))[0] == 200
    await page.page.reload()
    await expect(page.page.locator("#note")).to_have_value("Looks right to me.")
    await page.page.keyboard.press("Control+Enter")
    await expect(page.page.locator(".said")).to_contain_text("Concluded")
    assert (
        await page.page.evaluate("Object.keys(sessionStorage).filter(one => one.startsWith('case:'))")
    ) == []


async def test_a_role_is_offered_what_it_may_do(shown: Show, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@roles")
    page = await shown(office.page_of(made), **office.seen_by("AUDITOR"), **WIDE)

    await expect(page.page.locator(".evidence")).to_contain_text("may not see evidence")
    await expect(page.page.locator(".decide")).to_contain_text("may not conclude")
    assert await page.page.locator("form[data-post], .shot, [data-reveal]").count() == 0
    assert await page.judge("case-auditor") == []


async def test_evidence_is_fetched_when_seen_enlarged_and_turned(
    shown: Show, office: Office, open_session: Open
) -> None:
    subject = "sim:review:FACE_MATCH_UNCERTAIN@looks"
    made = await office.moved(await open_session(subject), subject)
    narrow = {"viewport": {"width": 360, "height": 420}}
    page = await shown(office.page_of(made), **office.seen_by("REVIEWER"), **narrow)

    def fetched() -> int:
        return sum("/evidence/" in one.url for one in page.requests)

    await expect(page.page.locator("#document img")).to_be_visible()
    before = fetched()
    await page.page.keyboard.press("2")
    await expect(page.page.locator("#faces img")).to_have_count(1)
    await expect(page.page.locator("[data-slot=looked]")).to_contain_text("2 of 2")
    assert (before, fetched()) == (1, 2)
    await page.page.keyboard.press("3")
    await expect(page.page.locator(".strip img")).to_have_count(3)
    await expect(page.page.locator(".strip")).to_contain_text("from the selfie")
    await expect(page.page.locator("[data-slot=looked]")).to_contain_text("2 of 2")

    paper, view = page.page.locator(".paper"), page.page.locator("[data-slot=view]")
    small = await paper.bounding_box()
    for _ in range(20):
        await page.page.locator('[data-zoom="25"]').press("Enter")
    large = await paper.bounding_box()
    await expect(page.page.locator("[data-slot=zoom]")).to_have_value("400")
    assert small is not None
    assert large is not None
    assert large["width"] == pytest.approx(4 * small["width"], rel=0.02)
    await view.focus()
    left = await view.evaluate("one => one.scrollLeft")
    await page.page.keyboard.press("ArrowRight")
    await expect(view).not_to_have_js_property("scrollLeft", left)
    await page.page.locator("[data-turn]").press("Enter")
    turned = await paper.bounding_box()
    assert turned is not None
    assert (turned["height"] > turned["width"]) == (small["width"] > small["height"])

    await page.page.locator("[data-reveal]").press("Enter")
    await expect(page.page.locator("[data-slot=number]")).to_have_text("SIM001234")
    assert await page.judge("case-turned") == []


async def go_along_and_pass_on(
    page: Shown, office: Office, before: dict[str, Any], last: dict[str, Any]
) -> None:
    """Go from the last case of the queue to the one before it and back, escalate it, and give it away."""
    said = page.page.locator(".said")
    await page.page.goto(office.page_of(last))
    for key, to in (("k", before), ("j", last)):
        await expect(page.page.locator(".pager")).to_be_visible()
        await until_scripted(page.page)
        await page.page.keyboard.press(key)
        await expect(page.page.locator("#h-case")).to_have_text(to["subject_id"])
    await write_and_press(page, "Two passports look alike.", "escalate")
    await expect(said).to_contain_text("escalated to a lead")
    await expect(page.page.locator(".title")).to_contain_text("Escalated")
    colleague = page.page.locator("[name=reviewer_id]")
    await colleague.select_option(office.people["REVIEWER"].reviewer_id)
    await colleague.press("Tab")
    await page.page.keyboard.press("Enter")
    await expect(said).to_contain_text("Given to a colleague")
    await expect(page.page.locator(".title")).to_contain_text("Ada Obi has it")


async def test_a_case_is_taken_given_back_asked_about_again_and_appealed(
    shown: Show, office: Office, flows: dict[str, str]
) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@moves")
    before, waits = [await office.verify(f"sim:review:FACE_MATCH_UNCERTAIN@{name}") for name in ("a", "b")]
    page = await shown(office.page_of(made), **office.seen_by("COMPLIANCE_LEAD"), **WIDE)
    page.expected = ("422 (Unprocessable",)
    said = page.page.locator(".said")
    await expect(page.page.locator("#conclude")).to_be_visible()
    await page.page.keyboard.press("t")
    await expect(page.page.locator(".title")).to_contain_text("Yours until")
    await page.page.keyboard.press("n")
    await page.page.keyboard.type("t1 stays text")
    await page.page.locator("[data-fields='']").press("Enter")
    await expect(said).to_contain_text("given back")
    await expect(page.page.locator("#note")).to_have_value("t1 stays text")

    await page.page.locator("#h-case").focus()
    await page.page.keyboard.press("q")
    await page.page.keyboard.press("Control+Enter")
    await expect(said).to_contain_text("Name the flow")
    await expect(page.page.locator("[name=flow_id]")).to_be_focused()
    await page.page.locator("[name=flow_id]").select_option(flows["FULL_IDENTITY"])
    wrong = await page.judge("case-ask-again")
    await page.page.keyboard.press("Control+Enter")
    await expect(said).to_contain_text("Concluded")

    await go_along_and_pass_on(page, office, before, waits)

    rejected = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@appeal")
    path = f"{CASES}/{rejected['review_case_id']}/conclude"
    body = {"outcome": "REJECT", "note": "No."}
    assert (await office.people["REVIEWER"].ask("POST", path, json=body))[0] == 200
    await page.page.goto(office.page_of(rejected))
    await write_and_press(page, "It was another person after all.", "reopen")
    await expect(said).to_contain_text("reopened")
    await expect(page.page.locator("#conclude")).to_be_visible()
    assert (await office.people["COMPLIANCE_LEAD"].ask("POST", path, json=body))[0] == 200
    verification = f"{office.service.url}/console/verifications/{rejected['verification_id']}"
    await page.page.goto(verification)
    await expect(page.page.locator("#note")).to_be_visible()
    wrong += await page.judge("verification")
    await page.page.keyboard.press("n")
    await page.page.keyboard.type("The customer wrote to us.")
    await page.page.locator("[data-opens]").press("Enter")
    await expect(said).to_contain_text("An appeal was opened")
    await expect(page.page.locator(".crumb")).to_contain_text("Appeal")
    assert wrong == []


async def test_the_case_of_a_transaction_has_a_page(shown: Show, office: Office) -> None:
    sent = {
        "subject_id": "sim:review", "type": "PAYMENT", "direction": "OUTBOUND", "metadata": {"note": CANARY},
        "amount": {"value": "5", "currency": "EUR"}, "occurred_at": rfc3339(datetime.now(UTC)),
    }  # fmt: skip
    made = await office.service.decide("/v1/transactions", sent, "order-1")
    page = await shown(office.page_of(made), **office.seen_by("REVIEWER"), **WIDE)

    await expect(page.page.locator(".facts")).to_contain_text(CANARY)
    assert await page.judge("case-transaction") == []


async def test_a_case_is_small_beside_its_pictures(shown: Show, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@small")
    page = await shown("about:blank", **office.seen_by("REVIEWER"), **WIDE)

    requests, size = await page.weigh(office.page_of(made))

    assert requests <= CASE_REQUESTS
    assert size <= CASE_BYTES


async def test_a_case_is_read_without_scripts(shown: Show, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@plain")
    page = await shown(office.page_of(made), **office.seen_by("REVIEWER"), **WIDE, java_script_enabled=False)

    await expect(page.page.locator("#document img")).to_be_visible()
    await expect(page.page.locator("noscript .note")).to_be_visible()
    await expect(page.page.locator("#conclude")).to_be_hidden()


async def test_without_a_connection_or_a_session_nothing_typed_is_lost(shown: Show, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@offline")
    page = await shown(office.page_of(made), **office.seen_by("REVIEWER"), **WIDE)
    page.expected = ("ERR_INTERNET_DISCONNECTED", "401 (Unauthorized)")
    await page.context.set_offline(offline=True)
    await decide_by_keyboard(page, "a", "Fine.")
    await expect(page.page.locator(".said")).to_contain_text("no connection")
    await page.context.set_offline(offline=False)
    await page.context.clear_cookies()
    await page.page.keyboard.press("Control+Enter")
    await expect(page.page.locator(".said")).to_contain_text("Sign in again")
    await expect(page.page.locator("#note")).to_have_value("Fine.")
    assert await page.judge("case-signed-out", widths=(320,)) == []
