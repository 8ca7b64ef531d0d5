"""The field types that descriptors are made of: strict, bounded, and documented in the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from ..layout import SIZE_LIMIT
from ..quoting import shown

#: No dialect takes more dimensions; ONNX and OpenVINO name no limit, so this is ours.
RANK_LIMIT = 32


@dataclass(frozen=True)
class PerDimension:
    """Annotates a field of integers, one a dimension: given as list or tuple, held as tuple.

    ``item`` is the type of each. Bounded here, so that a long list is refused unread.
    """

    item: Any  # an annotated type, which is no type to a type checker

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        items = core_schema.tuple_schema(
            [handler.generate_schema(self.item)], variadic_item_index=0, max_length=RANK_LIMIT
        )
        return core_schema.no_info_before_validator_function(_as_tuple, items)


def _as_tuple(value: object) -> tuple[object, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    raise PydanticKnownError("list_type")


Size = Annotated[int, Field(ge=0, lt=SIZE_LIMIT)]
#: Sizes or strides.
Sizes = Annotated[Sequence[int], PerDimension(Size)]


@dataclass(frozen=True)
class OneOf:
    """Annotates a field that names one row of a table, in any spelling the dialect knows.

    ``spellings`` maps what is accepted to what the model holds, one canonical value
    a row. ``title`` says in messages whose rule it is. ``unfit`` maps spellings that
    are known but not allowed to the message for them.
    """

    title: str
    spellings: Mapping[str | int, str]
    unfit: Mapping[str | int, str] | None = None

    def read(self, value: object) -> str:
        """The canonical value, or the error that names every one of them."""
        # True and 1.0 equal 1 as keys, but are no spellings of it.
        if isinstance(value, str | int) and not isinstance(value, bool):
            known = self.spellings.get(value)
            if known is not None:
                return known
            if self.unfit and value in self.unfit:
                raise _error(self.unfit[value])
        canonical = ", ".join(dict.fromkeys(self.spellings.values()))
        raise _error(f"{self.title} takes {canonical}, got {shown(value)}")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # Generators of clients make nothing of an enumeration of several types.
        names = [name for name in self.spellings if isinstance(name, str)]
        numbers = [number for number in self.spellings if isinstance(number, int)]
        document = {"type": "string", "enum": names}
        if not numbers:
            return document
        return {"anyOf": [document, {"type": "integer", "enum": numbers}]}


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError("one_of", "{message}", {"message": message})


def c_enumeration(prefix: str, values: Mapping[str, int]) -> dict[str | int, str]:
    """Every spelling of a C enumeration: the name without its prefix, with it, the integer."""
    return {
        **{name: name for name in values},
        **{prefix + name: name for name in values},
        **{value: name for name, value in values.items()},
    }
