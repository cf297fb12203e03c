"""A verification is submitted once, answered once, and read by its own tenant and mode only."""

import asyncio
import gzip
import io
import json

import pytest
from PIL import Image

from app.adapters.security.keyring import TOMBSTONE
from schemas.enums import EvidenceKind
from schemas.ids import EvidenceId
from schemas.problems import DecisionPending, Overloaded, ProblemCode, Refused, StoreUnavailable
from schemas.topics import Topic
from schemas.verifications import VerificationDecided
from streams.runtime.producer import NeverSent
from tests.builders import ACME
from tests.http.support import BARE, FOREIGN, LIVE, PATH, TEST, Front, build_body, draw_image, encoded


async def test_a_new_verification_answers_201(front: Front) -> None:
    response = await front.submit()

    assert (response.status, response.json["status"], response.json["decision"]) == (201, "APPROVED", "ALLOW")


async def test_the_fields_of_g13_are_always_there_and_no_others_are_null(front: Front) -> None:
    response = (await front.submit()).json

    always = {
        "verification_id", "subject_id", "created_at", "status", "decision", "decision_id",
        "review_status", "risk_level", "evidence", "reasons", "document", "livemode", "checks",
    }  # fmt: skip
    assert always <= set(response)
    assert None not in response.values()


async def test_a_replayed_key_answers_200_with_the_original_body(front: Front) -> None:
    first = await front.submit(idempotency_key="order-1")
    again = await front.submit(idempotency_key="order-1")

    assert (again.status, again.headers["Idempotent-Replayed"], again.body) == (200, "true", first.body)


async def test_a_first_answer_does_not_call_itself_a_replay(front: Front) -> None:
    assert "Idempotent-Replayed" not in (await front.submit(idempotency_key="order-1")).headers


@pytest.mark.parametrize("respelled", ['"order-1"', "order-1"])
async def test_a_quoted_key_is_the_bare_key(front: Front, respelled: str) -> None:
    first = await front.submit(idempotency_key="order-1")

    assert (await front.submit(idempotency_key=respelled)).json == first.json


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(build_body("sim:review"), id="another subject"),
        pytest.param(build_body(document={"number_last4": "1234"}), id="another declared value"),
        pytest.param(build_body(selfie_image_base64=encoded(draw_image(201, 201))), id="another image"),
    ],
)
async def test_a_used_key_with_another_body_is_refused(front: Front, body: dict[str, object]) -> None:
    await front.submit(idempotency_key="order-1")
    response = await front.submit(body, idempotency_key="order-1")

    assert (response.status, response.code) == (422, ProblemCode.IDEMPOTENCY_KEY_REUSED)
    assert response.json["errors"][0]["header"] == "Idempotency-Key"


async def test_a_data_url_is_the_same_image(front: Front) -> None:
    image = encoded(draw_image())
    first = await front.submit(build_body(selfie_image_base64=image), idempotency_key="order-1")
    again = await front.submit(
        build_body(selfie_image_base64=f"data:image/png;base64,{image}"), idempotency_key="order-1"
    )

    assert (again.status, again.json) == (200, first.json)


async def test_the_order_of_keys_does_not_matter_to_a_replay(front: Front) -> None:
    body = build_body()
    first = await front.submit(body, idempotency_key="order-1")
    again = await front.submit(dict(reversed(body.items())), idempotency_key="order-1")

    assert (again.status, again.json) == (200, first.json)


async def test_one_key_makes_one_record_however_many_ask_at_once(front: Front) -> None:
    responses = await asyncio.gather(*(front.submit(idempotency_key="order-1") for _ in range(20)))

    assert len({one.json["verification_id"] for one in responses}) == 1
    assert sorted(one.status for one in responses) == [200] * 19 + [201]


async def test_of_two_subjects_under_one_key_the_decided_one_rests_on_its_own_evidence(front: Front) -> None:
    front.gateway.failing = DecisionPending()
    await front.submit(build_body("sim:approved@first"), idempotency_key="order-1")
    front.gateway.failing = None
    won = (await front.submit(build_body("sim:approved@second"), idempotency_key="order-1")).json
    late = front.gateway.asked[0]  # of the first subject, with the same images, and second in the log
    with pytest.raises(Refused):
        await front.gateway.ask(
            Topic.VERIFICATION_COMMANDS, late.verification_id, late, VerificationDecided, 10.0
        )

    referred = [EvidenceId(one["id"]) for one in won["evidence"]]
    rows = [await front.stores.evidence.describe(ACME, one) for one in referred]
    assert [row.subject_id for row in rows] == ["sim:approved@second"] * len(rows)
    assert all([await front.stores.evidence.get(ACME, one) for one in referred])
    assert {one for _, one in front.shelves.evidence} == set(referred)


