"""What `veristream subject` does: requests an erasure, as the route of the interface does."""

from app.composition.stores import now, open_existing
from app.composition.tenants import known_tenant
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.ids import SubjectId
from schemas.problems import NotFound, Refused
from streams.retention.erasure_requests import ErasureRequests
from streams.tenants.handler import OPERATOR


async def erase(settings: Settings, tenant: str, subject_id: str, reason: str) -> dict[str, str]:
    """Request the erasure of a subject, and tell how far it is; the running service carries it out.

    Raises:
        CannotStart: No such tenant or subject, or the subject is on legal hold.
    """
    async with open_existing(settings) as deployment:
        tenant_id = await known_tenant(deployment, tenant)
        requests = ErasureRequests(deployment.stores, deployment.stores.journal.commit, now)
        try:
            erasure = await requests.request(tenant_id, SubjectId(subject_id), reason, OPERATOR)
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no such subject; its id is case-sensitive") from error
        except Refused as error:
            raise CannotStart(f"{error.refusal.detail} PATCH /v1/control/settings lifts it.") from error
        return {"erasure_id": erasure.erasure_id, "status": erasure.status.value}
