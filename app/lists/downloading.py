"""Download published lists from their publishers: bounded in time and size, unfinished answers refused."""

from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from app.lists.publishing import LoadRefused

ADDRESSES: Final = {
    "us_ofac_sdn": "https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/SDN_ADVANCED.XML",
    "us_ofac_cons": "https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/CONS_ADVANCED.XML",
    "un_sc_sanctions": "https://scsanctions.un.org/resources/xml/en/consolidated.xml",
    "eu_fsf": "https://webgate.ec.europa.eu/fsd/fsf/public/files/xmlFullSanctionsList_1_1/content?token=dG9rZW4tMjAxNw",
    "gb_fcdo_sanctions": "https://sanctionslist.fcdo.gov.uk/docs/UK-Sanctions-List.csv",
}  # fmt: skip
"""As their publishers tell them on 2026-11-23; free to use."""

_OPENSANCTIONS: Final = "https://data.opensanctions.org/datasets/latest/{}/entities.ftm.json"
_TOTAL_S: Final = 900
_IDLE_S: Final = 60
MOST_BYTES: Final = 4 << 30
"""The largest published file is about a tenth of it."""

_CHUNK_BYTES: Final = 1 << 20
_OK: Final = 200


async def fetch(name: str, path: Path) -> None:
    """Download a list from its publisher; raises as `download` does."""
    await download(address_of(name), path)


def address_of(name: str) -> str:
    """Return where a list is published: by its owner, else as a data set of OpenSanctions of that name.

    Data of OpenSanctions is free for non-commercial use (CC BY-NC 4.0); anybody else needs a licence.
    """
    return ADDRESSES.get(name) or _OPENSANCTIONS.format(name)


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