async def test_without_a_key_every_request_is_a_new_verification(front: Front) -> None:
    first, second = await front.submit(), await front.submit()

    assert first.json["verification_id"] != second.json["verification_id"]


@pytest.mark.parametrize("other", [FOREIGN, LIVE])
async def test_s3_a_key_belongs_to_its_tenant_and_mode(front: Front, other: str) -> None:
    body = build_body("customer-1") if other == LIVE else build_body()
    first = await front.submit(idempotency_key="order-1")
    front.gateway.failing = DecisionPending()
    response = await front.submit(body, other, idempotency_key="order-1")

    assert response.status == 503  # it was asked, not replayed
    assert front.gateway.asked[-1].verification_id != first.json["verification_id"]


async def test_a_test_key_and_a_live_key_may_use_one_idempotency_key(front: Front) -> None:
    await front.submit(idempotency_key="order-1")
    front.gateway.failing = DecisionPending()
    await front.submit(build_body("customer-1"), LIVE, idempotency_key="order-1")

    assert len({command.verification_id for command in front.gateway.asked}) == 2


async def test_a_record_is_readable_as_soon_as_it_was_answered(front: Front) -> None:
    submitted = await front.submit()
    read = await front.ask("GET", f"{PATH}/{submitted.json['verification_id']}")

    assert (read.status, read.body) == (200, submitted.body)


@pytest.mark.parametrize("other", [FOREIGN, LIVE])
async def test_another_tenant_or_mode_does_not_find_it(front: Front, other: str) -> None:
    submitted = await front.submit()
    response = await front.ask("GET", f"{PATH}/{submitted.json['verification_id']}", other)

    assert (response.status, response.code) == (404, "NOT_FOUND")


async def test_an_erased_subject_is_shown_without_personal_fields(front: Front) -> None:
    submitted = (await front.submit(build_body("sim:approved@erased"))).json
    for tenant_subject in list(front.shelves.keys):
        front.shelves.keys[tenant_subject] = TOMBSTONE
    response = await front.ask("GET", f"{PATH}/{submitted['verification_id']}")

    assert (response.status, response.json["document"]["extracted_fields"]) == (200, {})
    assert "expires_at" not in response.json["document"]


async def test_a_live_key_cannot_ask_the_sandbox(front: Front) -> None:
    response = await front.submit(build_body("sim:approved"), LIVE)

    assert (response.status, response.pointers) == (422, {"/subject_id": "VALIDATION_FAILED"})


@pytest.mark.parametrize("subject", ["sim:nothing", "sim:review:NO_REASON", "sim:slow:1h", "sim:"])
async def test_an_unknown_scenario_is_refused(front: Front, subject: str) -> None:
    response = await front.submit(build_body(subject))

    assert (response.status, response.pointers) == (422, {"/subject_id": "VALIDATION_FAILED"})


@pytest.mark.parametrize(
    ("subject", "status", "decision"),
    [
        ("sim:warn", "APPROVED", "WARN"),
        ("sim:review:FACE_MATCH_UNCERTAIN", "REVIEW_REQUIRED", "REVIEW_REQUIRED"),
        ("sim:reject:DOCUMENT_EXPIRED", "REJECTED", "BLOCK"),
        ("sim:fail:PROVIDER_UNAVAILABLE", "FAILED", "HOLD"),
    ],
)
async def test_the_sandbox_answers_what_it_is_asked_for(
    front: Front, subject: str, status: str, decision: str
) -> None:
    response = (await front.submit(build_body(subject))).json

    assert (response["status"], response["decision"]) == (status, decision)


async def test_both_images_are_kept_as_evidence(front: Front) -> None:
    response = await front.submit()
    kinds = [front.shelves.evidence[ACME, EvidenceId(one["id"])][0].kind for one in response.json["evidence"]]

    assert {EvidenceKind.IMAGE, EvidenceKind.SELFIE} <= set(kinds)


