"""The export of a subject holds all that is stored of that subject and nothing of another, and is audited."""

import io
import json
import zipfile
from datetime import timedelta
from typing import Any

import pytest

from app.http.subject_export import PAGE, SubjectExport
from schemas.base import rfc3339
from schemas.ids import SubjectId
from schemas.people import Role
from tests.builders import ACME, GLOBEX
from tests.http.support import HASHES, PATH, Front, Response, build_body, now
from tests.http.test_transaction_history import past, send
from tests.http.test_transactions import payment, publish_suspending, screen

ADA, BEN = "sim:approved@ada", "sim:approved@ben"
DOUBTED = "sim:review:FACE_MATCH_UNCERTAIN"


def path_of(subject: str) -> str:
    """Where the export of a subject is."""
    return f"/v1/subjects/{subject}/export"


def opened(response: Response) -> zipfile.ZipFile:
    """The ZIP of an answer, every file of which is good."""
    assert (response.status, response.headers["Content-Type"]) == (200, "application/zip"), response.body
    archive = zipfile.ZipFile(io.BytesIO(response.body))
    assert archive.testzip() is None
    return archive


def manifest_of(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Its last file."""
    assert archive.namelist()[-1] == "manifest.json"
    read: dict[str, Any] = json.loads(archive.read("manifest.json"))
    return read


def read_in(archive: zipfile.ZipFile, folder: str) -> list[dict[str, Any]]:
    """What the files of a folder hold."""
    return [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith(folder)]


async def verify(front: Front, subject: str) -> dict[str, Any]:
    """Verify a subject; returns the verification."""
    response = await front.ask("POST", PATH, json=build_body(subject))
    assert response.status == 201, response.body
    read: dict[str, Any] = response.json
    return read


async def test_it_holds_everything_of_the_subject_and_nothing_of_another(front: Front) -> None:
    first, other, second = [await verify(front, subject) for subject in (ADA, BEN, ADA)]
    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))
    manifest = manifest_of(archive)

    assert manifest["files"] == archive.namelist()[:-1]
    assert manifest["left_out"] == []
    for made in (first, second):
        shown = json.loads(archive.read(f"verifications/{made['verification_id']}.json"))
        assert shown["document"]["extracted_fields"] == made["document"]["extracted_fields"]
        stored = {one["id"] for one in (*made["evidence"], *made["document"]["evidence"])}
        assert stored <= {name.removeprefix("evidence/").split(".")[0] for name in archive.namelist()}
    everything = b"".join(archive.read(name) for name in archive.namelist())
    own = [other["verification_id"], other["decision_id"], *(one["id"] for one in other["evidence"]), BEN]
    assert [word for word in own if word.encode() in everything] == []


async def test_it_has_the_subjects_sessions_and_audit_rows_without_addresses(front: Front) -> None:
    await verify(front, ADA)
    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))
    rows = [json.loads(line) for line in archive.read("audit.jsonl").splitlines()]
    sessions = [json.loads(archive.read(name)) for name in archive.namelist() if "sessions/" in name]

    assert {row["subject_id"] for row in rows} == {session["subject_id"] for session in sessions} == {ADA}
    assert {"verification.evaluated", "privacy.exported"} <= {row["action"] for row in rows}
    assert [row for row in rows if "ip" in row["context"]] == []


async def test_it_has_the_subjects_transactions_with_what_was_sent_about_them(front: Front) -> None:
    payee = {"kind": "PERSON", "name": "Ada Example"}
    made = (await screen(front, "order-1", payment(subject_id=ADA, counterparty=payee))).json
    await screen(front, "order-2", payment(subject_id=BEN, counterparty=payee))
    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))
    (shown,) = [json.loads(archive.read(name)) for name in archive.namelist() if "transactions/" in name]

    assert shown.items() >= made.items()
    assert shown["counterparty"] == payee


async def test_it_has_the_subjects_screenings_wallets_and_imported_transactions(front: Front) -> None:
    wallet = {"address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "subject_id": ADA}
    query = {"queries": [{"kind": "PERSON", "name": "Ada Okafor"}], "subject_id": ADA}
    for subject in (ADA, BEN):
        own = {"subject_id": subject}
        await front.ask("POST", "/v1/wallet-assessments", json=wallet | own)
        await front.ask("POST", "/v1/name-screenings", json=query | own)
        await send(front, f"import-{subject}", [past(f"old-{subject}", subject_id=subject)])

    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))

    assert [one["address"] for one in read_in(archive, "wallet-assessments/")] == [wallet["address"]]
    assert [one["subject_id"] for one in read_in(archive, "name-screenings/")] == [ADA]
    assert [one["reference"] for one in read_in(archive, "historic-transactions/")] == [f"old-{ADA}"]


async def test_it_has_the_subjects_dispositions_with_their_notes(front: Front) -> None:
    judging = await front.sign_in(Role.REVIEWER)
    about = {"kind": "LIST_MATCH", "list": "sandbox", "entity_id": "sandbox-1", "livemode": False}
    until = {"expires_at": rfc3339(now() + timedelta(days=30))}
    for whose in ({"subject_id": ADA}, {"subject_id": BEN}, {"counterparty_id": ADA}):
        body = {**about, **until, **whose, "note": f"Seen: {whose}"}
        assert (await judging.ask("POST", "/v1/control/dispositions", json=body)).status == 201

    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))
    (shown,) = [json.loads(archive.read(name)) for name in archive.namelist() if "dispositions/" in name]

    listed = (await judging.ask("GET", f"/v1/control/dispositions?subject_id={ADA}")).json
    assert [shown] == listed["dispositions"]
    assert (shown["subject_id"], shown["note"]) == (ADA, f"Seen: {{'subject_id': '{ADA}'}}")


async def test_it_has_the_subjects_cases_appeals_and_overturned_decisions(front: Front) -> None:
    """Their notes and conclusions are readable; once the subject is erased, they are empty."""
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    made = {subject: await verify(front, subject) for subject in (DOUBTED, f"{DOUBTED}@ben")}
    for subject, verification in made.items():
        path = f"/v1/control/review-cases/{verification['review_case_id']}"
        for verb, body in (
            ("notes", {"text": f"Seen: {subject}."}),
            ("conclude", {"outcome": "REJECT", "note": f"Concluded: {subject}."}),
        ):
            assert (await lead.ask("POST", f"{path}/{verb}", json=body)).status == 200
        path = f"/v1/control/verifications/{verification['verification_id']}/appeal"
        assert (await lead.ask("POST", path, json={"note": f"Appealed: {subject}."})).status == 201

    owner = await front.sign_in()
    before = opened(await owner.ask("GET", path_of(DOUBTED)))
    await front.stores.vault.destroy(ACME, SubjectId(DOUBTED))
    after = opened(await owner.ask("GET", path_of(DOUBTED)))

    appeal, case = sorted(read_in(before, "review-cases/"), key=lambda shown: str(shown["kind"]))
    assert [note["text"] for note in case["notes"]] == [f"Seen: {DOUBTED}."]
    assert case["conclusion"]["note"] == f"Concluded: {DOUBTED}."
    assert [note["text"] for note in appeal["notes"]] == [f"Appealed: {DOUBTED}."]
    decisions = {shown["decision"]: shown for shown in read_in(before, "decisions/")}
    assert set(decisions) == {"REVIEW_REQUIRED", "BLOCK"}
    assert decisions["REVIEW_REQUIRED"]["superseded_by"] == decisions["BLOCK"]["decision_id"]
    everything = b"".join(before.read(name) for name in before.namelist())
    assert f"{DOUBTED}@ben".encode() not in everything
    texts = [note["text"] for shown in read_in(after, "review-cases/") for note in shown["notes"]]
    assert texts == ["", ""]


async def test_it_has_the_cases_of_transactions_and_why_a_suspension_was_lifted(front: Front) -> None:
    await publish_suspending(front)
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    for number, subject in enumerate(("user-1", "user-2")):
        body = payment(subject_id=subject, metadata={"ask": "SUSPEND"})
        made = (await screen(front, f"order-{number}", body)).json
        path = f"/v1/control/review-cases/{made['review_case_id']}"
        assert (await lead.ask("POST", f"{path}/notes", json={"text": f"Asked {subject}."})).status == 200
        lifted = {"note": f"Paid by {subject}.", "livemode": False}
        reinstated = await lead.ask("POST", f"/v1/control/subjects/{subject}/reinstate", json=lifted)
        assert reinstated.status == 200, reinstated.body

    archive = opened(await (await front.sign_in()).ask("GET", path_of("user-1")))

    (case,) = read_in(archive, "review-cases/")
    assert [note["text"] for note in case["notes"]] == ["Asked user-1."]
    (standing,) = read_in(archive, "standings/")
    assert [note["text"] for note in standing["notes"]] == ["Paid by user-1."]
    assert b"user-2" not in b"".join(archive.read(name) for name in archive.namelist())


async def test_every_file_has_a_schema(front: Front) -> None:
    await verify(front, ADA)
    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))
    schemas = json.loads(archive.read("schema.json"))

    assert set(schemas) == {
        "manifest",
        "verification",
        "transaction",
        "name_screening",
        "wallet_assessment",
        "historic_transaction",
        "disposition",
        "review_case",
        "decision",
        "standing",
        "session",
        "audit_event",
    }
    assert set(manifest_of(archive)) == set(schemas["manifest"]["properties"])


async def test_what_is_gone_is_named_and_the_rest_is_exported(front: Front) -> None:
    made = await verify(front, ADA)
    gone = made["evidence"][0]["id"]
    await front.stores.evidence.discard(ACME, [gone])

    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))

    assert manifest_of(archive)["left_out"] == [{"id": gone, "reason": "REMOVED"}]


async def test_an_erased_subject_reads_erased(front: Front) -> None:
    made = await verify(front, ADA)
    await front.stores.vault.destroy(ACME, SubjectId(ADA))

    archive = opened(await (await front.sign_in()).ask("GET", path_of(ADA)))

    assert {one["reason"] for one in manifest_of(archive)["left_out"]} == {"ERASED"}
    shown = json.loads(archive.read(f"verifications/{made['verification_id']}.json"))
    assert "surname" not in (shown["document"].get("extracted_fields") or {})


async def test_it_is_audited_before_a_byte_leaves_and_not_by_a_head(front: Front) -> None:
    await verify(front, ADA)
    owner = await front.sign_in()
    asked = await owner.ask("HEAD", path_of(ADA))
    before = (await owner.ask("GET", "/v1/audit?action=privacy.exported")).json["events"]
    await owner.ask("GET", path_of(ADA))
    after = (await owner.ask("GET", "/v1/audit?action=privacy.exported")).json["events"]

    assert (asked.status, asked.body, before) == (200, b"", [])
    assert [(row["subject_id"], row["actor_id"]) for row in after] == [(ADA, owner.member.reviewer_id)]


@pytest.mark.parametrize("subject", ["nobody", "sim:approved@ad"])
async def test_an_unknown_subject_is_404_and_leaves_no_row(front: Front, subject: str) -> None:
    await verify(front, ADA)
    owner = await front.sign_in()

    assert (await owner.ask("GET", path_of(subject))).status == 404
    assert (await owner.ask("GET", "/v1/audit?action=privacy.exported")).json["events"] == []


async def test_another_tenants_subject_is_unknown(front: Front) -> None:
    await verify(front, ADA)

    assert (await (await front.sign_in(tenant_id=GLOBEX)).ask("GET", path_of(ADA))).status == 404


async def test_a_role_without_the_permission_is_refused(front: Front) -> None:
    await verify(front, ADA)

    assert (await (await front.sign_in(Role.REVIEWER)).ask("GET", path_of(ADA))).status == 403


async def test_one_image_at_a_time_is_in_memory(front: Front) -> None:
    """No piece that leaves is larger than the largest file of the ZIP and its heads."""
    for _ in range(3):
        await verify(front, ADA)
    export = SubjectExport(front.stores, HASHES, ACME, SubjectId(ADA), (True, False))
    chunks = [chunk async for chunk in export.chunks((await front.sign_in()).session.created_at)]
    archive = zipfile.ZipFile(io.BytesIO(b"".join(chunks)))
    largest = max(info.compress_size for info in archive.infolist())

    assert archive.testzip() is None
    assert max(map(len, chunks)) <= largest + 200 * len(archive.namelist())
    assert len(chunks) > len(archive.namelist()) < PAGE
