"""Group coordinator: all consumer groups and their committed offsets."""

import asyncio
import math
import sqlite3
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import structlog
from kio.schema.errors import ErrorCode

from app.broker.errors import Refused
from app.broker.groups import Group, GroupState
from app.broker.settings import BrokerSettings
from app.broker.store import Committed, CommittedRow, Store
from app.broker.users import Access
from streams.runtime.background import BackgroundTask

log = structlog.get_logger()

EXPIRY_INTERVAL_S: Final = 0.25
"""How late a silent member may be found out, beyond its session timeout."""

LOOK_INTERVAL_S: Final = 1.0
"""Between two looks at the groups while nobody's session is about to end: members may have come meanwhile."""

MAX_METADATA_LENGTH: Final = 4096
"""Kafka's `offset.metadata.max.bytes`."""

MAX_GROUPS: Final = 1000
"""More would be a client inventing names."""

MAX_GROUP_NAME_LENGTH: Final = 255
"""Kafka has no limit but the protocol's 32 KiB, which a thousand groups would make 32 MiB of names."""

MAX_MEMBERS_IN_ALL: Final = 5000
"""Members of all groups in sum."""

MAX_READER_GROUPS: Final = 8
MAX_READER_MEMBERS: Final = 32
MAX_READER_BYTES: Final = 256 * 1024
"""What one user who may only read may have; in sum they stay below the limits of all groups."""

MAX_GROUP_BYTES: Final = 64 * 1024 * 1024
"""What all members' subscriptions and assignments may take in sum."""

Positions = dict[tuple[str, int], Committed]


