"""Hostile JSON is refused with one code, whatever rule it breaks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http import strict_json
from app.http.strict_json import LONG_STRING_BYTES, MAX_DEPTH, MAX_KEYS, MAX_STRINGS, MAX_STRUCTURE_BYTES
from schemas.problems import ProblemCode, Refused

HOSTILE = {
    "nothing": b"",
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "another encoding": '{"a":1}'.encode("utf-16"),
    "broken UTF-8": b'{"a":"\xc3("}',
    "an overlong form": b'{"a":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "a lone high surrogate": b'{"a":"\\ud800"}',
    "a lone low surrogate in a key": b'{"\\udc00":1}',
    "a duplicate key": b'{"a":1,"a":2}',
    "a duplicate key spelled otherwise": b'{"a":1,"\\u0061":2}',
    "a duplicate key below": b'{"b":{"a":1,"a":1}}',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "a number beyond all numbers": b'{"a":1e400}',
    "an integer of thousands of digits": b'{"a":' + b"9" * 5_000 + b"}",
    "a trailing comma": b'{"a":1,}',
    "a second value": b"{}{}",
    "a comment": b'{"a":1}//',
    "single quotes": b"{'a':1}",
    "a control character": b'{"a":"\x01"}',
    "too deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "far too deep": b"[" * 90_000 + b"]" * 90_000,
    "far too deep objects": b'{"a":' * 9_000 + b"1" + b"}" * 9_000,
    "too many keys": json.dumps({str(n): n for n in range(MAX_KEYS + 1)}).encode(),
    "too many keys altogether": json.dumps([{str(n): n for n in range(MAX_KEYS // 2)}] * 3).encode(),
    "too many parts": b"[" + b"[]," * MAX_STRUCTURE_BYTES + b"1]",
    "too many parts behind a string": b'["",' + b"[]," * MAX_STRUCTURE_BYTES + b"1]",
    "too many strings": b"[" + b'"aa",' * (MAX_STRINGS + 1) + b"1]",
    "too many escaped quotes": b'["' + b'\\"' * MAX_STRUCTURE_BYTES + b'"]',
    "backslashes without end": b'["' + b"\\" * 200_000,
    "a long string without end": b'["' + b"a" * 200_000,
    "a long string of broken UTF-8": b'["' + b"\xff" * 200_000 + b'"]',
    "two values, one of them long": b'"' + b"a" * 200_000 + b'""',
    "a duplicate key beside a long string": b'{"a":"' + b"a" * 200_000 + b'","b":1,"b":2}',
    "a lone surrogate beside a long string": b'["' + b"a" * 200_000 + b'","\\udfff"]',
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_json_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        strict_json.parse(raw)

    assert refused.value.refusal.code is ProblemCode.MALFORMED_JSON


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, True, None, "ü😀", {"b": {}}]},
        "text",
        0,
        {str(n): n for n in range(MAX_KEYS)},
    ],
)
def test_decent_json_is_read(value: Any) -> None:
    assert strict_json.parse(json.dumps(value).encode()) == value
    assert strict_json.parse(json.dumps(value, ensure_ascii=False).encode()) == value


LONG = "A" * (MAX_STRUCTURE_BYTES + 1)


@pytest.mark.parametrize(
    "value",
    [
        LONG,
        [LONG, "b", [LONG + "c"]],
        {"a": LONG, "b": {"c": LONG + "/+="}, "d": "short"},
        {"a": LONG, "b": 'quotes " and \\ backslashes \\\\'},
        {"a": LONG + '"'},
        {"a": LONG + "\\"},
        {"a": LONG + "\\\\", "b": LONG + "\n"},
        {"a": "ü" * LONG_STRING_BYTES * 3},
    ],
)
def test_long_strings_come_back_to_their_places(value: Any) -> None:
    assert strict_json.parse(json.dumps(value, ensure_ascii=False).encode()) == value
    assert strict_json.parse(json.dumps(value).encode()) == value


def test_the_deepest_allowed_level_is_read() -> None:
    raw = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH

    assert strict_json.parse(raw)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_was_written_is_read(value: Any) -> None:
    try:
        raw = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert strict_json.parse(raw) == value


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), JSON, max_size=4))
def test_what_was_written_beside_a_long_string_is_read(value: dict[str, Any]) -> None:
    whole = {**value, "long": LONG}
    try:
        raw = json.dumps(whole, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert strict_json.parse(raw) == whole


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        strict_json.parse(raw)
    except Refused as refused:
        assert refused.refusal.code is ProblemCode.MALFORMED_JSON  # noqa: PT017 - either end is good


@given(JSON, st.integers(0, 200), st.sampled_from([b"\x00", b'"', b"\\", b"{", b"\xff", b"\\ud800", b"NaN"]))
def test_a_damaged_text_is_read_or_refused(value: Any, place: int, damage: bytes) -> None:
    raw = json.dumps(value).encode()
    try:
        strict_json.parse(raw[:place] + damage + raw[place:])
    except Refused as refused:
        assert refused.refusal.code is ProblemCode.MALFORMED_JSON  # noqa: PT017 - either end is good


def test_a_route_of_many_things_takes_as_many_times_the_keys_and_no_more() -> None:
    rows = [{str(n): "x" for n in range(MAX_KEYS // 2)}] * 8

    assert strict_json.parse(json.dumps(rows).encode(), 4) == rows
    for scale in (1, 3):
        with pytest.raises(Refused):
            strict_json.parse(json.dumps(rows).encode(), scale)
