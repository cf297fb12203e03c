"""The commands about subjects: the customers that tenants verify."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.process.output import say_pairs
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.ids import SubjectId
from schemas.problems import NotFound, Refused

subjects = typer.Typer(no_args_is_help=True, help="Subjects: the customers that tenants verify.")


@subjects.command("erase")
def subject_erase(
    subject_id: Annotated[str, typer.Argument(metavar="SUBJECT", help="The tenant's id of the subject.")],
    tenant: TenantOption,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is stored sealed and shown in the proof.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Erase a subject: its data key is destroyed, its evidence removed, its open sessions end.

    The running service does so within two minutes, unless the tenant's four_eyes asks for a member's approval
    first. Run it again to see how far it is. POST /v1/subjects/{subject_id}/erase does the same.

    Try:

      veristream subject erase customer-17 --tenant ten_… --reason "asked by letter"
    """
    say_pairs(asyncio.run(erase(settings_of(data_dir), tenant, subject_id, reason)), as_json=as_json)


async def erase(settings: Settings, tenant: str, subject_id: str, reason: str) -> dict[str, str]:
    """Request the erasure of a subject and return how far it is; the running service carries it out.

    Raises:
        CannotStart: No such tenant or subject, or the subject is on legal hold.
    """
    from app.composition.stores import known_tenant, now, open_existing
    from streams.retention.erasure_requests import ErasureRequests
    from streams.tenants.handler import OPERATOR

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
