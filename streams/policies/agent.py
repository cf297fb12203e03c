"""Wire the agent of policies to its topic; the use cases are in `handler`."""

from collections.abc import Awaitable, Callable

import faust

from schemas.policy_records import PolicyChanged, PolicyCommand, policy_key
from schemas.topics import Topic
from streams.runtime.agents import attach
from streams.runtime.guard import Contract, Guard

Carry = Callable[[PolicyCommand], Awaitable[PolicyChanged]]


def register(app: faust.App, guard: Guard, carry: Carry) -> None:
    """Attach the agent. Commands are keyed by tenant and policy, so one actor sees every change in turn."""
    contract = Contract(
        PolicyCommand, lambda command: policy_key(command.root.tenant_id, command.root.policy)
    )
    attach(app, guard, Topic.POLICY_COMMANDS, "policies", contract, carry)
