"""What in a description breaks clients of an earlier one; the earlier one is kept in `released_openapi.json`.

`python -m tests.http.interface_diff --renew` writes the description of this tree there; do so at a release,
when every breaking change is one that clients were notified of.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from tests.http.support import open_front

Json = dict[str, Any]

RELEASED: Final = Path(__file__).with_name("released_openapi.json")

_ANNOUNCED: Final = {
    "description",
    "summary",
    "example",
    "examples",
    "title",
    "tags",
    "x-audit-actions",
    "operationId",
}
"""What says how to use the interface and promises nothing."""

_UPPER: Final = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_LOWER: Final = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")

_METHODS: Final = ("get", "put", "post", "patch", "delete")


def contract_of(document: Any, *, names: bool = False) -> Any:
    """Return the part of a document that clients rely on; `names` says that keys are names of fields."""
    if isinstance(document, Mapping):
        return {
            key: contract_of(value, names=key in {"properties", "schemas", "paths", "headers"} and not names)
            for key, value in document.items()
            if names or key not in _ANNOUNCED
        }
    return [contract_of(one) for one in document] if isinstance(document, list) else document


def breaks(old: Json, new: Json) -> list[str]:
    """Return a sentence for every change from `old` to `new` that breaks a client."""
    return [*_Comparison(old, new).paths()]


class _Comparison:
    """Two documents side by side; schemas that were compared once are not compared again."""

    def __init__(self, old: Json, new: Json) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str, bool]] = set()

    def paths(self) -> Iterator[str]:
        """Compare every operation."""
        for path, methods in self._old["paths"].items():
            for method in _METHODS:
                if method not in methods:
                    continue
                name, now = f"{method.upper()} {path}", self._new["paths"].get(path, {}).get(method)
                if now is None:
                    yield f"{name}: the operation was removed"
                else:
                    yield from self._operation(name, methods[method], now)

    def _operation(self, name: str, old: Json, new: Json) -> Iterator[str]:
        schemes = [{scheme for one in side.get("security", []) for scheme in one} for side in (old, new)]
        yield from (f"{name}: {one} is no longer accepted" for one in sorted(schemes[0] - schemes[1]))
        if schemes[1] and not schemes[0]:
            yield f"{name}: a credential is now required"
        yield from self._parameters(name, old, new)
        yield from self._request(name, old.get("requestBody"), new.get("requestBody"))
        for status, answer in old["responses"].items():
            now = new["responses"].get(status)
            if now is None:
                yield f"{name}: status {status} was removed"
            else:
                yield from self._answer(f"{name} {status}", answer, now)

    def _parameters(self, name: str, old: Json, new: Json) -> Iterator[str]:
        before, after = (
            {(one["in"], one["name"]): one for one in side.get("parameters", [])} for side in (old, new)
        )
        for key, one in before.items():
            place = f"{name}: {key[0]} parameter {key[1]}"
            if key not in after:
                yield f"{place} was removed"
            else:
                if after[key].get("required") and not one.get("required"):
                    yield f"{place} is now required"
                yield from self._schema(place, one["schema"], after[key]["schema"], sent=True)
        for key in after.keys() - before.keys():
            if after[key].get("required"):
                yield f"{name}: {key[0]} parameter {key[1]} is new and required"

    def _request(self, name: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if old is None:
            if new is not None and new.get("required"):
                yield f"{name}: a request body is now required"
            return
        if new is None:
            yield f"{name}: the request body was removed"
            return
        if new.get("required") and not old.get("required"):
            yield f"{name}: the request body is now required"
        yield from self._contents(f"{name} request", old, new, sent=True)

    def _answer(self, name: str, old: Json, new: Json) -> Iterator[str]:
        lost = old.get("headers", {}).keys() - new.get("headers", {}).keys()
        yield from (f"{name}: the header {one} was removed" for one in sorted(lost))
        yield from self._contents(name, old, new, sent=False)

    def _contents(self, name: str, old: Json, new: Json, *, sent: bool) -> Iterator[str]:
        for kind, body in old.get("content", {}).items():
            now = new.get("content", {}).get(kind)
            if now is None:
                yield f"{name}: the media type {kind} was removed"
            else:
                yield from self._schema(name, body["schema"], now["schema"], sent=sent)

    def _schema(self, place: str, old: Any, new: Any, *, sent: bool) -> Iterator[str]:
        """Compare two schemas; `sent` ones are the client's to fulfil, the others the service's."""
        key = (old.get("$ref", ""), new.get("$ref", ""), sent)
        if all(key[:2]):
            if key in self._seen:
                return
            self._seen.add(key)
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        if "anyOf" in old or "anyOf" in new:
            yield from self._choices(place, old, new, sent=sent)
            return
        yield from _types(place, old, new, sent=sent)
        yield from _values(place, old, new)
        if sent:
            yield from _limits(place, old, new)
        yield from self._properties(place, old, new, sent=sent)
        for part in ("items", "additionalProperties", "propertyNames"):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from self._schema(f"{place}/*", old[part], new[part], sent=sent)
        if (
            sent
            and old.get("additionalProperties", True) is not False
            and new.get("additionalProperties") is False
        ):
            yield f"{place}: further properties are now refused"

    def _choices(self, place: str, old: Json, new: Json, *, sent: bool) -> Iterator[str]:
        before, after = (
            {_kind(_resolved(document, one)): one for one in side.get("anyOf", [side])}
            for document, side in ((self._old, old), (self._new, new))
        )
        for kind in before.keys() & after.keys():
            yield from self._schema(place, before[kind], after[kind], sent=sent)
        if sent:
            yield from (
                f"{place}: {kind} is no longer accepted" for kind in sorted(before.keys() - after.keys())
            )
        else:
            yield from (f"{place}: it may now be {kind}" for kind in sorted(after.keys() - before.keys()))

    def _properties(self, place: str, old: Json, new: Json, *, sent: bool) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        required = [set(side.get("required", ())) for side in (old, new)]
        for name, one in before.items():
            if name not in after:
                yield f"{place}: the property {name} was removed"
            else:
                yield from self._schema(f"{place}/{name}", one, after[name], sent=sent)
        if sent:
            for name in sorted(required[1] - required[0]):
                how = "now" if name in before else "new and"
                yield f"{place}: the property {name} is {how} required"
        else:
            gone = (required[0] - required[1]) & after.keys()
            yield from (f"{place}: the property {name} may now be absent" for name in sorted(gone))


def _resolved(document: Json, schema: Json) -> Json:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _kind(schema: Json) -> str:
    if "enum" in schema or "const" in schema:
        return f"one of a list of {schema.get('type', 'values')}"
    return f"{schema.get('type', 'anything')} {schema.get('format', '')}".strip()


def _types(place: str, old: Json, new: Json, *, sent: bool) -> Iterator[str]:
    before, after = old.get("type"), new.get("type")
    if (
        before != after
        and (after is not None or not sent)
        and not (sent and (before, after) == ("integer", "number"))
    ):
        yield f"{place}: the type {before} became {after}"
    elif old.get("format") != new.get("format") and (new.get("format") is not None or not sent):
        yield f"{place}: the format {old.get('format')} became {new.get('format')}"


def _values(place: str, old: Json, new: Json) -> Iterator[str]:
    for word in ("enum", "const"):
        before = old.get(word, []) if word == "enum" else [old[word]] if word in old else []
        if before and (now := new.get("enum", [new["const"]] if "const" in new else None)) is not None:
            yield from (f"{place}: the value {value} was removed" for value in before if value not in now)
    if "enum" in new and "enum" not in old and "const" not in old:
        yield f"{place}: only listed values are possible now"


def _limits(place: str, old: Json, new: Json) -> Iterator[str]:
    for word in _UPPER:
        if word in new and new[word] < old.get(word, float("inf")):
            yield f"{place}: {word} went from {old.get(word)} to {new[word]}"
    for word in _LOWER:
        if word in new and new[word] > old.get(word, float("-inf")):
            yield f"{place}: {word} went from {old.get(word)} to {new[word]}"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield f"{place}: the pattern became {new['pattern']}"


async def served_contract() -> Json:
    """Return the contract this tree serves, with every route there can be."""
    async with open_front(operator_token=SecretStr("o" * 32), metrics_by_token=True) as front:
        found: Json = contract_of((await front.ask("GET", "/v1/openapi.json", None)).json)
        return found


def released_contract() -> Json:
    """Return the contract that was released last."""
    found: Json = json.loads(RELEASED.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Say what breaks; with `--renew`, write the description of this tree as the released one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--renew", action="store_true", help="write this tree's description as the released one"
    )
    renew, served = parser.parse_args().renew, asyncio.run(served_contract())
    found = breaks(released_contract(), served) if RELEASED.exists() else []
    sys.stdout.write("".join(f"{one}\n" for one in found))
    if renew:
        RELEASED.write_text(json.dumps(served, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(bool(found) and not renew)


if __name__ == "__main__":
    sys.exit(main())
