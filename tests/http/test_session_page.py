"""What comes back of what the tenant gave to a session, and in which language its capture routes answer."""

from app.web.site import CODES, languages
from schemas.ids import SubjectId
from schemas.sessions import StoredSession
from streams.ports.records import RecordKind
from tests.builders import ACME
from tests.http.session_steps import PATH, open_page, publish_flow
from tests.http.support import Front, draw_image

METADATA = {"order": "A-1", "total": 12.5, "vip": True, "x": None}


async def test_metadata_and_language_come_back_in_the_session(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    page = await open_page(front, flow_id, metadata=METADATA, locale="fr-CA")
    bare = await open_page(front, flow_id, "sim:approved@2")

    read = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    cancelled = (await front.ask("POST", f"{PATH}/{page.session_id}/cancel")).json
    other = (await front.ask("GET", f"{PATH}/{bare.session_id}")).json

    assert (read["metadata"], read["locale"]) == (METADATA, "fr-CA")
    assert (cancelled["metadata"], cancelled["locale"]) == (METADATA, "fr-CA")
    assert (other["metadata"], other["locale"]) == ({}, None)


async def test_metadata_is_gone_with_its_subject(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    page = await open_page(front, flow_id, metadata=METADATA)

    await front.stores.vault.destroy(ACME, SubjectId("sim:approved"))
    response = await front.ask("GET", f"{PATH}/{page.session_id}")

    assert (response.status, response.json["metadata"]) == (200, {})


async def test_the_capture_interface_answers_in_the_callers_language_else_the_sessions(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    page = await open_page(front, flow_id, "sim:approved@2", locale="fr-CA")
    other = await open_page(front, flow_id, "sim:review:IMAGE_CROPPED@3", locale="zu")

    own = await page.ask("GET")
    asked = await page.ask("GET", headers={"Accept-Language": "xx, de-AT;q=0.5"})
    unknown = await other.ask("GET")
    await page.hand_in()
    await other.consent()
    cropped = await other.ask(
        "PUT", "/document", data=draw_image(),
        headers={"Content-Type": "image/png", "Accept-Language": "es"},
    )  # fmt: skip
    ended = (await page.ask("GET", headers={"Accept-Language": "pt"})).json

    assert [one.json["locale"] for one in (own, asked, unknown)] == ["fr", "de", "en"]
    assert [one.headers["Content-Language"] for one in (own, asked, unknown)] == ["fr", "de", "en"]
    assert own.json["session_locale"] == "fr-CA"
    assert own.json["locales"] == list(CODES)
    assert own.json["consent"]["locale"] == "en"
    assert ended["result"]["message"] == languages()["pt"].texts["api.verified"]
    assert [one["message"] for one in cropped.json["reasons"]] == [
        languages()["es"].texts["reason.IMAGE_CROPPED"]
    ]


async def test_consent_records_the_language_the_notice_was_shown_in(front: Front) -> None:
    flow_id = await publish_flow(await front.sign_in())
    for number, (sent, noted) in enumerate([({}, "en"), ({"locale": "fr"}, "fr")]):
        page = await open_page(front, flow_id, f"sim:approved@{number}")
        version = (await page.ask("GET")).json["consent"]["notice_version"]
        await page.ask("POST", "/consent", json={"notice_version": version, "accepted": True, **sent})
        record = await front.stores.records.get(ACME, RecordKind.SESSION, page.session_id)
        stored = StoredSession.from_bytes(record.body).consent
        assert stored is not None
        assert (stored.accepted, stored.locale) == (True, noted)
