"""`GET /v1/subjects/{subject_id}/export`: all that is stored of a subject, as a ZIP (G65, R13)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.listing import modes
from app.http.ports import FrontPorts
from app.http.responses import dress
from app.http.subject_export import SubjectExport, exported_row
from schemas.audit import AuditAction
from schemas.ids import SubjectId, encode_id
from schemas.people import Permission
from schemas.verifications import SUBJECT_PATTERN
from streams.audit.commit import act

EXPORT: Final = "/v1/subjects/{subject_id}/export"

_ZIP: Final = "application/zip"

_BYTES: Final = "application/octet-stream"
"""The same for clients that are generated from the description, which know no ZIP."""


@dataclass(frozen=True, slots=True)
class SubjectExportRoutes:
    """What the route of a subject's export does."""

    ports: FrontPorts
    standing: Mapping[str, str]

    async def export(self, call: Call) -> web.StreamResponse:
        """Stream the ZIP, audited first; a store that fails midway cuts the answer short, visibly."""
        subject_id = SubjectId(call.path_value("subject_id"))
        ports = self.ports
        hashes = ports.dispositions.hashes
        export = SubjectExport(ports.stores, hashes, call.tenant_id, subject_id, modes(call))
        await export.require_known()
        reads = call.request.method != "HEAD"
        if reads:
            name = encode_id("exp", self.ports.fresh_uuid())
            row = exported_row(name, subject_id, call.actor, self.ports.clock())
            await self.ports.commit(act(call.tenant_id, row))
        response = web.StreamResponse(
            headers={"Content-Disposition": 'attachment; filename="export.zip"', "Content-Type": _ZIP}
        )
        dress(response, call, self.standing)
        await response.prepare(call.request)
        call.begun = True
        if reads:
            async for chunk in export.chunks(self.ports.clock()):
                await response.write(chunk)
        await response.write_eof()
        return response


def subject_export_endpoints(routes: SubjectExportRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="GET",
            path=EXPORT,
            handler=routes.export,
            summary="Export all that is stored of a subject",
            description="A ZIP of the subject's verifications, transactions and those imported, name "
            "screenings, wallet assessments, dispositions, review cases and appeals with their notes, "
            "overturned decisions, suspensions, sessions and audit rows as JSON, its images and readings as "
            "they are stored, and the JSON schemas of the files. "
            "`manifest.json` is its last file: it lists the others and what was left out because it was "
            "removed. Network addresses are taken out of the audit rows.",
            answers={HTTPStatus.OK: Answer("The ZIP.", media_type=_BYTES, also=(_ZIP,))},
            family="Privacy",
            access=reviewer(Permission.PRIVACY_MANAGE),
            path_forms={"subject_id": SUBJECT_PATTERN},
            audits=(AuditAction.PRIVACY_EXPORTED,),
        ),
    )
