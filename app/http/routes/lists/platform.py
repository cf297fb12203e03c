"""`/v1/platform/lists`: the lists of the deployment, loaded by its operator (G116)."""

import asyncio
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.endpoints import OPERATOR, Answer, Call, Endpoint, Parameter
from app.http.idempotent_create import KEY_PROBLEMS, LOCATION, REPLAYED, created_at
from app.http.listing import refused_filter
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.lists.routes import FAMILY, LIST_KEY, NAME_FORM, ScreeningLists, key_of, show_list
from app.lists.publishing import GuardRefused, LoadRefused
from schemas.audit import AuditAction
from schemas.base import to_milliseconds
from schemas.ids import PLATFORM
from schemas.lists import SANDBOX, ListOwner
from schemas.problems import ProblemCode, Refused
from schemas.tenant_lists import ScreeningList
from streams.lists.handler import KeyUse, answer_records
from streams.ports.records import Change

PATH: Final = "/v1/platform/lists"
MOST_BYTES: Final = 512 * 1024 * 1024
"""The largest published file is a quarter of it; it is written to the disk as it arrives."""

_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class PlatformListRoutes:
    """What the operator's routes of lists do."""

    ports: FrontPorts
    bodies: BodyReader

    async def list_all(self, call: Call) -> web.Response:
        """Answer every list of the deployment."""
        del call
        lists, _ = await self.ports.lists.storage.load(PLATFORM)
        shown = [show_list(one, ListOwner.DEPLOYMENT).to_bytes() for one in lists.lists]
        return json_list("lists", shown, None)

    async def load(self, call: Call) -> web.Response:
        """Load the published file of the body."""
        name, given = call.path_value("name"), call.request.query.get("force", "false")
        if given not in _BOOLEANS:
            raise refused_filter("force", "The value must be true or false.")
        if name == SANDBOX:
            raise Refused.because(ProblemCode.LIST_NAME_TAKEN, f"{SANDBOX} comes with the service.")
        publish = self.ports.publish_list
        before, _ = await self.ports.lists.storage.load(PLATFORM)
        with publish.folder() as folder:
            path = Path(folder) / "published"
            await self.bodies.save(call, path)
            key = key_of(call, PLATFORM)
            use = None if key is None else await asyncio.to_thread(_use_of_file, key, path, given)
            first = await self.ports.lists.answered(PLATFORM, use)
            if first is not None:
                shown = show_list(first.stored, ListOwner.DEPLOYMENT).to_bytes()
                return json_answer(shown, headers={REPLAYED: "true"})
            try:
                stored = await publish(name, [path], call.actor, force=_BOOLEANS[given])
            except GuardRefused as refused:
                raise Refused.because(ProblemCode.LIST_GUARD_REFUSED, str(refused)) from None
            except LoadRefused as refused:
                raise Refused.at("", ProblemCode.LIST_INVALID, str(refused)) from None
        if use is not None:
            now = to_milliseconds(self.ports.clock())
            await self.ports.commit(Change(PLATFORM, answer_records(PLATFORM, use, stored, now)))
        body = show_list(stored, ListOwner.DEPLOYMENT).to_bytes()
        if before.named(name) is not None:
            return json_answer(body)
        return json_answer(body, HTTPStatus.CREATED, created_at(PATH, name))


def _use_of_file(key: str, path: Path, force: str) -> KeyUse:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return KeyUse(key, hashlib.sha256(digest + force.encode()).hexdigest())


def platform_list_endpoints(routes: PlatformListRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    force = Parameter(
        "force",
        "`true` takes a file that differs much from the last one; never one that cannot be read.",
        {"type": "boolean", "default": False},
    )
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.list_all,
            summary="List the deployment's lists",
            answers={HTTPStatus.OK: Answer("Every list.", ScreeningLists)},
            family=FAMILY,
            access=OPERATOR,
        ),
        Endpoint(
            method="PUT",
            path=f"{PATH}/{{name}}",
            handler=routes.load,
            summary="Load a published list",
            description="The body is the file as its publisher gives it: OFAC's XML or CSV, the UN's, the "
            "EU's and the UK's lists, OpenSanctions' CSV or FtM lines. The last version stays when the file "
            "cannot be read, has a fifth more or fewer entries, is older, or lacks fields it had before.",
            answers={
                HTTPStatus.OK: Answer("The list, replaced; or the first answer again.", ScreeningList),
                HTTPStatus.CREATED: Answer("The list, loaded first.", ScreeningList, headers=LOCATION),
            },
            family=FAMILY,
            access=OPERATOR,
            path_forms={"name": NAME_FORM},
            parameters=(force,),
            headers=(LIST_KEY,),
            text_body=("application/octet-stream",),
            body_limit=MOST_BYTES,
            problems=(
                *KEY_PROBLEMS,
                ProblemCode.LIST_INVALID,
                ProblemCode.LIST_GUARD_REFUSED,
                ProblemCode.LIST_NAME_TAKEN,
                ProblemCode.OVERLOADED,
            ),
            audits=(AuditAction.LIST_UPDATED,),
        ),
    )
