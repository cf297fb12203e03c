"""`/v1/lists`: a tenant's own lists of names, values and wallets, beside the deployment's (G116)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import IDEMPOTENCY, Access, Answer, Call, Credential, Endpoint, Handler, Parameter
from app.http.headers import idempotency_key
from app.http.idempotent_create import KEY_PROBLEMS, LOCATION, REPLAYED, created_at
from app.http.listing import Paging, refused_filter, word
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.lists.bodies import (
    FORMS,
    MOST_PATCH_BYTES,
    PatchListBody,
    added_entries,
    read_list,
    read_patch,
)
from app.http.routes.lists.entries import page_of_entries
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import CheckKind, Scope
from schemas.ids import PLATFORM, TenantId, derive_id
from schemas.lists import LIST_NAME_PATTERN, ListKind, ListOwner, Word
from schemas.people import Permission
from schemas.policy_fields import NAME_CHECKS
from schemas.problems import NotFound, ProblemCode
from schemas.tenant_lists import MOST_LIST_BYTES, ScreeningList, StoredList
from streams.lists.handler import Changed, ListForm

PATH: Final = "/v1/lists"
NAME_FORM: Final = LIST_NAME_PATTERN.removeprefix("^").removesuffix("$")
PAGING: Final = Paging(usual=25, most=100)
FAMILY: Final = "Lists"

_BOTH: Final = frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION})
READS: Final = Access(_BOTH, scope=Scope.LISTS_READ, permission=Permission.LISTS_READ)
MANAGES: Final = Access(_BOTH, scope=Scope.LISTS_WRITE, permission=Permission.LISTS_MANAGE)

_WORD: Final[TypeAdapter[str]] = TypeAdapter(Word)
_MOST_FRAGMENT: Final = 100


class ScreeningLists(Frozen):
    """The lists that a tenant's transactions and names are compared with."""

    lists: tuple[ScreeningList, ...]
    next_cursor: None = None


