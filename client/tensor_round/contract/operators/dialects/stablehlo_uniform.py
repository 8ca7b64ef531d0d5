"""StableHLO's ``uniform_quantize`` and ``uniform_dequantize``.

Scales and zero points are a part of a quantized element type, such as
``!quant.uniform<i8<-127:127>:f32:1, {0.1:-30, 0.5:-20}>``: of its storage type with its ends, its
expressed type, and the dimension that has several scales. So they are constants of a call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field

from ...call import Call, Parameters
from ...dtypes import BY_NAME, AnyDType, DType
from ...errors import InvalidDescriptor
from ...functions import Dequantize, Quantize
from ...host_memory import pack
from ...layout import Layout
from ...quoting import shown
from ...wire.http_fields import MAX_DESCRIPTOR_LENGTH
from ..dialect import DEQUANTIZATION, QUANTIZATION, ModelNames, Operator, Version, Words
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor
from ..operator import Kind, LinearOperator, TensorType, canonical_name, sizes_of
from ..stablehlo_types import OPERAND, PATTERN, TensorText, layout_of, spellings, tensor_text

_EXPRESSED = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
_STORAGE = {
    f"{mark}{width}": f"{sign}int{width}"
    for mark, sign in (("i", ""), ("u", "u"))
    for width in (4, 8, 16)
}
_TYPE = r"!quant\.uniform<(\w{1,8})(?:<(-?\d{1,10}):(-?\d{1,10})>)?:(\w{1,8})(?::(\d{1,2}))?,\s*"
_QUANTIZED = re.compile(rf"{_TYPE}([^<>]*)>", re.ASCII)
_TENSOR = re.compile(r"tensor<((?:(?:0|[1-9]\d{0,18})x)*)(!quant\.uniform<.*>)>", re.ASCII)
_NUMBER = r"[-+]?\d{1,64}(?:\.\d{0,64})?(?:[eE][-+]?\d{1,3})?"
_PAIR = re.compile(rf"\s*({_NUMBER})(?::(-?\d{{1,10}}))?\s*", re.ASCII)
_RULE = "stablehlo takes a quantized type such as !quant.uniform<i8:f32, 0.1:-5>"
VERSIONS = {
    name: Version("1", f"stablehlo: {name}", tuple(source), results=tuple(result))
    for name, source, result in (
        ("uniform_quantize", _EXPRESSED, _STORAGE),
        ("uniform_dequantize", _STORAGE, _EXPRESSED),
    )
}


@dataclass(frozen=True, slots=True)
class QuantizedType:
    """A quantized element type, as its text says.

    ``dimension`` is None if one scale is for the whole tensor. ``limits`` are the storage's ends,
    None if they are those of its type.
    """

    text: str
    storage: DType
    expressed: DType
    dimension: int | None
    limits: tuple[int, int] | None
    count: int
    #: The scales, and behind them the zero points.
    constants: bytes

    @classmethod
    def read(cls, text: str) -> QuantizedType:
        """Parse a type's text; raises :class:`ValueError` with the rule that it breaks."""
        return _read(text)

    def parameters(self, shape: Sequence[int]) -> Parameters:
        """The constants for a tensor of that shape; raises :class:`ValueError`."""
        counts = [1] * len(shape)
        if self.dimension is not None:
            if self.dimension >= len(shape):
                rule = "must be less than the rank"
                raise ValueError(f"stablehlo: dimension {self.dimension} {rule}, {len(shape)}")
            size = shape[self.dimension]
            if size != self.count:
                rule = f"must have {size} scales, as dimension {self.dimension} has elements"
                raise ValueError(f"stablehlo: {rule}, got {self.count}")
            counts[self.dimension] = size
        blocks = [1 if at == self.dimension else max(size, 1) for at, size in enumerate(shape)]
        made = Parameters.of(shape, Layout.of(self.expressed, counts), self.storage, blocks)
        return Parameters(made.scale, made.zero_point, made.blocks, self.constants)


