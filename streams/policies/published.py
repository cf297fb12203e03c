"""The published policy of a tenant and what runs beside it, compiled once per process and text."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from schemas.ids import TenantId
from schemas.policy_records import PublishedRevision
from schemas.problems import NotFound, Refused, VeristreamError
from streams.policies.compiling import CompiledPolicy, compile_policy
from streams.policies.loading import FIRST_REVISION, first_policy, load
from streams.policies.reading.document import POLICY
from streams.policies.storage import VersionedPolicy, load_policy, load_revision, load_shadow
from streams.ports.records import Records

MOST_COMPILED: Final = 256
"""Compiled policies in memory; those used longest ago go first. One takes about a megabyte at most."""


class PolicyUnavailable(VeristreamError):
    """The published revision does not load any more; payments wait (G111)."""


class PublishedPolicies:
    """Finds the policy in force, with one read of a small record."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._compiled: OrderedDict[tuple[int, str], CompiledPolicy] = OrderedDict()
        self._compiling: dict[tuple[int, str], asyncio.Task[CompiledPolicy]] = {}

    async def current(self, tenant_id: TenantId, policy: str = POLICY) -> CompiledPolicy:
        """Return the published revision of a policy.

        Raises:
            PolicyUnavailable: Its text does not load.
            NotFound: There is no policy of this name.
            StoreUnavailable: The store cannot be read for now.
        """
        return await self.compiled(tenant_id, policy, await load_policy(self._records, tenant_id, policy))

    async def shadow(self, tenant_id: TenantId, policy: str, found: VersionedPolicy) -> CompiledPolicy | None:
        """Return what runs beside the published revision; a text that does not load any more is none."""
        shadow = found.stored.shadow
        if shadow is None:
            return None
        read = partial(load_shadow, self._records, tenant_id, policy)
        try:
            return await self._of(shadow.revision or 0, shadow.sha256, read)
        except PolicyUnavailable:
            return None

    async def compiled(self, tenant_id: TenantId, policy: str, found: VersionedPolicy) -> CompiledPolicy:
        """Return the published revision of a policy that was read; raises as `current` does."""
        published = found.stored.published
        if published.revision == FIRST_REVISION and found.version == 0:
            return first_policy()
        return await self._revision(tenant_id, policy, published)

    async def revision(self, tenant_id: TenantId, revision: int, policy: str = POLICY) -> CompiledPolicy:
        """Return any published revision, current or not; raises as `current` does."""
        published, _ = await load_revision(self._records, tenant_id, policy, revision)
        return await self._revision(tenant_id, policy, published)

    async def _revision(
        self, tenant_id: TenantId, policy: str, published: PublishedRevision
    ) -> CompiledPolicy:
        async def read() -> bytes:
            return (await load_revision(self._records, tenant_id, policy, published.revision))[1]

        return await self._of(published.revision, published.sha256, read)

    async def _of(self, revision: int, sha256: str, read: Callable[[], Awaitable[bytes]]) -> CompiledPolicy:
        key = revision, sha256
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = await self._compile_once(key, await _read(revision, read))
            self._compiled[key] = compiled
            if len(self._compiled) > MOST_COMPILED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return compiled

    async def _compile_once(self, key: tuple[int, str], text: bytes) -> CompiledPolicy:
        """Compile a text once for all who wait for it; one who gives up takes it from no other."""
        task = self._compiling.get(key)
        if task is None:
            task = self._compiling[key] = asyncio.create_task(_compile(*key, text))
            task.add_done_callback(lambda _: self._compiling.pop(key))
        return await asyncio.shield(task)


async def _read(revision: int, read: Callable[[], Awaitable[bytes]]) -> bytes:
    try:
        return await read()
    except NotFound as error:
        raise PolicyUnavailable(f"revision {revision}") from error


async def _compile(revision: int, sha256: str, text: bytes) -> CompiledPolicy:
    try:
        document = await asyncio.to_thread(load, text)
    except Refused as error:
        raise PolicyUnavailable(f"revision {revision}") from error
    return compile_policy(document, revision, sha256)
