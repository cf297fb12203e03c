"""Fetch sessions of aiokafka's consumer (KIP-227): each fetch names only the partitions that changed.

aiokafka 0.14 names every assigned partition in each fetch, and is answered about each; a worker has a
hundred. Without a session, at a broker older than 1.1 or one that has no room for it, it still does.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from aiokafka.protocol.fetch import FetchRequest  # type: ignore[import-untyped]  # ships no types

Partition: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[int, int]
"""From which offset to read, and how many bytes at most."""

FIRST_VERSION: Final = 7
"""Of the Fetch API that has sessions."""

LAST_EPOCH: Final = 2**31 - 1


class FetchSession:
    """What one broker was asked to fetch; begun anew after whatever went wrong."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._asked: dict[Partition, Place] = {}

    def begin_anew(self) -> None:
        """Name all partitions in the next fetch; the broker ends the session that was."""
        self._epoch = 0
        self._asked = {}

    def apply(self, struct: Any, wanted: dict[Partition, Place]) -> None:
        """Have a request name its session, and only what changed since the last one."""
        struct.session_id, struct.session_epoch = self._id, self._epoch
        if self._epoch:
            asked, named = self._asked, list[tuple[str, list[Any]]]()
            for topic, parts in struct.topics:
                changed = [part for part in parts if asked.get((topic, part[0])) != wanted[topic, part[0]]]
                if changed:
                    named.append((topic, changed))
            struct.topics = named
            struct.forgotten_topics_data = _by_topic(key for key in asked if key not in wanted)
        self._asked = wanted

    def note(self, response: Any) -> None:
        """Expect what the answer says of the session."""
        if response.API_VERSION < FIRST_VERSION:
            return
        self._id = response.session_id
        if response.error_code or not response.session_id:
            self.begin_anew()
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1


class SessionFetchRequest(FetchRequest):  # type: ignore[misc]  # ships no types
    """A fetch in a session. `topics` are all partitions, as the fetcher knows them."""

    def __init__(self, request: FetchRequest, session: FetchSession) -> None:
        self.__dict__.update(request.__dict__)
        self.session = session

    def build(self, request_struct_class: Any) -> Any:
        """Return what is sent, in the version that the broker understands."""
        struct = super().build(request_struct_class)
        if request_struct_class.API_VERSION >= FIRST_VERSION:
            wanted = {(topic, part[0]): part[1:] for topic, parts in self.topics for part in parts}
            self.session.apply(struct, wanted)
        return struct


class FetchSessions:
    """Give each fetch of one consumer the session of its node; created after its fetcher."""

    def __init__(self, fetcher: Any) -> None:
        self._sessions: defaultdict[int, FetchSession] = defaultdict(FetchSession)
        self._plan = fetcher._get_actions_per_node  # noqa: SLF001  # no setting leads there
        self._send = fetcher._client.send  # noqa: SLF001
        fetcher._get_actions_per_node = self.plan  # noqa: SLF001
        fetcher._client.send = self.send  # noqa: SLF001

    def plan(self, assignment: Any) -> tuple[Any, ...]:
        """Return what the fetcher does next, its fetches in their sessions."""
        requests, *others = self._plan(assignment)
        fetches = [(node, SessionFetchRequest(request, self._sessions[node])) for node, request in requests]
        return (fetches, *others)

    async def send(self, node_id: int, request: Any, **options: Any) -> Any:
        """Send a request as the client does, and follow the session of a fetch."""
        if not isinstance(request, SessionFetchRequest):
            return await self._send(node_id, request, **options)
        answered = False
        try:
            response = await self._send(node_id, request, **options)
            request.session.note(response)
            answered = True
        finally:
            if not answered:  # cancelled or lost: nobody knows which epoch the broker expects
                request.session.begin_anew()
        return response


def _by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        topics[topic].append(number)
    return list(topics.items())
