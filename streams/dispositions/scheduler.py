"""Find dispositions whose time has passed, and send their commands (G120)."""

from datetime import datetime

from typing_extensions import override

from schemas.dispositions import DispositionStatus, DispositionWatch, EndDisposition, StoredDisposition
from schemas.problems import NotFound
from schemas.topics import Topic
from streams.ports.records import Record, RecordKind
from streams.runtime.due_sweep import DueSweep
from streams.runtime.producer import Outgoing


class DispositionScheduler(DueSweep):
    """Send a command for each disposition that has expired and was not ended before."""

    kind = RecordKind.DISPOSITION_WATCH

    @override
    async def command_of(self, watch: Record, now: datetime) -> Outgoing | None:
        """Return the disposition's command, or None when it is not due, or over."""
        due = DispositionWatch.from_bytes(watch.body)
        if due.due > now:
            return None
        try:
            found = await self.records.get(due.tenant_id, RecordKind.DISPOSITION, due.disposition_id)
        except NotFound:
            return None
        if StoredDisposition.from_bytes(found.body).disposition.status is DispositionStatus.ENDED:
            return None
        about = due.disposition_id
        command = EndDisposition(tenant_id=due.tenant_id, disposition_id=about, requested_at=now)
        return Outgoing(Topic.SCREENING_COMMANDS, about.encode(), command.to_bytes())
