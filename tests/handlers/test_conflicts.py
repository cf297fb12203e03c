"""Handlers of aggregates try again after a conflict: with growing pauses, and only so often."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from schemas.flows import ArchiveFlow, FlowCommand
from schemas.ids import ReviewCaseId, UserId, derive_id
from schemas.people import SentActor
from schemas.reviews import CaseCommand, OpenAppeal
from schemas.sessions import CancelSession, SessionCommand
from schemas.tenant_settings import TenantSettings
from schemas.webhooks import ANY_TYPE, NoteAttempt, ReplayEvents, StoredEndpoint
from streams.aggregate import ATTEMPTS, FIRST_PAUSE_S, LONGEST_PAUSE_S, AnsweredRequests, retry_conflicts
from streams.catalog.handler import Catalogue
from streams.flows.handler import ChangeFlow
from streams.ports.errors import Conflict
from streams.ports.records import Change, Committed
from streams.reviews.dispositions import CaseDispositions
from streams.reviews.handler import ChangeCase
from streams.sessions.handler import ChangeSession
from streams.verification.policy import VerificationPolicy
from streams.webhooks.health import UpdateHealth
from streams.webhooks.replay import DeliverAgain
from tests.builders import ACME, build_command
from tests.handlers.session_stage import FLOW, SESSION, SessionStage
from tests.handlers.verification_stage import DictState
from tests.handlers.webhook_stage import WebhookStage, open_stage
from tests.http.support import HASHES, SCREENING

FOR_EVER = 1_000
"""Commits after which the journal takes a change, so that a handler without a bound ends too."""

CASE = ReviewCaseId(derive_id("case", "acme", "appeal"))
ADA = SentActor(actor_type="REVIEWER", actor_id=derive_id("usr", "ada"), request_id="req-ada")


class ContestedJournal:
    """Stands before a journal and refuses the first commits as if somebody else had been faster."""

    def __init__(self, journal: Any, conflicts: int) -> None:
        self._journal = journal
        self._conflicts = conflicts
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def commit(self, change: Change) -> Committed:
        """Refuse, or commit."""
        self.commits += 1
        if self.commits <= self._conflicts:
            raise Conflict("somebody else was faster")
        committed: Committed = await self._journal.commit(change)
        return committed


class Contest:
    """The handlers over stores whose journal meets so many conflicts."""

    def __init__(self, stage: SessionStage, conflicts: int) -> None:
        self.stage = stage
        self.journal = ContestedJournal(stage.stores.journal, conflicts)
        self.stores = replace(stage.stores, journal=self.journal)
        self.pauses: list[float] = []
        self.memory: DictState[AnsweredRequests] = DictState()

    async def pause(self, seconds: float) -> None:
        """Note how long it would take."""
        self.pauses.append(seconds)

    async def archive_flow(self) -> None:
        """Archive the published flow."""
        catalogue = Catalogue(self.stores.records, self.journal.commit, lambda: self.stage.now)
        change = ChangeFlow(
            self.stores, catalogue, lambda: self.stage.now, self.memory, self.stage.announcer, self.pause
        )
        command = ArchiveFlow(tenant_id=ACME, flow_id=FLOW, actor=ADA, requested_at=self.stage.now)
        await change(FlowCommand(command))

    async def cancel_session(self) -> None:
        """Cancel the started session."""
        change = ChangeSession(
            self.stores,
            lambda: self.stage.now,
            self.memory,
            self.stage.announcer,
            self.stage.hand,
            self.pause,
        )
        await change(SessionCommand(CancelSession(**self.stage.common(SESSION))))

    async def open_appeal(self) -> None:
        """Appeal against the decided verification."""

        async def settings(_: Any) -> TenantSettings:
            return TenantSettings()

        change = ChangeCase(
            self.stores, VerificationPolicy(), settings, lambda: self.stage.now, self.memory,
            self.stage.announcer, CaseDispositions(self.stores, SCREENING, HASHES), self.pause,
        )  # fmt: skip
        command = OpenAppeal(
            tenant_id=ACME, review_case_id=CASE, actor=ADA, requested_at=self.stage.now,
            reviewer_id=UserId(derive_id("usr", "ada")), verification_id=build_command().verification_id,
            note_id="note_1", sealed_text="sealed",
        )  # fmt: skip
        await change(CaseCommand(command))


Act = Callable[[Contest], Awaitable[None]]
ACTS = pytest.mark.parametrize("act", [Contest.archive_flow, Contest.cancel_session, Contest.open_appeal])


@pytest.fixture
async def stage() -> SessionStage:
    """Stores with a published flow, a started session and a decided verification."""
    made = SessionStage()
    await made.publish()
    await made.start()
    await made.submit()
    return made


@ACTS
async def test_a_handler_gives_up_on_a_conflict_that_stays(stage: SessionStage, act: Act) -> None:
    contest = Contest(stage, FOR_EVER)

    with pytest.raises(Conflict):
        await act(contest)

    assert contest.journal.commits == ATTEMPTS


@ACTS
async def test_a_handler_carries_its_command_out_after_a_conflict_that_passes(
    stage: SessionStage, act: Act
) -> None:
    contest = Contest(stage, 1)

    await act(contest)

    assert contest.journal.commits == 2
    assert len(contest.memory.stored) == 1


class WebhookContest:
    """The actor of an endpoint over stores whose journal meets so many conflicts."""

    def __init__(self, stage: WebhookStage, endpoint: StoredEndpoint, conflicts: int) -> None:
        self.stage = stage
        self.endpoint_id = endpoint.endpoint.endpoint_id
        self.journal = ContestedJournal(stage.stores.journal, conflicts)
        self.pauses: list[float] = []

    async def pause(self, seconds: float) -> None:
        """Note how long it would take."""
        self.pauses.append(seconds)

    async def note_that_it_is_gone(self) -> None:
        """Note an attempt after which the endpoint is disabled."""
        stage = self.stage
        keep = UpdateHealth(stage.stores.records, self.journal.commit, stage.clock, stage.health, self.pause)
        await keep(
            NoteAttempt(
                tenant_id=ACME, endpoint_id=self.endpoint_id, at=stage.now, succeeded=False, gone=True
            )
        )

    async def note_that_it_failed(self) -> None:
        """Note an attempt that changes nothing but the endpoint's health."""
        stage = self.stage
        keep = UpdateHealth(stage.stores.records, self.journal.commit, stage.clock, stage.health, self.pause)
        await keep(NoteAttempt(tenant_id=ACME, endpoint_id=self.endpoint_id, at=stage.now, succeeded=False))

    async def deliver_again(self) -> None:
        """Deliver the event of the last hour again."""
        stage = self.stage
        stores = replace(stage.stores, journal=self.journal)
        command = ReplayEvents(
            tenant_id=ACME, endpoint_id=self.endpoint_id, since=stage.now - timedelta(hours=1),
            until=stage.now + timedelta(hours=1), event_types=(ANY_TYPE,),
        )  # fmt: skip
        await DeliverAgain(stores, stage.log.write, stage.clock, self.pause)(command)


