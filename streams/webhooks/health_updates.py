"""Tells endpoints' actors how attempts went, without saying the same thing over and over."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import EndpointId
from schemas.webhooks import NoteAttempt
from streams.webhooks.fanout import Write, command_record

SAID_AGAIN_AFTER: Final = timedelta(seconds=30)
"""The same word about an endpoint is said no sooner; half of what its actor writes down (`SUCCESS_EVERY`)."""

REMEMBERED: Final = 10_000
"""Endpoints; of a forgotten one it is said once more."""


@dataclass(frozen=True, slots=True)
class _Said:
    at: datetime
    succeeded: bool


class NoteAttempts:
    """Writes notes to the log, keyed by endpoint; called from one loop."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._said: OrderedDict[EndpointId, _Said] = OrderedDict()

    async def __call__(self, note: NoteAttempt) -> None:
        """Say how an attempt went, unless the same was said a moment ago.

        Raises:
            StoreUnavailable: The log is away; nothing was said.
        """
        said = self._said.get(note.endpoint_id)
        same = said is not None and said.succeeded == note.succeeded
        if said is not None and same and not note.gone and abs(note.at - said.at) < SAID_AGAIN_AFTER:
            return
        await self._write(command_record(note.endpoint_id, note.to_bytes()))
        self._said[note.endpoint_id] = _Said(note.at, note.succeeded)
        self._said.move_to_end(note.endpoint_id)
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
