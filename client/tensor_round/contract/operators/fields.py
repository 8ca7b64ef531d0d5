"""The field types of descriptors: strict, bounded, and documented in the JSON schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from ..layout import SIZE_LIMIT
from ..quoting import shown, suggestion

#: The highest rank of any dialect. ONNX and OpenVINO specify no limit; this project sets it.
RANK_LIMIT = 32


@dataclass(frozen=True)
class PerDimension:
    """Annotates a field with one integer per dimension: a list or tuple, stored as a tuple.

    ``item`` is the type of each integer. The length is checked before any item is.
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
    """Annotates a field with an enumeration, each value in any spelling of the dialect.

    ``spellings`` maps each accepted spelling to its canonical value, which the model stores.
    ``title`` begins the error message. ``rejected`` maps spellings of known but unsupported values
    to their error messages.
    """

    title: str
    spellings: Mapping[str | int, str]
    rejected: Mapping[str | int, str] | None = None

    def read(self, value: object) -> str:
        """The canonical value; raises an error that lists all values for any other one."""
        # True and 1.0 equal the key 1, but are no spellings of it.
        if isinstance(value, str | int) and not isinstance(value, bool):
            known = self.spellings.get(value)
            if known is not None:
                return known
            if self.rejected and value in self.rejected:
                raise _error(self.rejected[value])
        canonical = dict.fromkeys(self.spellings.values())
        hint = suggestion(value, canonical)
        raise _error(f"{self.title} takes {', '.join(canonical)}, got {shown(value)}{hint}")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # Client generators do not support an enumeration of mixed types.
        names = [name for name in self.spellings if isinstance(name, str)]
        numbers = [number for number in self.spellings if isinstance(number, int)]
        document = {"type": "string", "enum": names}
        if not numbers:
            return document
        return {"anyOf": [document, {"type": "integer", "enum": numbers}]}


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError("one_of", "{message}", {"message": message})


def c_enumeration(prefix: str, values: Mapping[str, int]) -> dict[str | int, str]:
    """The spellings of a C enumeration: the name without its prefix, with it, and the integer."""
    return {
        **{name: name for name in values},
        **{prefix + name: name for name in values},
        **{value: name for name, value in values.items()},
    }
