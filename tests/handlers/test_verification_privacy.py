from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from schemas.problems import Refused
from schemas.verifications import SubmitVerification
from streams.verification.observations import Agreement, DocumentFindings
from tests.builders import (
    TODAY,
    build_declared,
    build_fields,
    build_findings,
    build_submission,
)
from tests.handlers.verification_stage import DOCUMENT, SELFIE, Scene, Stage, Trouble

CANARIES = ("CANARYNAME", "CANARY@GIVEN", "CAN4RY123", "1901-02-03", DOCUMENT.decode(), SELFIE.decode())


def canary_findings(**changes: Any) -> DocumentFindings:
    fields = build_fields(
        surname="CANARYNAME", given_names="CANARY@GIVEN", full_name="CANARYNAME", date_of_birth="1901-02-03"
    )
    return build_findings(**{"fields": fields, "number": "CAN4RY123"} | changes)


SCENES = {
    "approved": Scene(findings=canary_findings()),
    "reviewed": Scene(findings=canary_findings(printed={"surname": Agreement.MISMATCH}), distance=0.55),
    "rejected": Scene(
        findings=canary_findings(
            fields=build_fields(surname="CANARYNAME", expiry_date=(TODAY - timedelta(days=9)).isoformat())
        )
    ),
    "failed": Scene(findings=canary_findings(), trouble={"encode": Trouble.BROKEN}),
    "refused": Scene(findings=canary_findings(), selfie_faces=()),
}

DECLARED = build_declared(
    number_last4="Y123", extracted_fields={"surname": "CANARYNAME", "date_of_birth": "1901-02-03"}
)


async def written_by(scene: Scene) -> tuple[Stage, SubmitVerification, str]:
    """Run one verification and return everything that was written down in the clear."""
    stage = Stage(scene)
    command = await stage.keep(submission=build_submission(declared=DECLARED))
    said = ""
    with capture_logs() as logs:
        try:
            await stage.handler(command)
        except Refused as refused:
            said = f"{refused!r} {refused.refusal}"
    rows = [row.to_bytes() for rows in stage.shelves.audit.values() for row in rows.values()]
    events = [event.to_bytes() for event in (*stage.shelves.events.values(), *stage.announcer.events)]
    records = [record.body for record in stage.shelves.records.values()]
    memory = [memo.to_bytes() for memo in stage.state.stored.values()]
    sealed = [content for _, content in stage.shelves.evidence.values()]
    everything = [command.to_bytes(), *rows, *events, *records, *memory, *sealed]
    return stage, command, said + str(logs) + b"".join(everything).decode(errors="replace")


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
async def test_nothing_personal_is_written_in_the_clear(scene: Scene) -> None:
    _, _, written = await written_by(scene)

    assert [canary for canary in CANARIES if canary in written] == []


async def test_the_log_line_of_a_decision_names_ids_and_the_outcome_only() -> None:
    stage = Stage()

    with capture_logs() as logs:
        await stage.submit()

    (line,) = [entry for entry in logs if entry["event"] == "verification.decided"]
    assert set(line) == {
        "event",
        "log_level",
        "tenant_id",
        "verification_id",
        "decision_id",
        "status",
        "outcome",
    }


async def test_a_broken_engine_is_logged_by_name_and_kind_only() -> None:
    stage = Stage(Scene(trouble={"read": Trouble.BROKEN}))

    with capture_logs() as logs:
        await stage.submit()

    (line,) = [entry for entry in logs if entry["event"] == "engine.failed"]
    assert (line["engine"], line["cause"]) == ("text", "EngineFailed")
