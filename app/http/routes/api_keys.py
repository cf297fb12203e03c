"""`/v1/control/api-keys`: a tenant's keys, made, rotated and revoked by its members (G46, G82, G83, G107)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import BeforeValidator, Field, StrictBool, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Answer, Call, Endpoint, Handler, reviewer
from app.http.filters import LIVEMODE, Paging, modes, parse_moment
from app.http.idempotent_create import REPLAYED, created_or_replayed, name_created
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.control_sessions import IDEMPOTENCY
from schemas.access import ApiKey, IssuedKey, KeyList
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import Scope
from schemas.ids import KeyId
from schemas.members import PlainName
from schemas.people import Permission
from schemas.problems import ProblemCode
from streams.tenants.api_keys import LONGEST_OVERLAP, MadeKey, NewKey, position_of, show_key
from streams.tenants.handler import RequestName, RevokeKey

PATH: Final = "/v1/control/api-keys"
ONE: Final = f"{PATH}/{{key_id}}"
ROTATE: Final = f"{ONE}/rotate"
KEY_FORM: Final = r"key_[0-9a-hjkmnp-tv-z]{26}"
PAGING: Final = Paging(usual=25, most=100)
NEVER: Final = "never"

_FAMILY: Final = "API keys"
_ACCESS: Final = reviewer(Permission.API_KEYS_MANAGE)


def _expiry(value: object) -> datetime | None:
    if value == NEVER:
        return None
    moment = parse_moment(value) if isinstance(value, str) else None
    if moment is None:
        message = 'Input should be an RFC 3339 time such as 2027-01-31T12:00:00Z, or "never"'
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)
    return moment


def _network(value: object) -> IPv4Network | IPv6Network:
    try:
        if isinstance(value, str):
            return ip_network(value)
    except ValueError:
        pass
    message = "Input should be a network such as 192.0.2.0/24, no bit set behind its prefix"
    raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)


Expiry = Annotated[
    datetime | None,
    BeforeValidator(_expiry),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"const": NEVER}]}),
]
"""When a key ends; that it never does must be said."""

Network = Annotated[
    IPv4Network | IPv6Network,
    BeforeValidator(_network),
    WithJsonSchema({"type": "string", "description": "CIDR notation"}),
]


class CreateKeyBody(Frozen):
    """A new key."""

    name: PlainName
    livemode: StrictBool = True
    """False: it sees and makes only test data."""
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=len(Scope))] = tuple(Scope)
    expires_at: Expiry
    """A time, or `never`."""
    allowed_cidrs: Annotated[tuple[Network, ...], Field(max_length=50)] = ()
    """From where it may be used; empty: from anywhere."""

    def wish(self) -> NewKey:
        """Return what is asked for."""
        scopes, networks = tuple(dict.fromkeys(self.scopes)), tuple(dict.fromkeys(self.allowed_cidrs))
        return NewKey(self.name, self.livemode, scopes, self.expires_at, networks)


class RotateKeyBody(Frozen):
    """How long the key is good as it was before."""

    overlap_seconds: Annotated[int, Field(strict=True, ge=0, le=int(LONGEST_OVERLAP.total_seconds()))] = 0


@dataclass(frozen=True, slots=True)
class KeyRoutes:
    """What the routes of the keys do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def read_all(self, call: Call) -> web.Response:
        """Answer a page of the tenant's keys; the keys themselves are never shown again."""
        query, seen = call.request.query, modes(call)
        scope = {"list": PATH, "tenant": call.tenant_id, "modes": repr(seen)}
        cursor, limit = query.get("cursor"), PAGING.limit(query)
        before = self.cursors.read(cursor, scope) if cursor is not None else None
        keys = self.ports.keys
        found = await keys.page(call.tenant_id, seen, limit + 1, before) if limit else ()
        rows = [show_key(key, keys.clock()).model_dump_json().encode() for key in found[:limit]]
        last = found[limit - 1] if len(found) > limit else None
        following = None if last is None else self.cursors.write(position_of(last), scope)
        return json_list("api_keys", rows, following)

    async def create(self, call: Call) -> web.Response:
        """Make a key and show it once; a replayed request answers 200 without it."""
        body = await self.bodies.read(call, CreateKeyBody)
        named = name_created(
            "key", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=body.livemode
        )
        request = RequestName(named.id, named.fingerprint)
        made = await self.ports.keys.create(call.tenant_id, body.wish(), request, call.actor)
        if made.text is None:
            return self._issued(made, headers={REPLAYED: "true"})
        return self._issued(made, HTTPStatus.CREATED)

    async def rotate(self, call: Call) -> web.Response:
        """Give a key a new secret and show it once."""
        body = await self.bodies.read(call, RotateKeyBody)
        overlap = timedelta(seconds=body.overlap_seconds)
        return self._issued(await self.ports.keys.rotate(call.tenant_id, _key_of(call), overlap, call.actor))

    async def revoke(self, call: Call) -> web.Response:
        """End a key at once; ending it again changes nothing."""
        keys = self.ports.keys
        await RevokeKey(keys.records, keys.commit, keys.clock)(call.tenant_id, _key_of(call), call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    def _issued(self, made: MadeKey, status: HTTPStatus = HTTPStatus.OK, **more: Any) -> web.Response:
        shown = _shown(made.key, self.ports.keys.clock())
        issued = IssuedKey(**shown, api_key=made.text)
        return json_answer(issued.model_dump_json().encode(), status, **more)


def _shown(key: ApiKey, now: datetime) -> dict[str, Any]:
    return show_key(key, now).model_dump()


def _key_of(call: Call) -> KeyId:
    return KeyId(call.path_value("key_id"))


def key_endpoints(routes: KeyRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read_all,
            summary="List the API keys, newest first",
            answers={HTTPStatus.OK: Answer("A page of keys, revoked ones among them.", KeyList)},
            family=_FAMILY,
            access=_ACCESS,
            parameters=(LIVEMODE, *PAGING.parameters),
        ),
        Endpoint(
            method="POST",
            path=PATH,
            handler=routes.create,
            summary="Make an API key",
            answers=created_or_replayed(
                Answer("The key, shown this once.", IssuedKey),
                IssuedKey,
                "The Idempotency-Key had been used; `api_key` is null.",
            ),
            family=_FAMILY,
            access=_ACCESS,
            headers=(IDEMPOTENCY,),
            body=CreateKeyBody,
            problems=(ProblemCode.IDEMPOTENCY_KEY_INVALID, ProblemCode.IDEMPOTENCY_KEY_REUSED),
            audits=(AuditAction.API_KEY_CREATED,),
        ),
        _revoke(routes.revoke),
        _rotate(routes.rotate),
    )


def _revoke(handler: Handler) -> Endpoint:
    return Endpoint(
        method="DELETE",
        path=ONE,
        handler=handler,
        summary="Revoke an API key",
        description="Its next request is refused, whatever overlap of a rotation was running.",
        answers={HTTPStatus.NO_CONTENT: Answer("It is revoked.", media_type="")},
        family=_FAMILY,
        access=_ACCESS,
        path_forms={"key_id": KEY_FORM},
        audits=(AuditAction.API_KEY_REVOKED,),
    )


def _rotate(handler: Handler) -> Endpoint:
    return Endpoint(
        method="POST",
        path=ROTATE,
        handler=handler,
        summary="Rotate an API key",
        description="The key keeps its id and everything it is good for; what it was before works until the "
        "overlap ends, and so does what is left of an earlier overlap, no longer.",
        answers={HTTPStatus.OK: Answer("The key, its new form shown this once.", IssuedKey)},
        family=_FAMILY,
        access=_ACCESS,
        path_forms={"key_id": KEY_FORM},
        body=RotateKeyBody,
        audits=(AuditAction.API_KEY_ROTATED,),
    )
