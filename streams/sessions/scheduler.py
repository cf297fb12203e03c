"""Find sessions that expired or whose outcome is overdue, and send their commands."""

from datetime import datetime

from typing_extensions import override

from schemas.problems import NotFound
from schemas.sessions import ExpireSession, RecordOutcome, SessionWatch, StoredSession, stored_of
from schemas.topics import Topic
from streams.audit.rows import NOBODY
from streams.ports.records import Record, RecordKind
from streams.runtime.due_sweep import DueSweep
from streams.runtime.producer import Outgoing
from streams.sessions import rules


class SessionScheduler(DueSweep):
    """Send a command for each due session."""

    kind = RecordKind.SESSION_WATCH

    @override
    async def command_of(self, watch: Record, now: datetime) -> Outgoing | None:
        """Return the session's command, or None when it is not due."""
        session = SessionWatch.from_bytes(watch.body)
        if session.due is None or session.due > now:
            return None
        try:
            found = await self.records.get(session.tenant_id, RecordKind.SESSION, session.session_id)
        except NotFound:
            return None
        stored = stored_of(found.body)
        if stored is None or (rules.due(stored) is None and stored.session.verification_id is not None):
            return None
        command = _command(session, stored, now)
        return Outgoing(Topic.SESSION_COMMANDS, session.session_id.encode(), command.to_bytes())


def _command(watch: SessionWatch, stored: StoredSession, now: datetime) -> ExpireSession | RecordOutcome:
    """Return the command for a due session: expire it, or record its outcome."""
    tenant_id, session_id = watch.tenant_id, watch.session_id
    if stored.session.status in rules.OPEN:
        return ExpireSession(tenant_id=tenant_id, session_id=session_id, actor=NOBODY, requested_at=now)
    return RecordOutcome(
        tenant_id=tenant_id,
        session_id=session_id,
        actor=NOBODY,
        requested_at=now,
        attempt=stored.session.attempts,
    )
