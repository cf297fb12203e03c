"""Read large XML files record by record; a document type, and with it every entity, is refused."""

from collections.abc import Iterator
from typing import BinaryIO, Final
from xml.etree import ElementTree as ET
from xml.parsers import expat

from streams.lists.formats.reading import FormatUnreadable

_CHUNK_BYTES: Final = 65_536
_MOST_DEPTH: Final = 64


class _RootFound(Exception):
    """The prolog ended without a document type."""


def records(file: BinaryIO, *tags: str) -> Iterator[ET.Element]:
    """Yield each element of the tags, by local name, as it ends; its content is dropped afterwards.

    Raises:
        FormatUnreadable: It is no XML, it breaks off, it has a document type, or it is too deep.
    """
    refuse_document_type(file)
    stack: list[ET.Element] = []
    try:
        for event, element in ET.iterparse(file, events=("start", "end")):  # noqa: S314 - no document type
            if event == "start":
                stack.append(element)
                if len(stack) > _MOST_DEPTH:
                    raise FormatUnreadable("the elements are too deep")
                continue
            stack.pop()
            if local_name(element) in tags:
                yield element
                element.clear()
                if stack:
                    stack[-1].remove(element)
    except ET.ParseError as error:
        raise FormatUnreadable(f"it is no complete XML: line {error.position[0]}") from error


def refuse_document_type(file: BinaryIO) -> None:
    """Read up to the root element and return to the start.

    Raises:
        FormatUnreadable: There is a document type, or no root element.
    """
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = _root_found
    try:
        while chunk := file.read(_CHUNK_BYTES):
            parser.Parse(chunk, False)
        raise FormatUnreadable("it is no XML: no element")
    except _RootFound:
        file.seek(0)
    except expat.ExpatError as error:
        raise FormatUnreadable(f"it is no XML: line {error.lineno}") from error


def _refuse(*_: object) -> None:
    raise FormatUnreadable("it has a document type")


def _root_found(*_: object) -> None:
    raise _RootFound


def local_name(element: ET.Element) -> str:
    """Return the tag without its namespace: publishers change that with their hosts."""
    return element.tag.rpartition("}")[2]


def children(element: ET.Element, *path: str) -> Iterator[ET.Element]:
    """Yield the elements under a path of local names."""
    if not path:
        yield element
        return
    for child in element:
        if local_name(child) == path[0]:
            yield from children(child, *path[1:])


def texts(element: ET.Element, *path: str) -> list[str]:
    """Return the texts of the elements under a path."""
    return [(found.text or "").strip() for found in children(element, *path)]


def text(element: ET.Element, *path: str) -> str:
    """Return the first text under a path; empty for none."""
    return next(iter(texts(element, *path)), "")
