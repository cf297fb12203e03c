"""A session of Cassandra that ends at a chosen write, as a process does that is killed there."""

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from app.adapters.cassandra.session import Attempt, Row, Session, Settled, Statement, Write
from schemas.problems import StoreUnavailable


@dataclass(slots=True)
class DyingSession(Session):
    """Writes `lives` times; the next write never leaves, or leaves and its answer never comes."""

    lives: int = 0
    unanswered: bool = False
    dead: bool = False

    @override
    async def execute(
        self, statement: Statement, parameters: Sequence[object] = (), *, serial: bool = False
    ) -> Sequence[Row]:
        reads = statement.cql.lstrip().startswith("SELECT")
        self._live(0 if reads else 1)
        rows = await Session.execute(self, statement, parameters, serial=serial)
        self._answer()
        return rows

    @override
    async def batch(self, writes: Sequence[Write]) -> None:
        self._live(1)
        await Session.batch(self, writes)
        self._answer()

    @override
    async def lwt(self, attempt: Attempt) -> Settled:
        self._live(1)
        settled = await Session.lwt(self, attempt)
        self._answer()
        return settled

    def _live(self, writes: int) -> None:
        self.lives -= writes
        if self.dead or self.lives < -1 or (self.lives < 0 and not self.unanswered):
            self.dead = True
            raise StoreUnavailable("killed before this was sent")

    def _answer(self) -> None:
        if self.lives < 0:
            self.dead = True
            raise StoreUnavailable("killed before this was answered")


def dying(session: Session, lives: int, *, unanswered: bool = False) -> DyingSession:
    """Return a session over the same connections that dies after so many writes."""
    return DyingSession(session.cluster, session.driver, session.requests, lives=lives, unanswered=unanswered)
