"""What all descriptor models have in common: strictness, immutability, and their JSON text."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from ..call import RoundCall
from ..errors import InvalidDescriptor
from ..wire import strictjson
from .faults import faults_of

if TYPE_CHECKING:
    # Type checkers make a model's constructor from its fields.
    _Refusing = BaseModel
else:

    class _RefusingCalls(type(BaseModel)):
        """Calls of the class raise this package's error; pydantic's own readers do not call it."""

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except ValidationError as error:
                raise InvalidDescriptor.of(faults_of(error)) from None

    class _Refusing(BaseModel, metaclass=_RefusingCalls):
        pass


class Strict(_Refusing):
    """A model that converts nothing and knows every field it may have.

    Made by its constructor, it raises :class:`InvalidDescriptor` with every fault of form.
    """

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        # pydantic would write "Inputtensor".
        field_title_generator=lambda name, _: name,
    )


class OperatorDescriptor(Strict):
    """What to round, and how it lies: the root of every dialect's descriptor."""

    dialect: str

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The descriptor that a document of this dialect stands for.

        Raises :class:`InvalidDescriptor` with every fault of form.
        """
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            raise InvalidDescriptor.of(faults_of(error)) from None

    @abc.abstractmethod
    def resolve(self) -> RoundCall:
        """The call this descriptor stands for; raises :class:`InvalidDescriptor`."""

    def to_json(self) -> bytes:
        """The JSON text, in ASCII, fit for the header ``Operator-Descriptor``."""
        fields = self.model_dump(mode="json", exclude_unset=True)
        return strictjson.dumps({"dialect": self.dialect, **fields})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        reference = handler(schema)
        document = handler.resolve_ref_schema(reference)
        required: list[str] = document.setdefault("required", [])
        if "dialect" not in required:
            # A constructor need not be told its own dialect; a JSON document must say it.
            document["properties"]["dialect"].pop("default", None)
            required.insert(0, "dialect")
        return reference