# Each has up to 60 KiB.
@lru_cache(maxsize=64)
def _read(text: str) -> QuantizedType:
    if len(text) > MAX_DESCRIPTOR_LENGTH:
        rule = f"a quantized type must have at most {MAX_DESCRIPTOR_LENGTH} characters"
        raise ValueError(f"stablehlo: {rule}, got {len(text)}")
    found = _QUANTIZED.fullmatch(text)
    if found is None:
        raise ValueError(f"{_RULE}, got {shown(text)}")
    storage, low, high, expressed, dimension, rest = found.groups()
    if expressed not in _EXPRESSED:
        rule = f"stablehlo takes {', '.join(_EXPRESSED)} as expressed type"
        raise ValueError(f"{rule}, got {expressed}")
    if storage not in _STORAGE:
        rule = f"stablehlo takes {', '.join(_STORAGE)} as storage type"
        raise ValueError(f"{rule}, got {storage}")
    kind, wide = BY_NAME[_STORAGE[storage]], BY_NAME[_EXPRESSED[expressed]]
    if kind.width >= wide.width:
        raise ValueError(f"stablehlo: {storage} must have fewer bits than {expressed}")
    least = 0 if storage.startswith("u") else -(1 << kind.width - 1)
    most = least + (1 << kind.width) - 1
    ends = (least, most) if low is None else (int(low), int(high))
    if not least <= ends[0] < ends[1] <= most:
        rule = f"stablehlo: storage_min and storage_max must be in order, from {least} to {most}"
        raise ValueError(f"{rule}, got {ends[0]} and {ends[1]}")
    is_list = rest.startswith("{") and rest.rstrip().endswith("}")
    if is_list != (dimension is not None):
        raise ValueError("stablehlo: a list of scales needs a dimension before it, and it a list")
    scales, points = [], []
    for one in (rest.strip()[1:-1] if is_list else rest).split(","):
        pair = _PAIR.fullmatch(one)
        if pair is None:
            raise ValueError(f"stablehlo: must have scales, or scale:zero_point, got {shown(rest)}")
        scales.append(pair[1])
        points.append(int(pair[2] or 0))
        if not ends[0] <= points[-1] <= ends[1]:
            rule = f"stablehlo: a zero point must be from {ends[0]} to {ends[1]}"
            raise ValueError(f"{rule}, got {points[-1]}")
    codes = np.array(points, np.int64).astype(kind.numpy)
    packed = pack(codes) if kind.is_sub_byte else codes
    constants = _rounded(scales, wide).tobytes() + packed.tobytes()
    at = None if dimension is None else int(dimension)
    limits = None if ends == (least, most) else ends
    return QuantizedType(text, kind, wide, at, limits, len(points), constants)


def _rounded(texts: Sequence[str], kind: DType) -> npt.NDArray[Any]:
    """Positive decimals, each rounded once to a type, ties to even.

    Raises :class:`ValueError` for one that becomes neither.
    """
    near = np.array([*map(float, texts)])
    with np.errstate(all="ignore"):
        # Rounding twice is wrong only from a tie, to which a number beside it came: to odd instead.
        below, above = (np.nextafter(near, end).astype(kind.numpy) for end in (-np.inf, np.inf))
        is_even = near.view(np.int64) & 1 == 0
        for at in np.flatnonzero((below != above) & is_even).tolist():
            exact, tie = Decimal(texts[at]), Decimal(float(near[at]))
            if exact != tie:
                near[at] = np.nextafter(near[at], np.inf if exact > tie else -np.inf)
        found = near.astype(kind.numpy)
    wrong = np.flatnonzero(~((found > 0) & np.isfinite(found)))
    if wrong.size:
        raise ValueError(f"stablehlo: a scale must be positive and finite, got {texts[wrong[0]]}")
    return found


def _parts(text: str) -> tuple[tuple[int, ...], QuantizedType]:
    """The sizes and the element type of a quantized tensor; raises :class:`ValueError`."""
    found = _TENSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"stablehlo takes tensor<2x3x!quant.uniform<...>>, got {shown(text)}")
    sizes = tuple(map(int, found[1].split("x")[:-1]))
    if len(sizes) > RANK_LIMIT:
        raise ValueError(f"stablehlo takes at most {RANK_LIMIT} dimensions here, got {len(sizes)}")
    element = QuantizedType.read(found[2])
    element.parameters(sizes)
    return sizes, element


def _checked(text: str) -> str:
    _parts(text)
    return text


_QuantizedTensor = Annotated[str, AfterValidator(_checked)]
_DESCRIPTION = (
    "sizes and a quantized element type, whose storage type is one of "
    f"{', '.join(_STORAGE)}, and its expressed type one of {', '.join(_EXPRESSED)}."
)


class StableHLOUniformQuantizeDescriptor(OperatorDescriptor):
    """StableHLO uniform_quantize: to the storage type of a quantized type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "uniform_quantize",
        "operand": "tensor<2x3xf32>",
        "result": "tensor<2x3x!quant.uniform<i8:f32:1, {0.1:-30, 0.5:-20, 1.0:0}>>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[str, OneOf("stablehlo", spellings("uniform_quantize"))]
    operand: TensorText = Field(
        description=f"{OPERAND}one of {', '.join(_EXPRESSED)}.", json_schema_extra=PATTERN
    )
    result: _QuantizedTensor = Field(description=f"The result's type: {_DESCRIPTION}")

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = layout_of(self.operand, VERSIONS["uniform_quantize"], _EXPRESSED)
        sizes, element = _parts(self.result)
        if sizes != source.shape:
            rule = "stablehlo: uniform_quantize: must have the operand's sizes"
            raise InvalidDescriptor.at(("result",), rule)
        if element.expressed is not source.dtype:
            rule = "stablehlo: uniform_quantize: its expressed type must be the operand's"
            raise InvalidDescriptor.at(("result",), rule)
        function = Quantize(limits=element.limits)
        result = Layout.of(element.storage, sizes, loc=("result",))
        return Call(function, source, result, source.byte_length, element.parameters(sizes))


class StableHLOUniformDequantizeDescriptor(OperatorDescriptor):
    """StableHLO uniform_dequantize: from a quantized type to its expressed type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "uniform_dequantize",
        "operand": "tensor<2x3x!quant.uniform<i8:f32, 0.1:-30>>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[str, OneOf("stablehlo", spellings("uniform_dequantize"))]
    operand: _QuantizedTensor = Field(description=f"The operand's type: {_DESCRIPTION}")

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        sizes, element = _parts(self.operand)
        source = Layout.of(element.storage, sizes, loc=("operand",))
        result = Layout.of(element.expressed, sizes, loc=("operand",))
        return Call(Dequantize(), source, result, source.byte_length, element.parameters(sizes))


