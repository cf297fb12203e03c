"""Validate drafts, build revisions, and the state transitions of a flow (G3-G6, G23, G24, G94); pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from schemas.catalog import Capability
from schemas.enums import CheckKind, FlowStatus, FlowType
from schemas.flows import Flow, FlowConfiguration, FlowDocument, FlowDraft, FlowRevision
from schemas.ids import UserId
from schemas.problems import FieldProblem, ProblemCode, Refused

MOST_URL_CHARS: Final = 2_048

_BIOMETRIC: Final = (CheckKind.LIVENESS, CheckKind.FACE_MATCH)
_DOCUMENT: Final = (CheckKind.AUTHENTICITY, CheckKind.DOCUMENT_EXTRACTION, CheckKind.DOCUMENT_CONSISTENCY)

REQUIRED_CHECKS: Final[Mapping[FlowType, tuple[CheckKind, ...]]] = {
    FlowType.BIOMETRIC: _BIOMETRIC,
    FlowType.DOCUMENT: _DOCUMENT,
    FlowType.FULL_IDENTITY: (*_DOCUMENT, *_BIOMETRIC),
}
"""The required checks of each flow type (G6); stored with every revision, never derived later."""

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
_UNPRINTABLE: Final = re.compile(r"[^\x21-\x7e]")


def codes_of(draft: FlowDraft) -> tuple[str, ...]:
    """Return all catalogue codes the draft names."""
    return tuple(code for selection in draft.documents for code in selection.capabilities)


def problems_of(draft: FlowDraft, catalogue: Mapping[str, Capability]) -> Iterator[FieldProblem]:
    """Yield every problem of a draft with its pointer; `catalogue` has the entries it names."""
    if draft.return_url is not None and not is_return_url(draft.return_url):
        message = "The return URL must be https with a host, without user, fragment or spaces."
        yield _wrong(ProblemCode.RETURN_URL_INVALID, "/return_url", message)
    if draft.flow_type is FlowType.BIOMETRIC:
        if draft.documents:
            message = "A BIOMETRIC flow takes no documents."
            yield _wrong(ProblemCode.DOCUMENTS_NOT_ALLOWED, "/documents", message)
        return
    if not draft.documents:
        message = f"A {draft.flow_type} flow needs documents."
        yield _wrong(ProblemCode.DOCUMENTS_REQUIRED, "/documents", message)
    yield from _problems_of_selection(draft, catalogue)


def require_valid(draft: FlowDraft, catalogue: Mapping[str, Capability]) -> None:
    """Raise `Refused`, with every problem of the draft, if it has one."""
    errors = tuple(problems_of(draft, catalogue))
    if errors:
        codes = {error.code for error in errors}
        code = codes.pop() if len(codes) == 1 else ProblemCode.VALIDATION_FAILED
        raise Refused.because(code, refusal_text(errors), *errors)


def _problems_of_selection(draft: FlowDraft, catalogue: Mapping[str, Capability]) -> Iterator[FieldProblem]:
    countries: set[str] = set()
    for index, selection in enumerate(draft.documents):
        place = f"/documents/{index}"
        if selection.country in countries:
            message = "The country is named twice."
            yield _wrong(ProblemCode.VALIDATION_FAILED, f"{place}/country", message)
        countries.add(selection.country)
        if not selection.capabilities:
            message = "Name at least one document of the country."
            yield _wrong(ProblemCode.DOCUMENTS_REQUIRED, f"{place}/capabilities", message)
        for position, code in enumerate(selection.capabilities):
            pointer = f"{place}/capabilities/{position}"
            if code in selection.capabilities[:position]:
                yield _wrong(ProblemCode.VALIDATION_FAILED, pointer, "The document is named twice.")
            else:
                yield from _problems_of_code(catalogue.get(code), selection.country, pointer)


def _problems_of_code(entry: Capability | None, country: str, pointer: str) -> Iterator[FieldProblem]:
    if entry is None or entry.country != country:
        message = "The catalogue has no such document of this country."
        yield _wrong(ProblemCode.CAPABILITY_UNKNOWN, pointer, message)
    elif not entry.enabled:
        yield _wrong(ProblemCode.CAPABILITY_DISABLED, pointer, "The document is not offered any more.")


def is_return_url(url: str) -> bool:
    """Return whether the URL may be a return URL: https, a host, no user, no fragment (G3)."""
    if len(url) > MOST_URL_CHARS or _UNPRINTABLE.search(url) or "\\" in url or "#" in url:
        return False
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        return False
    host = parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc
    named = parts.scheme == "https" and "@" not in parts.netloc and not parts.netloc.endswith(":")
    return named and port_is_one and _HOST.fullmatch(host) is not None


def freeze(draft: FlowDraft, catalogue: Mapping[str, Capability]) -> FlowConfiguration:
    """Return the configuration of a revision, with copies of the current catalogue entries."""
    return FlowConfiguration(
        flow_type=draft.flow_type,
        required_checks=REQUIRED_CHECKS[draft.flow_type],
        documents=tuple(_snapshot(catalogue[code]) for code in codes_of(draft)),
        return_url=draft.return_url,
    )


def _snapshot(entry: Capability) -> FlowDocument:
    return FlowDocument(
        code=entry.code,
        country=entry.country,
        document_type=entry.document_type,
        display_name=entry.display_name,
        capture=entry.capture,
        reader=entry.reader,
    )


def draft_of(flow: Flow) -> FlowDraft:
    """Return the draft fields of a flow."""
    return FlowDraft(
        name=flow.name, flow_type=flow.flow_type, documents=flow.documents, return_url=flow.return_url
    )


def edited(flow: Flow, draft: FlowDraft, now: datetime) -> Flow:
    """Return the flow with another draft."""
    fields = {name: getattr(draft, name) for name in FlowDraft.model_fields}
    return flow.model_copy(update={**fields, "updated_at": now})


def published(flow: Flow, configuration: FlowConfiguration, by: UserId, now: datetime) -> Flow:
    """Return the flow with a new revision; an unchanged configuration returns the same flow (G94)."""
    if flow.published is not None and flow.published.configuration == configuration:
        return flow
    revision = FlowRevision(
        revision=(flow.published_revision or 0) + 1,
        configuration=configuration,
        published_at=now,
        published_by=by,
    )
    update = {
        "status": FlowStatus.ACTIVE,
        "published": revision,
        "published_at": now,
        "published_revision": revision.revision,
        "updated_at": now,
    }
    return flow.model_copy(update=update)


def archived(flow: Flow, now: datetime) -> Flow:
    """Return the flow archived; one archived before is unchanged."""
    if flow.status is FlowStatus.ARCHIVED:
        return flow
    return flow.model_copy(update={"status": FlowStatus.ARCHIVED, "archived_at": now, "updated_at": now})


def indexes(flow: Flow) -> tuple[tuple[str, str], ...]:
    """Return the indexes of a flow."""
    return tuple(
        index_of(status, flow_type) for status in (None, flow.status) for flow_type in (None, flow.flow_type)
    )


def index_of(status: FlowStatus | None, flow_type: FlowType | None) -> tuple[str, str]:
    """Return the index of the flows of a status and a type; None means any."""
    return "flows", f"{status or '*'}|{flow_type or '*'}"


def refusal_text(errors: Sequence[FieldProblem]) -> str:
    """Return one sentence about all problems."""
    return errors[0].message if len(errors) == 1 else f"{len(errors)} places of the draft are not valid."


def _wrong(code: ProblemCode, pointer: str, message: str) -> FieldProblem:
    return FieldProblem(code=code, message=message, pointer=pointer)
