"""Where the lists are published, for `veristream lists update`; the operator can name another address."""

from pathlib import Path
from typing import Final

from app.lists.downloading import download

ADDRESSES: Final = {
    "us_ofac_sdn": "https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/SDN_ADVANCED.XML",
    "us_ofac_cons": "https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/CONS_ADVANCED.XML",
    "un_sc_sanctions": "https://scsanctions.un.org/resources/xml/en/consolidated.xml",
    "eu_fsf": "https://webgate.ec.europa.eu/fsd/fsf/public/files/xmlFullSanctionsList_1_1/content?token=dG9rZW4tMjAxNw",
    "gb_fcdo_sanctions": "https://sanctionslist.fcdo.gov.uk/docs/UK-Sanctions-List.csv",
}  # fmt: skip
"""As their publishers tell them on 2026-11-23; free to use."""

_OPENSANCTIONS: Final = "https://data.opensanctions.org/datasets/latest/{}/entities.ftm.json"


async def fetch(name: str, path: Path) -> None:
    """Download a list from its publisher; raises as `download` does."""
    await download(address_of(name), path)


def address_of(name: str) -> str:
    """Return where a list is published: by its owner, else as a data set of OpenSanctions of that name.

    Data of OpenSanctions is free for non-commercial use (CC BY-NC 4.0); anybody else needs a licence.
    """
    return ADDRESSES.get(name) or _OPENSANCTIONS.format(name)
