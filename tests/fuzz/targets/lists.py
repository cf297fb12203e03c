"""Published lists and tenants' own, from bytes to entries."""

from contextlib import suppress
from io import BytesIO

from schemas.lists import ListKind
from streams.lists.formats.reading import FormatUnreadable
from streams.lists.formats.recognising import read_published
from streams.lists.formats.tenant import EntriesInvalid, TextForm, read_entries
from tests.rules.test_list_formats import OURS_CSV, OURS_JSON, PUBLISHED

SEEDS = tuple(text.encode() for text in (*PUBLISHED.values(), OURS_JSON, OURS_CSV))


def target(data: bytes) -> None:
    """Read the bytes as each of them."""
    with suppress(FormatUnreadable):
        list(read_published(BytesIO(data)).entries)
    for form in TextForm:
        with suppress(EntriesInvalid):
            read_entries(BytesIO(data), form, ListKind.NAMES, most=1_000)