async def test_kept_images_carry_no_metadata(front: Front) -> None:
    exif = Image.Exif()
    exif[0x010E] = "CANARY-description"
    image = encoded(draw_image(kind="JPEG", exif=exif))
    response = await front.submit(build_body(selfie_image_base64=image))
    stored = [
        await front.stores.evidence.get(ACME, EvidenceId(one["id"])) for one in response.json["evidence"]
    ]

    assert not any(b"CANARY" in content for content in stored)


async def test_the_command_carries_no_image_and_no_declared_value(front: Front) -> None:
    await front.submit(
        build_body(document={"extracted_fields": {"surname": "CANARY"}, "number_last4": "9Z9Z"})
    )
    sent = front.gateway.asked[0].to_bytes()

    assert b"CANARY" not in sent
    assert b"9Z9Z" not in sent
    assert len(sent) < 2_000


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreUnavailable(), 500, "STORE_FAILED"),
        (DecisionPending(), 503, "DECISION_PENDING"),
        (Overloaded(), 503, "OVERLOADED"),
        (RuntimeError("CANARY"), 500, "STORE_FAILED"),
    ],
)
async def test_what_the_log_cannot_do_is_said_in_the_interfaces_words(
    front: Front, error: Exception, status: int, code: str
) -> None:
    front.gateway.failing = error
    response = await front.submit()

    assert (response.status, response.code) == (status, code)
    assert b"CANARY" not in response.body
    assert ("Retry-After" in response.headers) == (status == 503)


async def test_a_refused_command_frees_its_key(front: Front) -> None:
    front.gateway.failing = Refused.at("/selfie_image_base64", ProblemCode.IMAGE_NOT_EVALUABLE, "No face.")
    refused = await front.submit(idempotency_key="order-1")
    front.gateway.failing = None
    response = await front.submit(idempotency_key="order-1")

    assert (refused.status, response.status) == (422, 201)


@pytest.mark.parametrize(
    ("error", "key", "left"),
    [
        (NeverSent(), None, 0),
        (Overloaded(), None, 0),
        (NeverSent(), "order-1", 2),
        (StoreUnavailable(), None, 2),
        (DecisionPending(), None, 2),
    ],
    ids=["never sent", "no room", "never sent, with a key", "perhaps sent", "sent"],
)
async def test_the_images_stay_unless_nobody_can_come_to_need_them(
    front: Front, error: Exception, key: str | None, left: int
) -> None:
    front.gateway.failing = error
    await front.submit(idempotency_key=key)

    assert len(front.shelves.evidence) == left


async def test_an_unreachable_store_on_reading_is_503(front: Front) -> None:
    front.keys.failing = StoreUnavailable()
    response = await front.ask("GET", PATH)

    assert (response.status, response.code, response.headers["Retry-After"]) == (
        503,
        "STORE_UNAVAILABLE",
        "5",
    )


@pytest.mark.parametrize("given", ["", '""', "x" * 256, "kéy", "a\tb"])
async def test_an_unusable_key_is_refused(front: Front, given: str) -> None:
    response = await front.submit(idempotency_key=given)

    assert (response.status, response.code) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert response.json["errors"][0]["header"] == "Idempotency-Key"


async def test_a_compressed_body_is_read(front: Front) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    response = await front.ask(
        "POST", PATH, data=gzip.compress(json.dumps(build_body()).encode()), headers=headers
    )

    assert response.status == 201


async def test_large_images_are_accepted(front: Front) -> None:
    noise = io.BytesIO()
    Image.effect_noise((1800, 1800), 90).convert("RGB").save(noise, "PNG")
    response = await front.submit(build_body(document={"image_base64": encoded(noise.getvalue())}))

    assert len(noise.getvalue()) > 1_000_000
    assert response.status == 201


async def test_a_key_without_the_scope_cannot_submit(front: Front) -> None:
    response = await front.submit(key=BARE)

    assert (response.status, response.code) == (403, "PERMISSION_DENIED")
    assert "verifications:write" in response.json["detail"]


async def test_the_callers_address_is_kept_for_the_audit_log_alone(front: Front) -> None:
    await front.submit(key=TEST)
    response = await front.ask("GET", "/v1/audit")

    assert response.json["events"][0]["context"]["ip"] == "127.0.0.1"
