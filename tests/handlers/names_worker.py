"""A process with a names process: `-m tests.handlers.names_worker` writes the id of that one, and waits."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from app.names.process import open_names


async def main() -> None:
    """Index an empty list, and wait to be killed."""

    async def entries() -> AsyncIterator[Sequence[bytes]]:
        yield []

    async with open_names() as names:
        await names(entries)
        print(f"pid {names.pid}", flush=True)  # noqa: T201 - the test reads it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
