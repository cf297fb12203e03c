"""The served descriptions speak to an integrator: nothing in them refers to the code or to notes about it."""

import re
from collections.abc import Iterator
from typing import Any

from tests.http.support import Front

INTERNAL = {
    "a number of a decision": r"\b[GSRPF]\d{1,3}\b",
    "a section of another text": r"\b(interface|decision|design) section\b|\binterface \d",
    "a module of the service": r"\b(app|schemas|streams|tests)(\.[a-z_]+)+\b|\.py\b",
    "the form of a Python object": r"<class |<function | object at 0x|<enum |\bPydantic\w*\b|typing\.",
    "a class of the service": r"\b(Frozen|BaseModel|StrEnum|Handler|Endpoint\()\b",
    "a reference of a docstring": r":(class|func|meth|mod|attr):`",
}
"""What no text of a description may hold."""


def texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a document, names of fields included, by its place."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield f"{place}/{name}", name
            yield from texts(one, f"{place}/{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from texts(one, f"{place}/{number}")
    elif isinstance(value, str):
        yield place, value


def internal(document: Any) -> list[str]:
    """Each place of a document that names something internal; images in base64 name nothing."""
    return [
        f"{place}: {what}: {text[:120]}"
        for place, text in texts(document)
        if not place.endswith("base64")
        for what, form in INTERNAL.items()
        if re.search(form, text)
    ]


async def test_no_description_names_anything_internal(front: Front) -> None:
    for path in ("/v1/openapi.json", "/v1/asyncapi.json"):
        assert internal((await front.ask("GET", path, None)).json) == []


def test_an_internal_reference_would_be_noticed() -> None:
    result = {
        "a": "The answer (G36).", "b": "`streams.verification.records` makes it.", "c": "<class 'str'>",
        "d": "interface section 2.8", "e": "See :class:`Flow`.", "f": "R7",
    }  # fmt: skip

    assert len(internal(result)) >= len(result)
