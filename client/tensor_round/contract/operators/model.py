"""The base of all descriptor models: strict, immutable, and written as JSON."""

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
    # Type checkers derive a model's constructor from its fields.
    _Model = BaseModel
else:

    class _RaisesInvalidDescriptor(type(BaseModel)):
        """Makes constructor calls raise this package's error; pydantic's validators bypass it."""

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except ValidationError as error:
                raise InvalidDescriptor.of(faults_of(error)) from None

    class _Model(BaseModel, metaclass=_RaisesInvalidDescriptor):
        pass


class Strict(_Model):
    """A model that converts no value and refuses unknown fields.

    Its constructor raises :class:`InvalidDescriptor` with every wrong field.
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

    dialect: str

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The descriptor in a parsed JSON document of this dialect.

        Raises :class:`InvalidDescriptor` with every wrong field.
        """
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            raise InvalidDescriptor.of(faults_of(error)) from None

    @abc.abstractmethod
    def resolve(self) -> RoundCall:
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
        required: list[str] = document.setdefault("required", [])
        if "dialect" not in required:
            # Optional in the constructor, but required in a JSON document.
            document["properties"]["dialect"].pop("default", None)
            required.insert(0, "dialect")
        return reference