WEBHOOK_ACTS = pytest.mark.parametrize(
    "act",
    [
        WebhookContest.note_that_it_is_gone,
        WebhookContest.note_that_it_failed,
        WebhookContest.deliver_again,
    ],
)


@WEBHOOK_ACTS
@pytest.mark.parametrize("conflicts", [1, FOR_EVER])
async def test_an_endpoints_actor_gives_up_only_on_a_conflict_that_stays(
    act: Callable[[WebhookContest], Awaitable[None]], conflicts: int
) -> None:
    async with open_stage() as stage:
        endpoint = await stage.register("https://shop.example/hooks")
        await stage.happen()
        contest = WebhookContest(stage, endpoint, conflicts)
        if conflicts == FOR_EVER:
            with pytest.raises(Conflict):
                await act(contest)
            assert contest.journal.commits == ATTEMPTS
        else:
            await act(contest)
            assert contest.journal.commits > conflicts

    assert len(contest.pauses) == (ATTEMPTS - 1 if conflicts == FOR_EVER else 1)


async def test_pauses_between_attempts_grow_to_a_longest_one() -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def contested() -> None:
        raise Conflict("somebody else was faster")

    with pytest.raises(Conflict):
        await retry_conflicts(contested, pause)

    longest = [min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number) for number in range(ATTEMPTS - 1)]
    assert all(most / 2 <= slept <= most for slept, most in zip(pauses, longest, strict=True))
    assert longest[0] < longest[-1] == LONGEST_PAUSE_S