class _Uniform(LinearOperator):
    __slots__ = ()

    #: The descriptor's field that has the quantized type.
    _quantized: ClassVar[str]
    _form: ClassVar[type[OperatorDescriptor]]
    quantized_type: str

    def __post_init__(self) -> None:
        element = self._element()
        result = element.storage if self.kind is Kind.QUANTIZE else element.expressed
        object.__setattr__(self, "to", result.name)

    def _element(self) -> QuantizedType:
        if not isinstance(self.quantized_type, str):
            rule = f"{_RULE}, got {shown(self.quantized_type)}"
            raise InvalidDescriptor.at(("quantized_type",), rule)
        try:
            return QuantizedType.read(self.quantized_type)
        except ValueError as error:
            raise InvalidDescriptor.at(("quantized_type",), str(error)) from None

    @classmethod
    def attributes(cls) -> tuple[str, ...]:
        """The names of the attributes, in the order of the constructor."""
        return ("quantized_type",)

    @classmethod
    def of(cls, descriptor: OperatorDescriptor) -> Self:
        """The operator of a descriptor of its dialect."""
        element = _parts(getattr(descriptor, cls._quantized))[1]
        return cls(**{"quantized_type": element.text})

    def descriptor(
        self,
        dtype: AnyDType | None = None,
        shape: Sequence[int] | None = None,
        scale: TensorType | None = None,
        zero_point: TensorType | None = None,
    ) -> OperatorDescriptor:
        """The ``stablehlo`` descriptor for a tensor of the expressed type, or of the storage type.

        The former is quantized, the latter dequantized.
        """
        quantizes, element = self.kind is Kind.QUANTIZE, self._element()
        for name, one in (("scale", scale), ("zero_point", zero_point)):
            if one is not None:
                raise InvalidDescriptor.at((name,), "stablehlo: it is in quantized_type: omit it")
        taken = element.expressed if quantizes else element.storage
        if canonical_name(dtype) != taken.name:
            rule = f"stablehlo: {self.quantized_type} takes {taken.name} here"
            raise InvalidDescriptor.at(("operand",), f"{rule}, got {canonical_name(dtype)}")
        sizes = "".join(f"{size}x" for size in sizes_of(shape))
        document = {"op": f"uniform_{self.kind}"}
        if quantizes:
            document["operand"] = tensor_text(_EXPRESSED, dtype, shape)
        document[self._quantized] = f"tensor<{sizes}{self.quantized_type}>"
        return self._form.read(document)


@dataclass(frozen=True, slots=True)
class StableHLOUniformQuantize(_Uniform):
    """StableHLO uniform_quantize to a quantized element type, such as
    ``!quant.uniform<i8:f32, 0.1:-5>``, which has the scales and zero points.
    """

    kind: ClassVar[Kind] = Kind.QUANTIZE
    _form: ClassVar[type[OperatorDescriptor]] = StableHLOUniformQuantizeDescriptor
    _quantized: ClassVar[str] = "result"

    quantized_type: str
    to: AnyDType | None = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StableHLOUniformDequantize(_Uniform):
    """StableHLO uniform_dequantize from a quantized element type, such as
    ``!quant.uniform<i8:f32, 0.1:-5>``, which has the scales and zero points.
    """

    kind: ClassVar[Kind] = Kind.DEQUANTIZE
    _form: ClassVar[type[OperatorDescriptor]] = StableHLOUniformDequantizeDescriptor
    _quantized: ClassVar[str] = "operand"

    quantized_type: str
    to: AnyDType | None = field(default=None, init=False, compare=False, repr=False)


def _row(made: type[_Uniform], unspecified: dict[str, str]) -> Operator:
    name = f"uniform_{made.kind}"
    return Operator(
        name=name,
        descriptor=made._form,
        object=made,
        model=ModelNames(f"stablehlo_{name}", "operand", "result"),
        words=Words(name, ("QUANTIZED_TYPE",), required=1, is_text=True),
        versions=(VERSIONS[name],),
        dtypes={**_EXPRESSED, **_STORAGE},
        target_field="result" if made.kind is Kind.QUANTIZE else None,
        unspecified=unspecified,
    )


#: The operators' rows in the dialect's table.
ROWS = (
    _row(
        StableHLOUniformQuantize,
        {**QUANTIZATION, "quotient or sum beyond the storage type": "saturate"},
    ),
    _row(
        StableHLOUniformDequantize,
        {**DEQUANTIZATION, "operand beyond storage_min and storage_max": "computed alike"},
    ),
)
