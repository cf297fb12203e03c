"""The bodies of flow requests (interface section 4.1, G5)."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from schemas.base import Frozen, TextForm
from schemas.enums import FlowType
from schemas.problems import ProblemCode

MOST_COUNTRIES: Final = 250
MOST_DOCUMENTS: Final = 100

FlowName = Annotated[
    str,
    TextForm(strip_whitespace=True, min_length=1, max_length=80, words="Write a name of 1 to 80 characters."),
]
Country = Annotated[
    str,
    TextForm(pattern="^[A-Z]{2}$", words="Write a country as two capital letters such as NG (ISO 3166-1)."),
]
Code = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Url = Annotated[str, StringConstraints(max_length=4_096)]
"""Judged by the rules of flows, which know the code for a wrong one."""


class Selection(Frozen):
    """Documents of one country."""

    country: Country
    capabilities: Annotated[tuple[Code, ...], Field(max_length=MOST_DOCUMENTS)]


Selections = Annotated[tuple[Selection, ...], Field(max_length=MOST_COUNTRIES)]


class CreateFlowBody(Frozen):
    """A draft."""

    name: FlowName
    flow_type: FlowType
    documents: Selections = ()
    return_url: Url | None = None

    @field_validator("documents", mode="before")
    @classmethod
    def _absent_is_empty(cls, value: object) -> object:
        return () if value is None else value


class EditFlowBody(Frozen):
    """Fields of the draft to change; what is not named stays."""

    name: FlowName | None = None
    flow_type: FlowType | None = None
    documents: Selections | None = None
    return_url: Url | None = None
    """Null takes it away."""

    @field_validator("name", "flow_type", "documents", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, "Input should not be null")
        return value
