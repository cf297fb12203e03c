"""Evidence images and decision records (G87, G106); every view of an image is audited."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from app.http.endpoints import Access, Answer, Call, Credential, Endpoint, reviewer
from app.http.listing import modes
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from schemas.audit import AuditAction, AuditEvent
from schemas.enums import Scope
from schemas.ids import EvidenceId, derive_id, encode_id
from schemas.people import Permission
from schemas.problems import NotFound
from schemas.reviews import Decision
from schemas.verifications import StoredVerification
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.ports.records import RecordKind
from streams.reviews.decisions import decision_of
from streams.reviews.handler import find_decision, viewed_index

PATH: Final = "/v1/verifications/{verification_id}/evidence/{evidence_id}"
DECISION_PATH: Final = "/v1/decisions/{decision_id}"
_ENDINGS: Final = {
    "image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "application/json": "json",
}  # fmt: skip
"""The media types of evidence, with the ending of a file's name."""

_UNKNOWN: Final = "application/octet-stream"
_ID: Final = "[0-9a-hjkmnp-tv-z]{26}"


def viewed_row(
    ports: FrontPorts, call: Call, stored: StoredVerification, detail: str, changes: Mapping[str, Any]
) -> AuditEvent:
    """Return the audit row of a view of personal data of a verification."""
    verification = stored.verification
    return write_row(
        derive_id("aud", encode_id("vw", ports.fresh_uuid())),
        AuditAction.EVIDENCE_VIEWED,
        call.actor,
        verification.subject_id,
        ports.clock(),
        detail=detail,
        changes={**changes, "verification_id": verification.verification_id},
        decision_id=verification.decision_id,
        livemode=stored.livemode,
    )


@dataclass(frozen=True, slots=True)
class EvidenceRoutes:
    """What the routes of evidence and decisions do."""

    ports: FrontPorts

    async def view(self, call: Call) -> web.Response:
        """Return a piece of evidence to a reviewer; the view is audited first."""
        tenant_id, evidence_id = call.tenant_id, EvidenceId(call.path_value("evidence_id"))
        stores = self.ports.stores
        record = await stores.records.get(
            tenant_id, RecordKind.VERIFICATION, call.path_value("verification_id")
        )
        stored = StoredVerification.from_bytes(record.body)
        verification = stored.verification
        document = verification.document.evidence if verification.document else ()
        if evidence_id not in {one.id for one in (*verification.evidence, *document)}:
            raise NotFound
        piece = await stores.evidence.describe(tenant_id, evidence_id)
        content = await stores.evidence.get(tenant_id, evidence_id)
        row = viewed_row(
            self.ports,
            call,
            stored,
            f"Evidence {evidence_id} of verification {verification.verification_id} was looked at.",
            {"evidence_id": evidence_id, "kind": piece.kind},
        )
        looked = viewed_index(verification.verification_id, call.person.reviewer_id)
        await self.ports.commit(act(tenant_id, row, indexes=(looked,), about=evidence_id))
        return download(content, piece.media_type, evidence_id)

    async def read_decision(self, call: Call) -> web.Response:
        """Answer a decision record, a superseded one too."""
        tenant_id, decision_id = call.tenant_id, call.path_value("decision_id")
        records = self.ports.stores.records
        try:
            record = await records.get(tenant_id, RecordKind.DECISION, decision_id)
            decision = Decision.from_bytes(record.body)
        except NotFound:
            found = await find_decision(records, tenant_id, decision_id)
            if found is None:
                raise
            decision = decision_of(StoredVerification.from_bytes(found.body), found.created_at, None)
        if decision.livemode not in modes(call):
            raise NotFound
        return json_answer(decision.to_bytes())


def download(content: bytes, media_type: str, name: str) -> web.Response:
    """Answer with bytes that a browser saves and never shows as a page of ours (S52); `name` is an id.

    A type that no capture can have is served as bytes of no type.
    """
    known = media_type if media_type in _ENDINGS else _UNKNOWN
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{_ENDINGS.get(known, "bin")}"',
        "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    }
    return web.Response(body=content, content_type=known, headers=headers)


def evidence_endpoints(routes: EvidenceRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.view,
            summary="Look at a piece of evidence",
            description="Every look is a row of the audit log.",
            answers={
                HTTPStatus.OK: Answer("The evidence as it is kept.", media_type=_UNKNOWN, also=(*_ENDINGS,))
            },
            family="Verifications",
            access=reviewer(Permission.EVIDENCE_READ),
            path_forms={"verification_id": f"ver_{_ID}", "evidence_id": f"evd_{_ID}"},
            audits=(AuditAction.EVIDENCE_VIEWED,),
        ),
        Endpoint(
            method="GET",
            path=DECISION_PATH,
            handler=routes.read_decision,
            summary="Read a decision, superseded or standing",
            answers={HTTPStatus.OK: Answer("The decision.", Decision)},
            family="Verifications",
            access=Access(
                frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
                scope=Scope.VERIFICATIONS_READ,
                permission=Permission.VERIFICATIONS_READ,
            ),
            path_forms={"decision_id": f"dec_{_ID}"},
        ),
    )
