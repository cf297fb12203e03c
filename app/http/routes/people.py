"""`/v1/control/people` and `/v1/control/preferences`: colleagues' names, one's own console (P20, P21)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import StrictBool, field_validator
from pydantic_core import PydanticCustomError

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.listing import place_of
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from schemas.audit import AuditAction
from schemas.base import Frozen, TextForm
from schemas.ids import UserId
from schemas.people import Preferences, Reviewer, Role, Theme
from schemas.problems import ProblemCode
from streams.ports.records import Position, RecordKind
from streams.reviewers.member_changes import change_preferences
from streams.reviewers.members import MEMBERS_INDEX, load_member

PEOPLE: Final = "/v1/control/people"
PREFERENCES: Final = "/v1/control/preferences"

_FAMILY: Final = "Members"
_READ: Final = 500
"""Members of one read."""

Locale = Annotated[
    str,
    TextForm(
        pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$",
        words="Write a language tag such as en-NG.",
    ),
]


class Person(Frozen):
    """A member as every colleague may know them."""

    reviewer_id: UserId
    name: str
    role: Role
    active: bool


class PeopleList(Frozen):
    """Every member of the tenant, newest first."""

    people: tuple[Person, ...]


class ChangePreferencesBody(Frozen):
    """What changes; a field that is left out stays."""

    locale: Locale | None = None
    """Null: the browser's."""
    theme: Theme | None = None
    single_keys: StrictBool | None = None

    @field_validator("theme", "single_keys", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, "Input should not be null")
        return value

    def named(self) -> dict[str, Any]:
        """Return the fields the caller named."""
        return {name: getattr(self, name) for name in self.model_fields_set}


@dataclass(frozen=True, slots=True)
class PeopleRoutes:
    """What the routes of people do."""

    ports: FrontPorts
    bodies: BodyReader

    async def read_people(self, call: Call) -> web.Response:
        """Answer every member's name, without addresses."""
        records = self.ports.stores.records
        people: list[Person] = []
        before: Position | None = None
        while True:
            page = await records.page(
                call.tenant_id, RecordKind.REVIEWER, MEMBERS_INDEX, limit=_READ, before=before
            )
            people += [_person(Reviewer.from_bytes(record.body)) for record in page]
            if len(page) < _READ:
                return json_answer(PeopleList(people=tuple(people)).to_bytes())
            before = place_of(page[-1])

    async def read_preferences(self, call: Call) -> web.Response:
        """Answer the caller's preferences."""
        stored = await load_member(self.ports.people.records, call.tenant_id, call.person.reviewer_id)
        return json_answer(stored.reviewer.preferences.model_dump_json().encode())

    async def change_preferences(self, call: Call) -> web.Response:
        """Change the caller's preferences."""
        body = await self.bodies.read(call, ChangePreferencesBody)
        changed = await change_preferences(self.ports.people, call.person, body.named(), call.actor)
        return json_answer(changed.model_dump_json().encode())


def _person(member: Reviewer) -> Person:
    return Person(reviewer_id=member.reviewer_id, name=member.name, role=member.role, active=member.active)


def people_endpoints(routes: PeopleRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PEOPLE,
            handler=routes.read_people,
            summary="List the names of all members",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("Every member.", PeopleList)},
            access=reviewer(),
        ),
        Endpoint(
            method="GET",
            path=PREFERENCES,
            handler=routes.read_preferences,
            summary="Read one's own preferences",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The preferences.", Preferences)},
            access=reviewer(),
        ),
        Endpoint(
            method="PATCH",
            path=PREFERENCES,
            handler=routes.change_preferences,
            summary="Change one's own preferences",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The preferences.", Preferences)},
            access=reviewer(),
            body=ChangePreferencesBody,
            audits=(AuditAction.REVIEWER_PREFERENCES_CHANGED,),
        ),
    )
