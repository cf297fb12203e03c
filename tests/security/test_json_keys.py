"""Point 11, S44: a key of a JSON object obeys limits of length, however long the body is."""

import json

import pytest

from app.http import strict_json
from app.http.strict_json import LONG_STRING_BYTES, MAX_STRUCTURE_BYTES
from schemas.problems import ProblemCode, Refused
from tests.http.support import PATH, build_body, open_front

LONG = "k" * LONG_STRING_BYTES
FILL = "v" * 2 * MAX_STRUCTURE_BYTES


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({LONG: 1}).encode(),
        json.dumps({LONG: 1, "fill": FILL}).encode(),
        json.dumps({"outer": [{"inner": {LONG: FILL}}]}).encode(),
        json.dumps({LONG + "\\": FILL}).encode(),
        json.dumps({"é" * (LONG_STRING_BYTES // 2): FILL}, ensure_ascii=False).encode(),
        b'{"' + LONG.encode() + b'" \n : 1, "fill": "' + FILL.encode() + b'"}',
        b'{"' + LONG.encode() + b'":1,"' + LONG.encode() + b'":2,"fill":"' + FILL.encode() + b'"}',
        json.dumps({"\x000": 1, "fill": FILL}).encode(),
    ],
    ids=[
        "short body",
        "long body",
        "nested",
        "escaped",
        "not ASCII",
        "spaced",
        "twice",
        "placeholder",
    ],
)
def test_s44_a_key_over_the_limit_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        strict_json.parse(raw)

    assert refused.value.refusal.code is ProblemCode.MALFORMED_JSON


def test_s44_keys_up_to_the_limit_and_long_values_are_read() -> None:
    body = {"k" * (LONG_STRING_BYTES - 1): FILL, "other": [FILL, "short"]}

    assert strict_json.parse(json.dumps(body).encode()) == body


async def test_s44_metadata_under_a_long_key_never_reaches_a_handler() -> None:
    body = build_body(metadata={LONG: FILL})

    async with open_front() as front:
        answer = await front.ask("POST", PATH, json=body)

    assert (answer.status, answer.code, front.gateway.asked) == (400, "MALFORMED_JSON", [])
