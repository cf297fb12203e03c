"""S27: how long a failed sign-in takes does not tell whether somebody has the address."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from statistics import median

import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.security.passwords import PARAMETERS, Argon2Passwords, nobodys_hash
from schemas.problems import Refused
from streams.reviewers.members import Amended, amend
from streams.sign_in.attempt_limits import SignInLimits
from tests.handlers.people_stage import EMAIL, PASSWORD, Stage, staged

SAMPLES = 200
TOLERANCE = 0.10
TRIES = 3
"""Measurements; a busy machine may spoil one."""

QUICK = replace(PARAMETERS, memory_cost=4096, time_cost=1)
"""A few milliseconds: against them everything else weighs more than against the real cost."""


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A stage with a member, one suspended and one without a password yet."""
    async with staged(open_memory_stores(RootKey(bytes(32))), QUICK) as set_up:
        set_up.limits = SignInLimits(None)
        await set_up.add()
        await set_up.add("invited@acme.example", None)
        suspended = await set_up.add("gone@acme.example")

        async def inactive(_: object) -> Amended:
            return Amended(suspended.model_copy(update={"active": False}))

        await amend(set_up.people, suspended.tenant_id, suspended.reviewer_id, inactive)
        yield set_up


async def fail(stage: Stage, email: str, password: str) -> float:
    """Fail to sign in; how much processor time it took, in seconds; nothing on its way waits."""
    began = time.process_time()
    with pytest.raises(Refused):
        await stage.sign_in(email, password)
    return time.process_time() - began


async def measure(stage: Stage) -> Mapping[str, float]:
    """The median processor time of each kind of failure, taken turn by turn so that noise meets all alike."""
    kinds = {
        "wrong password": (EMAIL, "nine green umbrellaz"),
        "unknown": ("nobody@acme.example", PASSWORD),
        "suspended": ("gone@acme.example", PASSWORD),
        "invited": ("invited@acme.example", PASSWORD),
    }
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(SAMPLES):
        for kind, (email, password) in kinds.items():
            times[kind].append(await fail(stage, email, password))
    return {kind: median(taken) for kind, taken in times.items()}


async def test_s27_every_failure_takes_as_long(stage: Stage) -> None:
    spreads = []
    for _ in range(TRIES):
        medians = await measure(stage)
        spreads.append(max(medians.values()) / min(medians.values()) - 1)
        if spreads[-1] <= TOLERANCE:
            return

    assert min(spreads) <= TOLERANCE


async def test_s27_nobodys_hash_costs_what_a_real_one_does() -> None:
    passwords = Argon2Passwords()
    real = await passwords.hash(PASSWORD)
    await passwords.aclose()

    assert nobodys_hash(PARAMETERS).split("$")[:4] == real.split("$")[:4]
    assert [len(part) for part in nobodys_hash(PARAMETERS).split("$")] == [
        len(part) for part in real.split("$")
    ]
