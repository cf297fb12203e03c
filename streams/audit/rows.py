"""Build audit rows and their actors."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType
from schemas.ids import AuditEventId, SubjectId, TenantId
from schemas.people import SentActor
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import Vault

_LABEL = "address"

NOBODY: Final = SentActor(actor_type=ActorType.SYSTEM, request_id="")
"""The system as actor, for deadlines and the service's own acts."""


def write_row(
    event_id: str,
    action: AuditAction,
    actor: Actor,
    subject_id: str,
    now: datetime,
    *,
    detail: str,
    changes: Mapping[str, Any] | None = None,
    decision_id: str | None = None,
    livemode: bool = True,
) -> AuditEvent:
    """Return the audit row of an act.

    `subject_id` is the tenant's customer, or the id of the thing acted on when no customer is concerned;
    `detail` is one sentence and `changes` ids, statuses and codes, both without personal data (G20).
    """
    context = {"request_id": actor.request_id, "ip": actor.ip, "changes": dict(changes or {}) or None}
    return AuditEvent(
        event_id=AuditEventId(event_id),
        action=action,
        actor_type=actor.actor_type,
        actor_id=actor.actor_id,
        subject_id=subject_id,
        correlation_id=actor.request_id,
        decision_id=decision_id,
        context={name: value for name, value in context.items() if value is not None},
        detail=detail,
        created_at=now,
        livemode=livemode,
    )


async def seal_actor(vault: Vault, tenant_id: TenantId, actor: Actor) -> SentActor:
    """Return the actor for a command, its address sealed under the actor's own key."""
    sealed = None
    if actor.ip is not None and actor.actor_id is not None:
        sealed = await vault.seal(tenant_id, SubjectId(actor.actor_id), _LABEL, actor.ip.encode())
    return SentActor(
        actor_type=actor.actor_type,
        actor_id=actor.actor_id,
        request_id=actor.request_id or "",
        sealed_ip=sealed,
    )


async def open_actor(vault: Vault, tenant_id: TenantId, sent: SentActor) -> Actor:
    """Return the actor for an audit row; an address that cannot be opened is left out."""
    ip = None
    if sent.sealed_ip is not None and sent.actor_id is not None:
        try:
            opened = await vault.open(tenant_id, SubjectId(sent.actor_id), _LABEL, sent.sealed_ip)
            ip = opened.decode()
        except (Damaged, Erased):
            ip = None
    return Actor(actor_type=sent.actor_type, actor_id=sent.actor_id, request_id=sent.request_id, ip=ip)