class Coordinator:
    """Finds groups by name, ends silent members, keeps committed offsets."""

    def __init__(self, settings: BrokerSettings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._groups: dict[str, Group] = {}
        self._committed: dict[str, Positions] = {}
        self._task = BackgroundTask(self._watch, "broker-groups", needed=True)

    async def start(self) -> None:
        """Load what was committed and begin to watch over sessions."""
        for row in await self._store.committed():
            self._committed.setdefault(row.group, {})[row.topic, row.partition] = row.committed
        self._task.start()

    async def aclose(self) -> None:
        """Answer all pending requests and stop."""
        await self._task.stop()
        for group in self._groups.values():
            group.close()

    def group(self, name: str) -> Group:
        """Return the group, made on first use; raises INVALID_GROUP_ID for an empty or very long name."""
        if not 0 < len(name) <= MAX_GROUP_NAME_LENGTH:
            raise Refused(ErrorCode.invalid_group_id)
        group = self._groups.get(name)
        if group is None:
            if (
                len(self._groups.keys() | self._committed.keys()) >= MAX_GROUPS
                and name not in self._committed
            ):
                raise Refused(ErrorCode.policy_violation, f"there are {MAX_GROUPS} groups already")
            delay, most = self._settings.group_initial_delay_s, self._settings.max_group_members
            group = self._groups[name] = Group(name, delay, most, lambda: str(uuid.uuid4()))
        return group

    def check_room(self, access: Access, name: str, nbytes: int, *, newcomer: bool = False) -> None:
        """Raise GROUP_MAX_SIZE_REACHED when a group, member or `nbytes` is more than the client may add.

        Readers have a share of their own each, so that they never use up what the service needs.
        """
        all_of_it = access.unlimited
        groups = [group for group in self._groups.values() if all_of_it or access.may_use(group.name)]
        members, memory = sum(group.size for group in groups), sum(group.memory_bytes for group in groups)
        most_members, most_bytes = (
            (MAX_MEMBERS_IN_ALL, MAX_GROUP_BYTES) if all_of_it else (MAX_READER_MEMBERS, MAX_READER_BYTES)
        )
        full = (newcomer and members >= most_members) or memory + nbytes > most_bytes
        if full or (not all_of_it and self._names_used(access, name) > MAX_READER_GROUPS):
            log.warning("broker.group_limit_reached", user=access.name, members=members, memory_bytes=memory)
            raise Refused(ErrorCode.group_max_size_reached)

    def _names_used(self, access: Access, name: str) -> int:
        """Count a reader's groups, `name` among them."""
        return len(
            {name, *(known for known in self._groups.keys() | self._committed if access.may_use(known))}
        )

    def known(self, name: str) -> Group | None:
        """Return the group if it has members or ever committed an offset."""
        group = self._groups.get(name)
        if group is not None and not group.idle:
            return group
        return self.group(name) if name in self._committed else None

    def names(self) -> list[str]:
        """Return the names of all groups with members or committed offsets."""
        active = {name for name, group in self._groups.items() if group.members}
        return sorted(active | self._committed.keys())

    def existing(self, name: str) -> Group:
        """Return a group that was joined before, or raise UNKNOWN_MEMBER_ID."""
        group = self._groups.get(name)
        if group is None:
            raise Refused(ErrorCode.unknown_member_id)
        return group

    def check_commit(self, name: str, member_id: str, generation: int, instance_id: str | None) -> None:
        """Raise `Refused` unless this member may commit now; generation -1 is a consumer without a group."""
        now = asyncio.get_running_loop().time()
        group = self.group(name)
        if generation < 0 and not member_id:
            if group.state is not GroupState.EMPTY:
                raise Refused(ErrorCode.unknown_member_id)
            return
        group.check(member_id, generation, now, instance_id)
        if group.state is GroupState.COMPLETING:
            raise Refused(ErrorCode.rebalance_in_progress)

    async def commit(self, name: str, positions: Mapping[tuple[str, int], Committed]) -> None:
        """Keep offsets; they can be fetched once this returns. Raises COORDINATOR_NOT_AVAILABLE."""
        rows = [CommittedRow(name, topic, index, at) for (topic, index), at in positions.items()]
        try:
            await self._store.commit(rows)
        except sqlite3.Error as error:
            log.exception("broker.commit_failed", group=name)
            raise Refused(ErrorCode.coordinator_not_available, str(error)) from error
        self._committed.setdefault(name, {}).update(positions)

    def committed(self, name: str) -> Mapping[tuple[str, int], Committed]:
        """Return everything the group has committed."""
        return self._committed.get(name, {})

    async def forget(self, name: str, partitions: Collection[tuple[str, int]]) -> None:
        """Drop what a group without members committed for these partitions, or raise `Refused`."""
        group = self.known(name)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found)
        if not group.idle:
            raise Refused(ErrorCode.non_empty_group)
        try:
            await self._store.drop_commits(name, partitions)
        except sqlite3.Error as error:
            raise Refused(ErrorCode.coordinator_not_available, str(error)) from error
        left = {at: offset for at, offset in self.committed(name).items() if at not in partitions}
        self._committed[name] = left
        if not left:
            del self._committed[name]

    def forget_topic(self, topic: str) -> None:
        """Drop what groups committed for a deleted topic (the store has done so)."""
        for name, positions in list(self._committed.items()):
            for key in [key for key in positions if key[0] == topic]:
                del positions[key]
            if not positions:
                del self._committed[name]

    async def delete(self, name: str) -> None:
        """Remove a group without members and its offsets, or raise `Refused`."""
        group = self.known(name)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found)
        if not group.idle:
            raise Refused(ErrorCode.non_empty_group)
        try:
            await self._store.drop_group(name)
        except sqlite3.Error as error:
            raise Refused(ErrorCode.coordinator_not_available, str(error)) from error
        self._committed.pop(name, None)
        self._drop([name])

    async def _watch(self) -> None:
        while True:
            looked = asyncio.get_running_loop().time()
            due = min((group.next_deadline for group in self._groups.values()), default=math.inf)
            interval_s = min(max(EXPIRY_INTERVAL_S, due - looked), LOOK_INTERVAL_S)
            await asyncio.sleep(interval_s)
            now = asyncio.get_running_loop().time()
            for group in list(self._groups.values()):
                if now - looked > interval_s + EXPIRY_INTERVAL_S:  # it did not run: heartbeats lie unread
                    for member in group.members.values():
                        member.deadline += now - looked
                group.expire(now)
            self._drop([name for name, group in self._groups.items() if group.idle])

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            group = self._groups.get(name)
            if group is not None and group.idle:
                del self._groups[name]
