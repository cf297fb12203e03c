"""The case page without a browser: what is drawn, escaped, offered to a role, written down, and how large."""

import gzip
import re
from typing import Any

import pytest

from app.web.site import console_language, site
from schemas.enums import CaseKind, CaseStatus, CheckKind, FieldKey, RiskLevel, ShownVerdict
from schemas.people import Role
from tests.builders import GLOBEX
from tests.http.console import HTML, enter, open_page
from tests.http.session_steps import install_tenant, publish_flow
from tests.http.support import Front, Json, SignedIn, build_body
from tests.http.test_review_cases import conclude
from tests.http.test_transactions import payment, screen

CANARY = "<img src=x onerror=alert(1)>"
SHOWN_CANARY = "&lt;img src=x onerror=alert(1)&gt;"
UNCERTAIN = "sim:review:FACE_MATCH_UNCERTAIN"
NAMED = {"surname": CANARY, "given_names": "SIM"}


async def doubtful(front: Front, subject_id: str = UNCERTAIN, **document: Any) -> Json:
    """A verification that needs a person."""
    made: Json = (await front.submit(build_body(subject_id, document=document))).json
    return made


async def look(who: SignedIn, made: Json) -> str:
    """The page of a case."""
    answer = await open_page(who, f"/console/review-cases/{made['review_case_id']}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, HTML), answer.body
    return answer.body.decode()


def offered(page: str) -> set[str]:
    """The last words of the routes that a page offers to call."""
    return {path.rpartition("/")[2] for path in re.findall(r'data-(?:post|reveal)="([^"]+)"', page)}


async def test_a_case_shows_what_differs_its_points_and_its_images(front: Front) -> None:
    made = await doubtful(front, extracted_fields={"surname": "ERIKSSON"})
    page = await look(await enter(front, Role.REVIEWER), made)

    assert re.search(r'class="differs" data-field="surname".*?SPECIMEN.*?ERIKSSON', page, re.DOTALL)
    assert re.search(r'class="same" data-field="issuing_state"', page) is None
    assert page.count("1 differs") == 1
    assert all(word in page for word in ("20 points", "Medium risk", "Face match uncertain", "+20"))
    assert re.findall(r'data-src="/v1/verifications/[^"]+/(evd_\w+)"', page) == [
        one["id"] for one in made["evidence"] if one["kind"] in {"IMAGE", "SELFIE"}
    ]
    assert "The machine would approve" in page


async def test_a_page_looks_at_no_image_and_its_look_at_values_is_written_down(front: Front) -> None:
    made = await doubtful(front)
    await look(await enter(front, Role.REVIEWER), made)
    rows = (await front.ask("GET", "/v1/audit?action=evidence.viewed")).json["events"]

    assert [row["context"]["changes"] for row in rows] == [{"verification_id": made["verification_id"]}]


async def test_what_people_wrote_is_shown_as_text(front: Front) -> None:
    made = await doubtful(front, extracted_fields=NAMED)
    who = await enter(front, Role.COMPLIANCE_LEAD)
    await publish_flow(await front.sign_in(), name=CANARY)
    case = f"/v1/control/review-cases/{made['review_case_id']}"
    for text in (CANARY, "x" * 4_000, "\u202egnp.exe"):
        assert (await who.ask("POST", f"{case}/notes", json={"text": text})).status == 200
    await who.change_member(name=CANARY)
    open_case = await look(who, made)
    assert (await conclude(who, case, "REJECT", note=CANARY)).status == 200
    concluded = await look(who, made)

    assert CANARY not in open_case + concluded
    assert "<img src=x" not in open_case + concluded
    assert open_case.count(SHOWN_CANARY) >= 3
    assert concluded.count(SHOWN_CANARY) >= 3


@pytest.mark.parametrize(
    ("role", "routes"),
    [
        (Role.REVIEWER, {"claim", "notes", "escalate", "conclude", "reveal-number"}),
        (Role.COMPLIANCE_LEAD, {"claim", "notes", "escalate", "conclude", "reveal-number"}),
        (Role.ADMIN, {"claim", "notes", "escalate", "reveal-number"}),
        (Role.AUDITOR, set()),
    ],
)
async def test_a_role_is_offered_what_it_may_do_and_refused_the_rest(
    front: Front, role: Role, routes: set[str]
) -> None:
    made = await doubtful(front)
    who = await enter(front, role)
    page = await look(who, made)
    case = f"/v1/control/review-cases/{made['review_case_id']}"
    reveal = f"/v1/verifications/{made['verification_id']}/reveal-number"
    asked = {
        "reveal-number": await who.ask("POST", reveal, json={}),
        "conclude": await conclude(who, case),
        "claim": await who.ask("POST", f"{case}/claim", json={}),
        "notes": await who.ask("POST", f"{case}/notes", json={"text": "x"}),
        "escalate": await who.ask("POST", f"{case}/escalate", json={"note": "x"}),
    }

    assert offered(page) - {"assign"} == routes
    assert {name for name, answer in asked.items() if answer.status == 403} == set(asked) - routes
    assert ("SPECIMEN" in page, 'class="shot"' in page) == ((role is not Role.AUDITOR,) * 2)


async def test_developers_and_other_tenants_see_no_case(front: Front) -> None:
    made = await doubtful(front)
    path = f"/console/review-cases/{made['review_case_id']}"
    foreigner = await front.sign_in(tenant_id=GLOBEX)
    await install_tenant(foreigner)

    assert (await open_page(await enter(front, Role.DEVELOPER), path)).status == 403
    assert (await open_page(foreigner, path)).status == 404


async def test_a_concluded_case_offers_what_comes_after(front: Front) -> None:
    made = await doubtful(front)
    case = f"/v1/control/review-cases/{made['review_case_id']}"
    reviewer, lead = await enter(front, Role.REVIEWER), await enter(front, Role.COMPLIANCE_LEAD)
    await conclude(reviewer, case, "REJECT")

    assert offered(await look(reviewer, made)) == {"notes", "appeal", "reveal-number"}
    assert offered(await look(lead, made)) == {"notes", "appeal", "reopen", "reveal-number"}


async def test_a_case_leads_to_the_subjects_earlier_verifications(front: Front) -> None:
    first, made = await doubtful(front), await doubtful(front)
    page = await look(await enter(front, Role.REVIEWER), made)

    assert f'href="/console/review-cases/{first["review_case_id"]}?livemode=false"' in page
    assert f'href="/console/verifications/{first["verification_id"]}?livemode=false"' in page


async def test_what_a_conclusion_would_do_stands_before_its_button(front: Front) -> None:
    made = await doubtful(front)
    who = await enter(front)
    await who.ask("PATCH", "/v1/control/settings", json={"four_eyes": "OVERTURN"})
    page = await look(who, made)
    effects = dict(
        re.findall(r'<span data-for="(\w+)">(.*?)</span>', page[: page.index('class="button wide end"')])
    )

    assert "One reviewer is enough" in effects["APPROVE"]
    assert "overturns" in effects["REJECT"]
    assert "second person" in effects["REJECT"]
    assert "new session" in effects["REQUEST_INPUT"]


async def test_a_verification_has_a_page_that_leads_to_an_appeal(front: Front) -> None:
    made = (await front.submit(build_body("sim:reject:DOCUMENT_EXPIRED"))).json
    path = f"/console/verifications/{made['verification_id']}"
    reviewer, auditor = await enter(front, Role.REVIEWER), await enter(front, Role.AUDITOR)
    page = (await open_page(reviewer, path)).body.decode()
    seen = (await open_page(auditor, path)).body.decode()
    pending = await doubtful(front)
    waiting = await open_page(reviewer, f"/console/verifications/{pending['verification_id']}")

    assert all(word in page for word in ("Rejected", "Document expired", "SPECIMEN", made["verification_id"]))
    assert (offered(page), offered(seen)) == ({"appeal", "reveal-number"}, set())
    assert "SPECIMEN" not in seen
    assert offered(waiting.body.decode()) == {"reveal-number"}
    assert f"/console/review-cases/{pending['review_case_id']}" in waiting.body.decode()
    assert (await open_page(await enter(front, Role.DEVELOPER), path)).status == 403


async def test_evidence_that_is_gone_is_named_and_not_asked_for(front: Front) -> None:
    made = await doubtful(front)
    who = await enter(front, Role.REVIEWER)
    await front.stores.vault.destroy(who.member.tenant_id, made["subject_id"])

    page = await look(who, made)

    assert "Nothing was read" in page
    assert "reveal-number" not in page


async def test_a_transaction_has_a_body_of_its_own(front: Front) -> None:
    made = (await screen(front, "order-1", payment(subject_id="sim:review", metadata={"note": CANARY}))).json
    page = await look(await enter(front, Role.REVIEWER), made)

    assert all(word in page for word in ("Transaction", made["transaction_id"], made["amount"]["value"]))
    assert CANARY not in page
    assert SHOWN_CANARY in page
    assert "conclude" in offered(page)


async def test_a_case_without_images_is_small(front: Front) -> None:
    """Of what a browser fetches for the page: the page itself, what it names, and the modules those name."""
    page = await look(await enter(front, Role.REVIEWER), await doubtful(front))
    names = set(re.findall(r'(?:href|src)="/assets/([\w.-]+)"', page))
    while True:
        modules = [site().assets.by_name[name].content.decode() for name in names if name.endswith(".js")]
        further = {one for text in modules for one in re.findall(r'from "\./([\w.-]+)"', text)} - names
        if not further:
            break
        names |= further
    fetched = [len(site().assets.by_name[name].gzipped) for name in names]

    assert sum(fetched) + len(gzip.compress(page.encode(), 6)) <= 60_000
    assert len(fetched) + 1 <= 10


def test_every_word_that_a_case_may_show_has_a_text() -> None:
    texts = console_language().texts
    families: dict[str, list[str]] = {
        "field": [*FieldKey, "number_last4"], "check": [*CheckKind], "verdict": [*ShownVerdict],
        "kind": [*CaseKind], "case_status": [*CaseStatus], "risk_level": [*RiskLevel],
    }  # fmt: skip

    assert [
        f"{name}.{one}" for name, all_ in families.items() for one in all_ if f"{name}.{one}" not in texts
    ] == []