class ListEntries(Frozen):
    """Entries of a list, each as it was uploaded."""

    entries: tuple[dict[str, Any], ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ListRoutes:
    """What the routes of lists do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def list_all(self, call: Call) -> web.Response:
        """Answer the tenant's lists and the deployment's, all at once."""
        own, _ = await self.ports.lists.storage.load(call.tenant_id)
        deployment, _ = await self.ports.lists.storage.load(PLATFORM)
        shown = [
            *(show_list(one, ListOwner.TENANT) for one in own.lists),
            *(show_list(one, ListOwner.DEPLOYMENT) for one in deployment.lists),
        ]
        return json_list("lists", [one.to_bytes() for one in shown], None)

    async def read(self, call: Call) -> web.Response:
        """Answer one list without its entries."""
        _, owner, stored = await self._find(call)
        return json_answer(show_list(stored, owner).to_bytes())

    async def read_entries(self, call: Call) -> web.Response:
        """Answer a page of a list's entries."""
        tenant_id, _, stored = await self._find(call)
        query = call.request.query
        fragment, limit = query.get("q", ""), PAGING.limit(query)
        if len(fragment) > _MOST_FRAGMENT:
            raise refused_filter("q", f"At most {_MOST_FRAGMENT} characters.")
        scope = {"tenant": call.tenant_id, "list": "entries", "place": stored.place, "q": fragment}
        before = self.cursors.read(query["cursor"], scope) if "cursor" in query else None
        if not limit:
            return json_list("entries", [], None)
        page = await page_of_entries(self.ports.lists.storage, tenant_id, stored, fragment, limit, before)
        return json_list("entries", page.rows, self.cursors.write_next(page.following, scope))

    async def replace(self, call: Call) -> web.Response:
        """Replace a list by the entries of the body, or make it."""
        name, form = call.path_value("name"), _form(call.request.query)
        await self.ports.lists.require_free(call.tenant_id, name, form.kind)
        entries = await read_list(call, self.bodies, form.kind)
        changed = await self.ports.lists.replace(
            call.tenant_id, name, form, entries, call.actor, key_of(call, call.tenant_id)
        )
        if changed.created:
            body = show_list(changed.stored, ListOwner.TENANT).to_bytes()
            return json_answer(body, HTTPStatus.CREATED, created_at(PATH, name))
        return _answer(changed)

    async def patch(self, call: Call) -> web.Response:
        """Add and remove entries."""
        name, body = call.path_value("name"), await read_patch(call, self.bodies)
        lists, _ = await self.ports.lists.storage.load(call.tenant_id)
        stored = lists.named(name)
        if stored is None:
            raise NotFound(name)
        entries = added_entries(body, stored.kind)
        changed = await self.ports.lists.patch(
            call.tenant_id, name, entries, frozenset(body.remove), call.actor, key_of(call, call.tenant_id)
        )
        return _answer(changed)

    async def delete(self, call: Call) -> web.Response:
        """Delete a list that no published policy names."""
        await self.ports.lists.delete(call.tenant_id, call.path_value("name"), call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _find(self, call: Call) -> tuple[TenantId, ListOwner, StoredList]:
        """Return the list of the path and whose it is, the tenant's own first, or raise `NotFound`."""
        name = call.path_value("name")
        for tenant_id, owner in ((call.tenant_id, ListOwner.TENANT), (PLATFORM, ListOwner.DEPLOYMENT)):
            lists, _ = await self.ports.lists.storage.load(tenant_id)
            stored = lists.named(name)
            if stored is not None:
                return tenant_id, owner, stored
        raise NotFound(name)


def key_of(call: Call, owner: TenantId) -> str | None:
    """Return the id of the record with the answer to the request's Idempotency-Key; None without one."""
    key, endpoint = idempotency_key(call.request), call.endpoint
    if key is None or endpoint is None:
        return None
    return derive_id("lsk", owner, f"{endpoint.method} {call.request.path}", key)


def _answer(changed: Changed) -> web.Response:
    headers = {REPLAYED: "true"} if changed.replayed else {}
    return json_answer(show_list(changed.stored, ListOwner.TENANT).to_bytes(), headers=headers)


def show_list(stored: StoredList, owner: ListOwner) -> ScreeningList:
    """Return a list as its readers see it."""
    return ScreeningList(
        name=stored.name,
        owner=owner,
        kind=stored.kind,
        check=stored.check,
        category=stored.category,
        entries=stored.entries,
        version=stored.version,
        source_date=stored.source_date,
        loaded_at=stored.loaded_at,
        stale=stored.problem is not None,
        problem=stored.problem,
    )


def _form(query: Mapping[str, str]) -> ListForm:
    """Return what the query says a list is.

    Raises:
        Refused: FILTER_INVALID.
    """
    kind, check = word(query, "kind", ListKind), word(query, "check", CheckKind)
    if kind is None:
        raise refused_filter("kind", f"The value must be one of {', '.join(ListKind)}.")
    if check is not None and (check not in NAME_CHECKS or kind is ListKind.VALUES):
        raise refused_filter("check", f"One of {', '.join(sorted(NAME_CHECKS))}, and not with VALUES.")
    if check is None and kind is ListKind.NAMES:
        check = CheckKind.SANCTIONS
    return ListForm(kind, check, _category(query))


def _category(query: Mapping[str, str]) -> str | None:
    if "category" not in query:
        return None
    try:
        return _WORD.validate_python(query["category"])
    except ValidationError:
        raise refused_filter("category", "The value has 1 to 256 characters.") from None


_WAITS: Final = (ProblemCode.OVERLOADED,)
_FORM_OF_LIST: Final = (
    Parameter("kind", "What the entries are; required.", {"enum": [kind.value for kind in ListKind]}),
    Parameter(
        "check",
        "Which check names and wallets belong to; SANCTIONS for names unless said otherwise.",
        {"enum": sorted(check.value for check in NAME_CHECKS)},
    ),
    Parameter("category", "A word of your own for the list.", {"type": "string", "maxLength": 256}),
)
LIST_KEY: Final = Parameter(
    IDEMPOTENCY,
    "1 to 255 printable ASCII characters, quoted or bare; the same key changes the list once, and its later "
    "requests are answered as the first was, with `Idempotent-Replayed: true`.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)
_FRAGMENT: Final = Parameter(
    "q",
    "Only entries whose id, name, value or address contains it, whatever its case. A page may be short, "
    "and even empty, before the last one.",
    {"type": "string", "maxLength": _MOST_FRAGMENT},
)


def list_endpoints(routes: ListRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    one = f"{PATH}/{{name}}"
    forms = {"name": NAME_FORM}
    return (
        _reads(PATH, routes.list_all, "List your lists and the deployment's", ScreeningLists),
        _reads(one, routes.read, "Read a list", ScreeningList),
        _reads(
            f"{one}/entries", routes.read_entries, "List the entries of a list", ListEntries,
            (_FRAGMENT, *PAGING.parameters),
        ),
        Endpoint(
            method="PUT",
            path=one,
            handler=routes.replace,
            summary="Replace a list, or make it",
            description="The body has all entries, at most 250,000 in 28 MiB: one JSON object a line, CSV "
            'under a header, or JSON `{"entries": […]}`. One bad entry and nothing changes; every error has '
            "its pointer, and its line where the body has lines. Screenings see the old version or the new "
            "one, here at once and everywhere within five seconds.",
            answers={
                HTTPStatus.OK: Answer("The list, replaced; or the first answer again.", ScreeningList),
                HTTPStatus.CREATED: Answer("The list, made.", ScreeningList, headers=LOCATION),
            },
            headers=(LIST_KEY,),
            family=FAMILY,
            access=MANAGES,
            path_forms=forms,
            parameters=_FORM_OF_LIST,
            text_body=tuple(FORMS),
            body_limit=MOST_LIST_BYTES,
            problems=(
                *KEY_PROBLEMS,
                ProblemCode.LIST_INVALID,
                ProblemCode.LIST_NAME_TAKEN,
                ProblemCode.VALIDATION_FAILED,
                *_WAITS,
            ),
            audits=(AuditAction.LIST_UPDATED,),
        ),
        Endpoint(
            method="PATCH",
            path=one,
            handler=routes.patch,
            summary="Add and remove entries",
            answers={HTTPStatus.OK: Answer("The list; or the first answer again.", ScreeningList)},
            headers=(LIST_KEY,),
            family=FAMILY,
            access=MANAGES,
            path_forms=forms,
            body=PatchListBody,
            body_limit=MOST_PATCH_BYTES,
            problems=(*KEY_PROBLEMS, ProblemCode.NOT_FOUND, ProblemCode.LIST_INVALID, *_WAITS),
            audits=(AuditAction.LIST_UPDATED,),
        ),
        Endpoint(
            method="DELETE",
            path=one,
            handler=routes.delete,
            summary="Delete a list",
            answers={HTTPStatus.NO_CONTENT: Answer("Deleted.", media_type="")},
            family=FAMILY,
            access=MANAGES,
            path_forms=forms,
            problems=(ProblemCode.NOT_FOUND, ProblemCode.LIST_IN_USE),
            audits=(AuditAction.LIST_DELETED,),
        ),
    )  # fmt: skip


def _reads(
    path: str, handler: Handler, summary: str, answer: type[Frozen], parameters: tuple[Parameter, ...] = ()
) -> Endpoint:
    named = "{name}" in path
    return Endpoint(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: Answer("As it stands.", answer)},
        family=FAMILY,
        access=READS,
        path_forms={"name": NAME_FORM} if named else {},
        parameters=parameters,
    )
