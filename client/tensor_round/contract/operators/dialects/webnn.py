"""The ``webnn`` dialect: ``roundEven`` of the Web Neural Network API.

Its fields are the method's name and the MLOperandDescriptor of its input. The specification
allows any rank and two data types; dimensions are at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import AnyDType
from ...rounding import Rounding
from ..dialect import Dialect, ModelNames, Version, Words
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor, PerDimension, Strict
from ..operator import RoundOperator, canonical_name, sizes_of

__all__ = ["WebNNDescriptor", "WebNNRoundEven", "WebNNTensor"]

#: MLOperandDataType's names, which are also the canonical ones.
VERSION = Version("1", "webnn: roundEven", (), ("float32", "float16"), 0, RANK_LIMIT)
#: A "valid dimension": greater than zero, and in the range of WebIDL's ``long``.
_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1)]


class WebNNTensor(Strict):
    """An MLOperandDescriptor: a tensor packed in C order."""

    dataType: Annotated[str, OneOf(VERSION.title, {name: name for name in VERSION.dtypes})]
    shape: Annotated[Sequence[int], PerDimension(_Dimension)] = Field(
        description="Elements along each dimension, at least 1; an empty list is a scalar."
    )


class WebNNDescriptor(OperatorDescriptor):
    """WebNN roundEven: to the nearest integer, ties to even."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "webnn",
        "op": "roundEven",
        "input": {"dataType": "float16", "shape": [2, 3]},
    }

    dialect: Literal["webnn"] = "webnn"
    op: Literal["roundEven"]
    input: WebNNTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        dtype, shape = self.input.dataType, self.input.shape
        return Call.packed(Rounding.TIES_TO_EVEN, dtype, shape, ("input",))


@dataclass(frozen=True, slots=True)
class WebNNRoundEven(RoundOperator):
    """WebNN roundEven: ties to even, on float32 and float16."""

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> WebNNDescriptor:
        """The ``webnn`` descriptor for a tensor."""
        tensor = {"dataType": canonical_name(dtype), "shape": sizes_of(shape)}
        return WebNNDescriptor.read({"op": "roundEven", "input": tensor})


DIALECT = Dialect(
    title="WebNN",
    operator="roundEven",
    descriptor=WebNNDescriptor,
    object=WebNNRoundEven,
    model=ModelNames("webnn_round_even", "input", "output"),
    words=Words(),
    versions=(VERSION,),
    dtypes={name: name for name in VERSION.dtypes},
)
