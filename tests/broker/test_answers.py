"""Answers are written in the very bytes kio writes, whatever they hold."""

import io
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_writer

from app.broker.answers import answer_writer
from tests.broker.frames import SERVED, entities

ANSWERS: Final = [
    words for words in map(load_response_schema, *zip(*SERVED, strict=True)) if not words.__flexible__
]
"""The class of every answer without tagged fields, in every version served; kio writes the others."""


def answers() -> st.SearchStrategy[Any]:
    """Any answer of any version served."""
    return st.sampled_from(ANSWERS).flatmap(entities)


@given(answers())
def test_every_answer_is_written_as_kio_writes_it(answer: Any) -> None:
    ours, kios = io.BytesIO(), io.BytesIO()
    answer_writer(type(answer))(ours, answer)
    entity_writer(type(answer))(kios, answer)
    assert ours.getvalue() == kios.getvalue()
