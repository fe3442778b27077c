"""What every API model shares: camelCase names, no unknown fields, descriptions from the docstrings of attributes.

A `rule` is a CEL validation that the API server executes; its message is what the user reads, so it names the remedy.
Sizes are bounded everywhere because the API server charges CEL by the worst case.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

VALIDATIONS = "x-kubernetes-validations"


class Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def rule(expression: str, message: str) -> dict[str, str]:
    return {"rule": expression, "message": message}


def rules(*validations: dict[str, str]) -> dict[str, Any]:
    """`json_schema_extra` of a field or a model on which the API server checks these rules."""
    return {VALIDATIONS: list(validations)}


LABEL_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
ResourceName = Annotated[
    str, Field(min_length=1, max_length=317, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")
]
LabelKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]
Quantity = Annotated[int | str, Field(union_mode="left_to_right")]
Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]
