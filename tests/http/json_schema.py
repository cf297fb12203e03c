"""As much of JSON Schema 2020-12 as the description uses, to hold answers against it."""

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


class Schemas:
    """The schemas of a document; `complaints` is empty for a value that fits."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def complaints(self, value: Any, schema: dict[str, Any], place: str = "") -> Iterator[str]:
        """Yield each place where the value breaks the schema."""
        if "$ref" in schema:
            yield from self.complaints(value, self._resolve(schema["$ref"]), place)
        if "anyOf" in schema and all([*self.complaints(value, one, place)] for one in schema["anyOf"]):
            yield f"{place}: fits none of the choices"
        if "enum" in schema and value not in schema["enum"]:
            yield f"{place}: {value!r} is not listed"
        if "const" in schema and value != schema["const"]:
            yield f"{place}: is not {schema['const']!r}"
        if "type" in schema and not _is(value, schema["type"]):
            yield f"{place}: is no {schema['type']}"
        elif isinstance(value, dict):
            yield from self._object(value, schema, place)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from self.complaints(one, schema.get("items", {}), f"{place}/{number}")
        elif isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{place}: does not match"

    def _object(self, value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
        yield from (f"{place}: lacks {name}" for name in schema.get("required", ()) if name not in value)
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, one in value.items():
            inner = known.get(name, more)
            if inner is False:
                yield f"{place}: may not have {name}"
            elif isinstance(inner, dict):
                yield from self.complaints(one, inner, f"{place}/{name}")

    def undeclared(self, value: Any, schema: dict[str, Any], place: str = "") -> Iterator[str]:
        """Yield each field of an answer that its schema does not declare (S5)."""
        if "$ref" in schema:
            yield from self.undeclared(value, self._resolve(schema["$ref"]), place)
        for one in schema.get("anyOf", ()):
            if not [*self.complaints(value, one)]:
                yield from self.undeclared(value, one, place)
        if isinstance(value, dict) and "properties" in schema:
            for name, one in value.items():
                if name in schema["properties"]:
                    yield from self.undeclared(one, schema["properties"][name], f"{place}/{name}")
                else:
                    yield f"{place}/{name}"
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from self.undeclared(one, schema.get("items", {}), f"{place}/{number}")

    def _resolve(self, reference: str) -> dict[str, Any]:
        found: Any = self._document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        assert isinstance(found, dict)
        return found


def _is(value: Any, named: str) -> bool:
    if isinstance(value, bool) and named in {"integer", "number"}:
        return False
    return isinstance(value, TYPES[named])
