"""Whatever raises: a verification is FAILED, under review or undecided, never APPROVED (S75)."""

import builtins
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import pytest
from typing_extensions import override

import streams.verification
from schemas.enums import CheckKind, DecisionOutcome, VerificationStatus
from schemas.problems import (
    DecisionPending,
    EngineFailed,
    ImageUndecodable,
    NotFound,
    Overloaded,
    StoreUnavailable,
)
from streams.ports.errors import Conflict, Damaged, Erased
from streams.verification.policy import VerificationPolicy
from tests.handlers.verification_stage import Scene, Stage

EVERYTHING = VerificationPolicy(required_checks=(*VerificationPolicy().required_checks, CheckKind.LIVENESS))
CALLS = (
    "decode", "find on document", "find on selfie", "embed", "sharpness", "read", "encode", "liveness",
)  # fmt: skip
OWN = (
    EngineFailed,
    ImageUndecodable,
    Overloaded,
    NotFound,
    StoreUnavailable,
    Damaged,
    Erased,
    Conflict,
    DecisionPending,
)
CLOSED = {VerificationStatus.FAILED, VerificationStatus.REVIEW_REQUIRED, VerificationStatus.REJECTED}

LEAST_USED = 25
"""Functions that the scene needs at least; the test would say nothing if none were called."""


def every_exception() -> Iterator[Exception]:
    """One of each kind that Python has and can make from a word, and of ours; made anew.

    One that is raised twice keeps every frame it passed, and all that those held.
    """
    kinds = [
        kind for kind in vars(builtins).values() if inspect.isclass(kind) and issubclass(kind, Exception)
    ]
    for kind in (*kinds, *OWN):
        try:
            yield kind("injected")
        except TypeError:
            continue


class Raising(Scene):
    """A scene in which one call raises."""

    def __init__(self, call: str, error: Exception) -> None:
        super().__init__()
        self._call, self._error = call, error

    @override
    async def play(self, call: str) -> None:
        await super().play(call)
        if call == self._call:
            raise self._error


async def outcome_of(stage: Stage) -> tuple[VerificationStatus, DecisionOutcome | None] | None:
    """Submit, and return what is kept of the decision; None: nothing was decided."""
    try:
        await stage.submit()
    except Exception:  # noqa: BLE001 - what the guard catches, retries and buries
        assert stage.announcer.events == []
        return None
    verification = (await stage.stored()).verification
    return verification.status, verification.decision


async def test_s75_the_scene_itself_is_approved() -> None:
    """Without an exception the same scene is approved: the tests below would see it."""
    result = await outcome_of(Stage(Scene(), EVERYTHING))

    assert result is not None
    assert result[0] is VerificationStatus.APPROVED


@pytest.mark.parametrize("call", CALLS)
async def test_s75_no_exception_of_an_engine_approves(call: str) -> None:
    found = {
        type(error).__name__: await outcome_of(Stage(Raising(call, error), EVERYTHING))
        for error in every_exception()
    }

    assert {name: one for name, one in found.items() if one and one[0] not in CLOSED} == {}
    assert found["EngineFailed"] == (VerificationStatus.FAILED, DecisionOutcome.HOLD)
    assert len(found) > 50


def rules() -> list[tuple[ModuleType, str, FunctionType]]:
    """Every function of the verification's modules, at each place where it is known by its name."""
    package = streams.verification
    names = [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)]
    return [
        (module, name, function)
        for module in map(import_module, names)
        for name, function in vars(module).items()
        if isinstance(function, FunctionType) and function.__module__.startswith(package.__name__)
    ]


def close_unstarted(values: Iterable[object]) -> None:
    """Close the coroutines among the arguments of a call that raises, and those given to them."""
    for value in values:
        if isinstance(value, tuple):
            close_unstarted(value)
        elif inspect.iscoroutine(value):
            close_unstarted(inspect.getcoroutinelocals(value).values())
            value.close()


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), ZeroDivisionError(), AssertionError(), EngineFailed("x")]
)
async def test_s75_no_exception_of_a_rule_or_policy_approves(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Each function in turn raises whenever it is called before the decision is kept."""
    wrong, broke = [], 0
    for module, name, genuine in rules():
        stage, calls = Stage(Scene(), EVERYTHING), [0]

        def failing(
            *args: Any, of: Stage = stage, seen: list[int] = calls, do: Any = genuine, **named: Any
        ) -> Any:
            if of.shelves.records:
                return do(*args, **named)  # it was decided by then, and rightly
            seen[0] += 1
            close_unstarted((*args, *named.values()))
            raise type(error)(*error.args)

        async def failing_when_awaited(*args: Any, do: Any = failing, **named: Any) -> Any:
            done = do(*args, **named)
            return await done if inspect.isawaitable(done) else done

        waits = inspect.iscoroutinefunction(genuine)
        with monkeypatch.context() as patched:
            patched.setattr(module, name, failing_when_awaited if waits else failing)
            result = await outcome_of(stage)
        broke += bool(calls[0])
        if calls[0] and result is not None and result[0] not in CLOSED:
            wrong.append((module.__name__, name, result))

    assert wrong == []
    assert broke > LEAST_USED
