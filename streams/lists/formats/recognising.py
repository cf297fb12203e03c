"""Read a published list in the form that its first bytes show."""

from collections.abc import Callable
from typing import BinaryIO, Final

from streams.lists.formats import eu, ofac_advanced, ofac_csv, ofac_simple, opensanctions, uk, un
from streams.lists.formats.reading import FormatUnreadable, Reading

_HEAD_BYTES: Final = 4_096

_XML_ROOTS: Final[tuple[tuple[bytes, Callable[[BinaryIO], Reading]], ...]] = (
    (b"<consolidated_list", un.read),
    (b"<sdnlist", ofac_simple.read),
    (b"<export", eu.read),
    (b"<sanctions", ofac_advanced.read),
)


def read_published(file: BinaryIO) -> Reading:
    """Return what the file holds; it is read while `entries` is iterated over.

    Raises:
        FormatUnreadable: It is none of the forms: a page of HTML, half a file, a document of another kind.
    """
    head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    file.seek(0)
    if not head:
        raise FormatUnreadable("it is empty")
    if head.startswith((b"<!doctype html", b"<html")):
        raise FormatUnreadable("it is a page of HTML, not a list")
    if head.startswith(b"<"):
        return _read_xml(file, head)
    if head.startswith(b"{"):
        return opensanctions.read_entities(file)
    first = head.partition(b"\n")[0]
    if b"unique id" in head:
        return uk.read(file)
    return opensanctions.read_simple_csv(file) if b"schema" in first else ofac_csv.read(file)


def _read_xml(file: BinaryIO, head: bytes) -> Reading:
    for root, read in _XML_ROOTS:
        if root in head:
            return read(file)
    raise FormatUnreadable("its root element is not one of a known list")
