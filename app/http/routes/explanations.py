"""`GET /v1/verifications/{id}/explanation`: the reasons of a decision, for reviewers only (P17, G16)."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import web

from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.evidence import viewed_row
from app.http.routes.verifications import PATH as VERIFICATIONS
from app.http.routes.verifications import VERIFICATION_FORM, find_stored
from schemas.audit import AuditAction
from schemas.enums import EvidenceKind
from schemas.explanations import Explanation
from schemas.people import Permission
from schemas.problems import NotFound
from schemas.verifications import DeclaredDocument, PersonalFields, StoredVerification, Submission
from streams.audit.commit import act
from streams.ports.errors import Erased
from streams.verification.explanation import Reading, explain
from streams.verification.records import fields_label, submission_label

PATH: Final = f"{VERIFICATIONS}/{{verification_id}}/explanation"

One = TypeVar("One")


@dataclass(frozen=True, slots=True)
class ExplanationRoutes:
    """What the route of explanations does."""

    ports: FrontPorts

    async def read(self, call: Call) -> web.Response:
        """Return the explanation of a decision; a view of personal values is audited first."""
        stored = await find_stored(self.ports, call, call.path_value("verification_id"))
        personal = call.person.may(Permission.EVIDENCE_READ)
        reading, declared = await self._reading(call, stored), await self._declared(call, stored)
        if personal:
            await self._write_down(call, stored)
        answer = explain(stored, reading, declared, personal=personal)
        return json_answer(answer.to_bytes())

    async def _reading(self, call: Call, stored: StoredVerification) -> Reading:
        """Return the stored reading: its fields, and the confidence of each while evidence is stored."""
        vault, verification = self.ports.stores.vault, stored.verification
        personal = PersonalFields()
        if stored.sealed_fields is not None:
            label, sealed = fields_label(verification.verification_id), stored.sealed_fields
            opened = await _unless_gone(vault.open(call.tenant_id, verification.subject_id, label, sealed))
            personal = personal if opened is None else PersonalFields.from_bytes(opened)
        findings = await stored_findings(self.ports, call, stored)
        parts = (findings.get(name) or {} for name in ("confidence", "printed", "places"))
        return Reading(personal, findings.get("reader"), *parts)

    async def _declared(self, call: Call, stored: StoredVerification) -> DeclaredDocument | None:
        sealed, verification = stored.sealed_submission, stored.verification
        if sealed is None:
            return None
        label = submission_label(verification.verification_id)
        vault = self.ports.stores.vault
        opened = await _unless_gone(vault.open(call.tenant_id, verification.subject_id, label, sealed))
        return None if opened is None else Submission.from_bytes(opened).declared

    async def _write_down(self, call: Call, stored: StoredVerification) -> None:
        detail = f"The explanation of verification {stored.verification.verification_id} was looked at."
        row = viewed_row(self.ports, call, stored, detail, {})
        await self.ports.commit(act(call.tenant_id, row))


async def stored_findings(ports: FrontPorts, call: Call, stored: StoredVerification) -> dict[str, Any]:
    """Return what was read on the document, whole number included; empty once it was deleted."""
    document = stored.verification.document
    made = [one.id for one in (document.evidence if document else ()) if one.kind is EvidenceKind.EXTRACTION]
    if not made:
        return {}
    content = await _unless_gone(ports.stores.evidence.get(call.tenant_id, made[0]))
    findings: dict[str, Any] = {} if content is None else json.loads(content)
    return findings


async def _unless_gone(stored: Awaitable[One]) -> One | None:
    """Return what is awaited; None once it was deleted."""
    try:
        return await stored
    except (NotFound, Erased):
        return None


def explanation_endpoints(routes: ExplanationRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read,
            summary="Read why a verification was decided so",
            description="For reviewers: checks with their scores, the risk sum with its terms, thresholds, "
            "and how the sources of each field agree. Values of fields, and what the request declared, are "
            "in it for holders of `EVIDENCE_READ`, whose look is a row of the audit log.",
            answers={HTTPStatus.OK: Answer("What led to the decision.", Explanation)},
            family="Verifications",
            access=reviewer(Permission.CASES_READ),
            path_forms={"verification_id": VERIFICATION_FORM},
            audits=(AuditAction.EVIDENCE_VIEWED,),
        ),
    )
