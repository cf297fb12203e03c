"""Argon2id in a few threads of its own: a hash takes some 20 ms and 19 MiB, and never the event loop."""

import asyncio
import base64
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, ParamSpec, TypeVar

from argon2 import Parameters, PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import ARGON2_VERSION
from typing_extensions import override

from schemas.problems import Overloaded
from streams.ports.errors import Damaged
from streams.reviewers.context import Passwords
from streams.sign_in.password_rules import password_bytes

P = ParamSpec("P")
R = TypeVar("R")

PARAMETERS: Final = Parameters(
    type=Type.ID,
    version=ARGON2_VERSION,
    salt_len=16,
    hash_len=32,
    time_cost=2,
    memory_cost=19_456,
    parallelism=1,
)
"""The least that OWASP's list of 2025 accepts (S26); memory in KiB."""

WORKERS: Final = 4
"""Hashes computed at one time, at most; fewer on fewer cores. Four need 76 MiB."""

WAITING: Final = 32
"""Sign-ins that may wait for a thread: about half a second's worth on two cores."""


class Argon2Passwords(Passwords):
    """Hashes in a bounded pool; over its bound a caller is told so instead of waiting."""

    def __init__(
        self, parameters: Parameters = PARAMETERS, *, workers: int | None = None, waiting: int = WAITING
    ) -> None:
        self._hasher = PasswordHasher(
            time_cost=parameters.time_cost,
            memory_cost=parameters.memory_cost,
            parallelism=parameters.parallelism,
            hash_len=parameters.hash_len,
            salt_len=parameters.salt_len,
            type=parameters.type,
        )
        self._nobodys = nobodys_hash(parameters)
        chosen = workers or min(WORKERS, os.cpu_count() or 1)
        self._places = threading.BoundedSemaphore(chosen + waiting)
        self._threads = ThreadPoolExecutor(chosen, thread_name_prefix="passwords")

    @override
    async def hash(self, password: str) -> str:
        return await self._run(self._hasher.hash, password_bytes(password))

    @override
    async def verify(self, stored_hash: str | None, password: str) -> bool:
        genuine = await self._run(self._verify, stored_hash or self._nobodys, password_bytes(password))
        return genuine and stored_hash is not None

    def _verify(self, stored_hash: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(stored_hash, password)
        except VerifyMismatchError:
            return False
        except (InvalidHashError, VerificationError) as error:
            raise Damaged("a password hash cannot be read") from error

    @override
    def is_stale(self, stored_hash: str) -> bool:
        return self._hasher.check_needs_rehash(stored_hash)

    async def aclose(self) -> None:
        """Refuse new work and return when the running hashes have ended."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def _run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._places.acquire(blocking=False):
            raise Overloaded("too many passwords are being checked")
        try:
            future = self._threads.submit(work, *args, **kwargs)
        except RuntimeError as error:
            self._places.release()
            raise Overloaded("passwords are no longer checked here") from error
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)


@asynccontextmanager
async def open_passwords(parameters: Parameters = PARAMETERS) -> AsyncIterator[Argon2Passwords]:
    """Keep the threads for as long as the context lasts."""
    passwords = Argon2Passwords(parameters)
    try:
        yield passwords
    finally:
        await passwords.aclose()


def nobodys_hash(parameters: Parameters) -> str:
    """Return a hash that no password has and that costs as much to try as any other (S27)."""
    costs = f"m={parameters.memory_cost},t={parameters.time_cost},p={parameters.parallelism}"
    salt, digest = (_unpadded(bytes(size)) for size in (parameters.salt_len, parameters.hash_len))
    return f"$argon2id$v={parameters.version}${costs}${salt}${digest}"


def _unpadded(raw: bytes) -> str:
    return base64.b64encode(raw).rstrip(b"=").decode()
