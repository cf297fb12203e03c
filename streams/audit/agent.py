"""Wire the audit agent to its topic; it has no table, the chain's head is in the store."""

from collections.abc import Awaitable, Callable

import faust

from schemas.audit import SealAudit
from schemas.topics import Topic
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard

Seal = Callable[[SealAudit], Awaitable[None]]
"""Seal a tenant's rows; rows sealed before are unchanged."""


def register(app: faust.App, guard: Guard, seal: Seal) -> None:
    """Attach the agent. Commands are keyed by tenant, so each chain has one writer."""
    contract = Contract(SealAudit, lambda command: command.tenant_id)
    attach(app, guard, Topic.AUDIT, "audit", contract, seal)
