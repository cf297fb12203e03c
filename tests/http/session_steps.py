"""Steps that tests of sessions share: a published flow, an opened session, a page with its token."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from schemas.access import Tenant
from schemas.ids import PLATFORM
from streams.catalog.handler import Catalogue
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind
from streams.tenants.handler import TENANTS_INDEX
from tests.http.support import TEST, Front, Response, SignedIn, draw_image, now

PATH: Final = "/v1/verification-sessions"
FLOWS: Final = "/v1/verification-flows"
DOCUMENTS: Final = [{"country": "NG", "capabilities": ["NG_NIN_SLIP", "NG_PASSPORT"]}]


async def publish_flow(owner: SignedIn, flow_type: str = "FULL_IDENTITY", **changes: Any) -> str:
    """Publish a flow of a type; return its id."""
    flow_id = await draft_flow(owner, flow_type, **changes)
    response = await owner.ask("POST", f"{FLOWS}/{flow_id}/publish")
    assert response.status == 200, response.body
    return flow_id


async def draft_flow(owner: SignedIn, flow_type: str = "FULL_IDENTITY", **changes: Any) -> str:
    """Begin a flow; return its id."""
    catalogue = Catalogue(owner.front.stores.records, owner.front.ports.commit, now)
    await catalogue.install_first()
    await install_tenant(owner)
    documents = [] if flow_type == "BIOMETRIC" else DOCUMENTS
    body = {"name": "Customers", "flow_type": flow_type, "documents": documents, **changes}
    response = await owner.ask("POST", FLOWS, json=body)
    assert response.status == 201, response.body
    return str(response.json["flow_id"])


async def install_tenant(owner: SignedIn) -> None:
    """Store the member's tenant, unless it is there."""
    tenant = Tenant(tenant_id=owner.member.tenant_id, name="Acme Bank", created_at=now())
    record = Record(
        tenant_id=PLATFORM, kind=RecordKind.TENANT, id=tenant.tenant_id, body=tenant.to_bytes(),
        created_at=tenant.created_at, indexes=(TENANTS_INDEX,),
    )  # fmt: skip
    with suppress(Conflict):
        await owner.front.stores.journal.commit(Change(PLATFORM, (record,)))


@dataclass(frozen=True, slots=True)
class Page:
    """The subject's page of one session."""

    front: Front
    opened: Any
    """The answer to the opening."""

    @property
    def session_id(self) -> str:
        """Which session it is."""
        return str(self.opened["session_id"])

    async def ask(self, method: str, suffix: str = "", **more: Any) -> Response:
        """Ask with the client token."""
        return await self.front.ask(method, f"/v1/capture{suffix}", self.opened["client_token"], **more)

    async def view(self) -> Any:
        """How the session stands once nothing is under way."""
        await self.front.sending.settle()
        return (await self.ask("GET")).json

    async def consent(self, *, accepted: bool = True) -> Response:
        """Decide on the notice."""
        version = (await self.ask("GET")).json["consent"]["notice_version"]
        return await self.ask("POST", "/consent", json={"notice_version": version, "accepted": accepted})

    async def put(self, what: str, image: bytes | None = None, kind: str = "image/png") -> Response:
        """Send a picture as the body itself."""
        headers = {"Content-Type": kind}
        return await self.ask("PUT", f"/{what}", data=image or draw_image(), headers=headers)

    async def hand_in(self, **said: Any) -> Any:
        """Take both pictures, submit, and return how it ended."""
        view = (await self.ask("GET")).json
        if view["consent"]["accepted_at"] is None:
            assert (await self.consent()).status == 200
        for what in ("document", "selfie"):
            response = await self.put(what)
            assert response.status in {200, 422}, response.body
        response = await self.ask("POST", "/submit", json=said)
        assert response.status == 202, response.body
        return await self.view()


async def open_page(front: Front, flow_id: str, subject_id: str = "sim:approved", **said: Any) -> Page:
    """Open a session and its page."""
    result = await open_session(front, flow_id, subject_id, **said)
    assert result.status == 201, result.body
    return Page(front, result.json)


async def open_session(
    front: Front,
    flow_id: str,
    subject_id: str = "sim:approved",
    key: str = TEST,
    headers: dict[str, str] | None = None,
    **said: Any,
) -> Response:
    """Ask for a session."""
    body = {"flow_id": flow_id, "subject_id": subject_id, **said}
    return await front.ask("POST", PATH, key, json=body, headers=headers or {})
