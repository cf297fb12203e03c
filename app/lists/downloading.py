"""Download a published list into a file: bounded in time and size, unfinished answers refused."""

from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from app.lists.loading import LoadRefused

_TOTAL_S: Final = 900
_IDLE_S: Final = 60
MOST_BYTES: Final = 4 << 30
"""The largest published file is about a tenth of it."""

_CHUNK_BYTES: Final = 1 << 20
_OK: Final = 200


async def download(address: str, path: Path, most_bytes: int = MOST_BYTES) -> None:
    """Write what the address answers with into the file.

    Raises:
        LoadRefused: No answer, another status than 200, an answer that broke off or is too large.
    """
    timeout = ClientTimeout(total=_TOTAL_S, sock_read=_IDLE_S)
    try:
        async with ClientSession(timeout=timeout) as session, session.get(address) as answer:
            if answer.status != _OK:
                raise LoadRefused(f"{answer.host} answered with status {answer.status}")
            written = 0
            with path.open("wb") as file:
                async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                    written += len(chunk)
                    if written > most_bytes:
                        raise LoadRefused(f"{answer.host} sent more than {most_bytes >> 20} MiB")
                    file.write(chunk)
    except (ClientError, TimeoutError, ValueError) as error:
        raise LoadRefused(f"the download failed: {type(error).__name__}") from error
