"""Read the entries of a list from a body, with a pointer for every error (G116)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from app.http.bodies import MAX_ERRORS, BodyReader, field_problem, pointer_to
from app.http.endpoints import Call
from app.http.problems import refused_fields
from app.http.responses import JSON
from schemas.base import Frozen
from schemas.lists import ENTRY_MODEL, ListEntry, ListKind, Word
from schemas.problems import FieldProblem, ProblemCode, Refused
from schemas.tenant_lists import MOST_LIST_ENTRIES, MOST_PATCHED
from streams.lists.formats.tenant import EntriesInvalid, EntryError, TextForm, read_entries

FORMS: Final[Mapping[str, TextForm]] = {
    "application/x-ndjson": TextForm.NDJSON,
    "text/csv": TextForm.CSV,
    "application/json": TextForm.JSON,
}
"""How entries are written, by media type."""

MOST_PATCH_BYTES: Final = 4 * 1024 * 1024

_CODE: Final = ProblemCode.LIST_INVALID


class PatchListBody(Frozen):
    """What is added to a list and what is removed, of the list's kind."""

    add: Annotated[tuple[dict[str, Any], ...], Field(max_length=MOST_PATCHED)] = Field(
        default=(), description="Entries; one that is on the list already is replaced."
    )
    remove: Annotated[tuple[Word, ...], Field(max_length=MOST_PATCHED)] = Field(
        default=(), description="The `entity_id`, `value` or `address` of entries; unknown ones are ignored."
    )


async def read_list(call: Call, bodies: BodyReader, kind: ListKind) -> list[ListEntry]:
    """Return the entries of a whole list.

    Raises:
        Refused: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, LIST_INVALID with every error, a hundred at most.
    """
    form = FORMS.get(call.request.content_type)
    if form is None:
        raise Refused.because(ProblemCode.UNSUPPORTED_MEDIA_TYPE, f"A list is {', '.join(FORMS)}.")
    raw = await bodies.read_bytes(call)
    try:
        return await asyncio.to_thread(read_entries, BytesIO(raw), form, kind, MOST_LIST_ENTRIES)
    except EntriesInvalid as invalid:
        raise _refused(invalid.errors) from None


async def read_patch(call: Call, bodies: BodyReader) -> PatchListBody:
    """Return what is to change; the body may have far more keys than others.

    Raises:
        Refused: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, MALFORMED_JSON, VALIDATION_FAILED.
    """
    if call.request.content_type != JSON:
        raise Refused.because(ProblemCode.UNSUPPORTED_MEDIA_TYPE, f"The body must be {JSON}.")
    return await asyncio.to_thread(_patch_of, await bodies.read_bytes(call))


def _patch_of(raw: bytes) -> PatchListBody:
    try:
        return PatchListBody.model_validate(json.loads(raw))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise refused_fields([field_problem(one) for one in found[:MAX_ERRORS]]) from None
    except (ValueError, RecursionError):
        raise Refused.because(ProblemCode.MALFORMED_JSON, "The body is not JSON in UTF-8.") from None


def added_entries(body: PatchListBody, kind: ListKind) -> list[ListEntry]:
    """Return the entries to add.

    Raises:
        Refused: LIST_INVALID; an entry is none of the kind, or there are too many changes.
    """
    if len(body.add) + len(body.remove) > MOST_PATCHED:
        raise Refused.at("", _CODE, f"One request changes at most {MOST_PATCHED} entries.")
    entries: list[ListEntry] = []
    errors: list[EntryError] = []
    for number, row in enumerate(body.add):
        try:
            entries.append(ENTRY_MODEL[kind].model_validate_json(json.dumps(row)))
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)
            places = ((pointer_to(("add", number, *one["loc"])), one["msg"]) for one in found)
            errors += [EntryError(pointer, None, message) for pointer, message in places]
    if errors:
        raise _refused(errors[:100])
    return entries


def _refused(errors: Sequence[EntryError]) -> Refused:
    fields = [
        FieldProblem(code=_CODE, message=error.message, pointer=error.pointer[:200], line=error.line)
        for error in errors
    ]
    return Refused.because(_CODE, "The list has entries that cannot be read; nothing was changed.", *fields)
