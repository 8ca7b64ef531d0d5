"""The base of all descriptor models: strict, immutable, with bounded fields, written as JSON.

Their errors are the faults of a refusal, with this project's messages.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic_core import (
    CoreSchema,
    ErrorDetails,
    PydanticCustomError,
    PydanticKnownError,
    core_schema,
)

from ..call import Call
from ..errors import Fault, InvalidDescriptor
from ..layout import SIZE_LIMIT
from ..quoting import not_accepted, shown, shown_key, suggestion
from ..wire import strictjson
from .operator import plain

#: Further faults are counted, not listed, so that a response stays small.
LISTED_FAULTS = 32

#: Tags of unions begin with this character, which no field name does.
UNION_TAG = "|"

#: By pydantic's kind of error; ``{got}`` is the wrong value.
_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "unknown field{hint}",
    "model_type": "must be an object, got {got}",
    "list_type": "must be an array, got {got}",
    "int_type": "must be an integer, got {got}",
    "bool_type": "must be true or false, got {got}",
    "none_required": "must be null, got {got}",
    "string_type": "must be a string, got {got}",
    "too_long": "must have at most {max_length} dimensions, got {actual_length}",
    "greater_than_equal": "must be at least {ge}, got {got}",
    "less_than_equal": "must be at most {le}, got {got}",
    "less_than": "must be less than {lt}, got {got}",
    "string_unicode": "has a field name that is not Unicode text",
    # An error of this package; pydantic's own message would begin with its class.
    "value_error": "{error}",
    "literal_error": "must be {expected}, got {got}",
}


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """The faults of a document for ``model``, at most 33 of them; long values are shortened."""
    findings = error.errors()
    absent = [(*finding["loc"],) for finding in findings if finding["type"] == "missing"]
    absent += [(name,) for name in model.model_fields]
    faults = []
    for finding in findings[:LISTED_FAULTS]:
        if finding["type"] == "extra_forbidden":
            *inside, name = finding["loc"]
            fields = [str(loc[-1]) for loc in absent if [*loc[:-1]] == inside]
            finding["ctx"] = {"hint": suggestion(name, fields)}
        faults.append(Fault(_loc(finding["loc"]), _message(finding)))
    if len(findings) > LISTED_FAULTS:
        faults.append(Fault((), f"and {len(findings) - LISTED_FAULTS} more errors"))
    return faults


def unknown(names: Iterable[str], known: Collection[str], what: str, *loc: str) -> list[Fault]:
    """The faults of those names that are not known, 33 at most; ``what`` begins their messages.

    The first one lists the known names.
    """
    found = [name for name in names if name not in known]
    faults = [
        Fault((*loc, shown_key(name)), not_accepted(name, known, rule, wrong=f"unknown {what}"))
        for name, rule in zip(found[:LISTED_FAULTS], chain([""], repeat("as above")), strict=False)
    ]
    if len(found) > LISTED_FAULTS:
        faults.append(Fault(loc, f"and {len(found) - LISTED_FAULTS} more errors"))
    return faults


def _message(finding: ErrorDetails) -> str:
    rule = _MESSAGES.get(finding["type"])
    if rule is None:
        return finding["msg"]
    return rule.format(got=shown(finding["input"]), **finding.get("ctx", {}))


def _loc(parts: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(
        shown_key(part) if isinstance(part, str) else part
        for part in parts
        if not (isinstance(part, str) and part.startswith(UNION_TAG))
    )


#: The highest rank of any dialect. ONNX and OpenVINO specify no limit; this project sets it.
RANK_LIMIT = 32


@dataclass(frozen=True)
class PerDimension:
    """Annotates a field with one integer per dimension: a list or tuple, stored as a tuple.

    ``item`` is the type of each integer. The length is checked before any item is.
    """

    item: Any  # an annotated type, which type checkers do not accept as a type

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
Shape = Annotated[
    Sizes, Field(description="Elements along each dimension; 0 makes an empty tensor.")
]


@dataclass(frozen=True, eq=False)
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
        rule = f"{self.title} takes {', '.join(canonical)}"
        raise _error(not_accepted(value, canonical, rule))

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


def enumeration(names: Iterable[str]) -> dict[Any, str]:
    """The spellings of an enumeration whose names have no other."""
    return {name: name for name in names}


def c_enumeration(prefix: str, values: Mapping[str, int]) -> dict[str | int, str]:
    """The spellings of a C enumeration: the name without its prefix, with it, and the integer."""
    return {
        **enumeration(values),
        **{prefix + name: name for name in values},
        **{value: name for name, value in values.items()},
    }


if TYPE_CHECKING:
    # Type checkers derive a model's constructor from its fields.
    _Model = BaseModel
else:

    class _RaisesInvalidDescriptor(type(BaseModel)):
        """Makes constructor calls take NumPy's numbers, and raise this package's error.

        Pydantic's validators, which read documents, bypass it.
        """

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **plain(fields))
            except ValidationError as error:
                raise InvalidDescriptor.of(faults_of(error, cls)) from None

    class _Model(BaseModel, metaclass=_RaisesInvalidDescriptor):
        pass


class Strict(_Model):
    """A model that converts no value, and refuses unknown fields.

    Its constructor takes NumPy's numbers, too. It raises :class:`InvalidDescriptor` with every
    wrong field.
    """

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        # pydantic would write "Inputtensor".
        field_title_generator=lambda name, _: name,
    )


class OperatorDescriptor(Strict):
    """The base of every dialect's descriptor: an operator, and the layouts of its tensors."""

    #: The document that the schema shows.
    example: ClassVar[dict[str, Any]]

    dialect: str

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The descriptor in a parsed JSON document of this dialect.

        Raises :class:`InvalidDescriptor` with every wrong field.
        """
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            raise InvalidDescriptor.of(faults_of(error, cls)) from None

    @abc.abstractmethod
    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""

    def to_json(self) -> bytes:
        """The JSON text in ASCII, as the header ``Operator-Descriptor`` carries it."""
        fields = self.model_dump(mode="json", exclude_unset=True)
        return strictjson.dumps({"dialect": self.dialect, **fields})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        reference = handler(schema)
        document = handler.resolve_ref_schema(reference)
        document["examples"] = [cls.example]
        required: list[str] = document.setdefault("required", [])
        if "dialect" not in required:
            # Optional in the constructor, but required in a JSON document.
            document["properties"]["dialect"].pop("default", None)
            required.insert(0, "dialect")
        return reference
