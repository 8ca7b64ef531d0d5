"""The base of all operators: immutable values that make descriptors; callers' tensor arguments."""

from __future__ import annotations

import abc
import contextlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from numbers import Number
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from ..call import Call
from ..dtypes import BY_NAME, AnyDType, DTypeName, dtype_name
from ..errors import InvalidArgument, InvalidArgumentType, InvalidDescriptor
from ..quoting import not_accepted, shown
from ..rounding import Rounding, RoundingName
from ..wire import http_fields

if TYPE_CHECKING:
    from .model import OperatorDescriptor

#: Levels of objects and arrays in which callers' numbers are looked for; descriptors have five.
_LEVELS = 8


def canonical_name(dtype: AnyDType | None) -> str:
    """The canonical name of a dtype, also of torch; an unsupported dtype keeps its own name."""
    if dtype is None:
        raise InvalidArgument("dtype is needed: the operator states none")
    if isinstance(dtype, str) and dtype in BY_NAME:
        return dtype
    if type(dtype).__module__ == "torch":
        return str(dtype).removeprefix("torch.")
    try:
        return dtype_name(np.dtype(cast(Any, dtype)))
    except (TypeError, ValueError, SyntaxError):
        if isinstance(dtype, str):
            return dtype  # the dialect's model refuses it with the list of accepted ones
        raise InvalidArgument(f"dtype must be a name or a NumPy type, got {dtype!r}") from None


def sizes_of(shape: Sequence[int] | None) -> tuple[int, ...]:
    """The sizes of a shape, as Python integers."""
    if shape is None:
        raise InvalidArgument("shape is needed: the operator states none")
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise InvalidArgument("shape must be a sequence of integers") from None


def plain(value: Any, levels: int = _LEVELS) -> Any:
    """Python's numbers in place of NumPy's, and of other classes' integers; all else as it is.

    What is nested deeper than ``levels`` is left as it is.
    """
    if isinstance(value, np.generic):
        return value.item()
    if levels and type(value) in (list, tuple):
        return type(value)(plain(one, levels - 1) for one in value)
    if levels and isinstance(value, Mapping):
        return {name: plain(one, levels - 1) for name, one in value.items()}
    if hasattr(type(value), "__index__") and not isinstance(value, int):
        with contextlib.suppress(TypeError):  # an array of several elements, for one
            return operator.index(value)
    return value


def attributes_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes beside an operator's word that are not None: integers, and ``saturate``.

    Raises :class:`InvalidDescriptor` for any other type.
    """
    given = {name: plain(value) for name, value in values.items() if value is not None}
    for name, value in given.items():
        kind, rule = (bool, "true or false") if name == "saturate" else (int, "an integer")
        if type(value) is not kind:
            raise InvalidDescriptor.at((name,), f"must be {rule}, got {shown(value)}")
    return given


def needed(scale: TensorType | None) -> TensorType:
    """The scale's dtype and shape, which a quantization cannot do without."""
    if scale is None:
        raise InvalidArgument("scale is needed: its dtype and shape")
    return scale


def check_target(operator: LinearOperator, descriptor: OperatorDescriptor) -> None:
    """Refuse a result of another type than the operator's ``to``, if it has one."""
    result = descriptor.resolve().output.dtype.name
    if operator.to is not None and canonical_name(operator.to) != result:
        of = "the zero point" if operator.kind is Kind.QUANTIZE else "the scale"
        rule = f"the result has the type of {of}, {result}, got {canonical_name(operator.to)}"
        raise InvalidDescriptor.at(("to",), rule)


def name_in(names: Mapping[str, str], dtype: str) -> str:
    """The name of a dtype in ``names``; without one, the canonical name, which models refuse."""
    return next((name for name, canonical in names.items() if canonical == dtype), dtype)


#: Prepared descriptors that are cached; each has a few hundred bytes.
_CACHE_SIZE = 1024

_DIRECTIONS = frozenset(Rounding)

#: The shape of a tensor that every version of every dialect accepts.
ANY_SHAPE = (1,) * 4


#: A packed tensor: its dtype and its shape.
TensorType = tuple[AnyDType, Sequence[int]]


class Kind(StrEnum):
    """What an operator does to a tensor; the client's methods have these names.

    ``round`` keeps the type, ``cast`` converts to another one, and the others do so with a scale
    and a zero point.
    """

    ROUND = "round"
    CAST = "cast"
    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"

    @property
    def is_linear(self) -> bool:
        """Whether it has a scale and a zero point."""
        return self in (Kind.QUANTIZE, Kind.DEQUANTIZE)


@dataclass(frozen=True, slots=True)
class PreparedDescriptor:
    """A resolved descriptor, with everything that its requests and responses have in common.

    ``descriptor`` is the value of the Operator-Descriptor header, and ``call`` is the call that it
    resolves to. ``headers`` are the fixed request headers. ``output_descriptor`` is the
    response's Output-Descriptor, as this project's service writes it. ``steps`` are the
    quantization and the dequantization of a fake quantization, which is no dialect's operator.
    """

    descriptor: bytes
    call: Call
    headers: tuple[tuple[bytes, bytes], ...]
    output_descriptor: str
    steps: tuple[PreparedDescriptor, ...] = ()


def prepare_descriptor(descriptor: OperatorDescriptor) -> PreparedDescriptor:
    """Resolve a descriptor and encode its headers; raises :class:`InvalidDescriptor`."""
    call, text = descriptor.resolve(), descriptor.to_json()
    headers = (
        (http_fields.CONTENT_TYPE.encode(), http_fields.OCTET_STREAM.encode()),
        (http_fields.OPERATOR_DESCRIPTOR.encode(), text),
    )
    output = http_fields.output_descriptor(call.output).decode()
    return PreparedDescriptor(text, call, headers, output)


class RoundOperator(abc.ABC):
    """One dialect's operator, with its attributes; immutable and hashable.

    Attributes are stored by their canonical names, so operators with the same meaning are equal.
    An operator that was read from another format may state a tensor, which comparison ignores.
    """

    __slots__ = ()

    kind: ClassVar[Kind] = Kind.ROUND
    #: The path of each attribute in the dialect's descriptor.
    _paths: ClassVar[Mapping[str, str]] = {}
    #: The fewest dimensions that every version of the operator accepts, but for a scalar.
    _flat_rank: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self._take_numbers()
        # Attributes are checked on a tensor that every version of every dialect accepts.
        self._store(self.descriptor("float32", ANY_SHAPE))

    def _take_numbers(self) -> None:
        for attribute in self.attributes():
            object.__setattr__(self, attribute, plain(getattr(self, attribute)))

    def _store(self, descriptor: OperatorDescriptor) -> None:
        for attribute, path in self._paths.items():
            object.__setattr__(self, attribute, attrgetter(path)(descriptor))

    @classmethod
    def attributes(cls) -> tuple[str, ...]:
        """The names of the attributes, in the order of the constructor."""
        return tuple(cls._paths)

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """The names of the attributes without a default."""
        return tuple(
            one.name
            for one in fields(cast(Any, cls))
            if one.default is MISSING and one.default_factory is MISSING
        )

    @classmethod
    def paths(cls) -> Mapping[str, str]:
        """The path of each attribute in the dialect's descriptor."""
        return cls._paths

    @classmethod
    def of(cls, descriptor: OperatorDescriptor) -> Self:
        """The operator of a descriptor of its dialect."""
        return cls(**{name: attrgetter(path)(descriptor) for name, path in cls._paths.items()})

    @abc.abstractmethod
    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OperatorDescriptor:
        """The descriptor of the operator on a packed tensor, or on the one that it was read with.

        ``dtype`` is a canonical name or a NumPy dtype. Raises :class:`InvalidDescriptor` for a
        tensor that the operator does not accept, and :class:`InvalidArgument` without a tensor.
        """

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape of ``count`` elements that the operator accepts."""
        return (*[1] * (self._flat_rank - 1), count)

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> PreparedDescriptor:
        """The prepared descriptor of a packed tensor; raises :class:`InvalidDescriptor`."""
        return _prepared(self, dtype, shape)


@lru_cache(maxsize=_CACHE_SIZE)
def _prepared(operator: RoundOperator, dtype: str, *tensors: Any) -> PreparedDescriptor:
    # The dialect's model refuses any other name.
    return prepare_descriptor(operator.descriptor(cast(DTypeName, dtype), *tensors))


#: Why an operator of a kind is refused by a call for another one.
_USES = {
    Kind.ROUND: "keeps the type: use round",
    Kind.CAST: "converts to another type: use cast",
    Kind.QUANTIZE: "needs a scale: use quantize",
    Kind.DEQUANTIZE: "needs a scale: use dequantize",
}
_TO_INTEGERS = "rounding is to integers only, so scale first"


class _ToType(RoundOperator):
    """An operator whose result has a type of its own, the attribute ``to``."""

    __slots__ = ()

    #: Attributes that the descriptor leaves out unless they are given.
    _optional: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def attributes(cls) -> tuple[str, ...]:
        """The names of the attributes, in the order of the constructor."""
        return ("to", *cls._paths, *cls._optional)

    @classmethod
    def of(cls, descriptor: OperatorDescriptor) -> Self:
        """The operator of a descriptor of its dialect."""
        attributes = {name: attrgetter(path)(descriptor) for name, path in cls._paths.items()}
        for name in cls._optional:
            if name in descriptor.model_fields_set:
                attributes[name] = getattr(descriptor, name)
        return cls(**{"to": descriptor.resolve().output.dtype.name, **attributes})


class CastOperator(_ToType):
    """One dialect's operator to another type; ``to`` is its canonical name or a NumPy dtype."""

    __slots__ = ()

    kind: ClassVar[Kind] = Kind.CAST
    to: AnyDType

    def _store(self, descriptor: OperatorDescriptor) -> None:
        RoundOperator._store(self, descriptor)
        object.__setattr__(self, "to", descriptor.resolve().output.dtype.name)


class LinearOperator(_ToType):
    """One dialect's linear quantization, or its inverse, by scales and zero points.

    ``to`` is the type of the result; None leaves it to the dialect, which reads it from the scale
    or the zero point.
    """

    __slots__ = ()

    to: AnyDType | None

    def __post_init__(self) -> None:
        self._take_numbers()
        # Attributes are checked on tensors that every version of every dialect accepts.
        to = None if self.to is None else canonical_name(self.to)
        types: tuple[Any, ...] = ("float32", "float32", to or "uint8")
        if self.kind is Kind.DEQUANTIZE:
            types = ("uint8", to or "float32", "uint8")
        source, scale, point = types
        self._store(self.descriptor(source, ANY_SHAPE, (scale, ()), (point, ())))
        object.__setattr__(self, "to", to)

    @abc.abstractmethod
    def descriptor(
        self,
        dtype: AnyDType | None = None,
        shape: Sequence[int] | None = None,
        scale: TensorType | None = None,
        zero_point: TensorType | None = None,
    ) -> OperatorDescriptor:
        """The descriptor of the operator on packed tensors.

        ``scale`` and ``zero_point`` are their dtypes and shapes; without dimensions they are for
        the whole tensor. Raises :class:`InvalidDescriptor` for tensors that the operator does not
        accept, and :class:`InvalidArgument` without a tensor that it needs.
        """

    def prepare(
        self,
        dtype: str,
        shape: tuple[int, ...],
        scale: tuple[str, tuple[int, ...]] | None = None,
        zero_point: tuple[str, tuple[int, ...]] | None = None,
    ) -> PreparedDescriptor:
        """The prepared descriptor of packed tensors; raises :class:`InvalidDescriptor`."""
        return _prepared(self, dtype, shape, scale, zero_point)


def made_of(made: type[RoundOperator], attributes: Mapping[str, Any]) -> RoundOperator:
    """An operator with attributes of JSON, where types are names alone.

    Raises :class:`InvalidDescriptor`.
    """
    for name in ("to", "precision"):
        value = attributes.get(name, "")
        if not isinstance(value, str):
            rule = f"must be a data type's name, got {shown(value)}"
            raise InvalidDescriptor.at((name,), rule)
    return made(**attributes)


def as_operator(
    operator: RoundOperator | str | None,
    rounding: RoundingName | Rounding | None = None,
    decimals: int = 0,
) -> RoundOperator:
    """The operator that a caller gave, also as one word; by default ``ties_to_even``.

    Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument` if both are given, and for
    ``decimals``, which NumPy's ``round`` has.
    """
    if decimals:
        raise InvalidArgument(f"decimals must be 0: {_TO_INTEGERS}")
    if rounding is not None:
        if operator is not None:
            raise InvalidArgument("an operator has its own rounding: give one of the two")
        if isinstance(rounding, str) and rounding not in _DIRECTIONS:
            raise InvalidDescriptor.at(("rounding",), not_accepted(rounding, Rounding))
        operator = rounding
    if operator is None:
        operator = "ties_to_even"
    if isinstance(operator, str):
        return _named(operator)
    _refuse_class(operator)
    if isinstance(operator, RoundOperator):
        if operator.kind is not Kind.ROUND:
            raise InvalidArgument(f"{type(operator).__name__} {_USES[operator.kind]}")
        return operator
    if isinstance(operator, Number):  # in the place of NumPy's decimals
        rule = f"must be an operator or a direction, got {shown(operator)}: {_TO_INTEGERS}"
        raise InvalidDescriptor.at(("rounding",), rule)
    return _ieee754(operator)


def as_cast(
    to: Any,
    operator: CastOperator | str | None,
    rounding: RoundingName | Rounding | None,
    saturate: bool | None,
) -> CastOperator:
    """The cast that a caller gave: a target type with the attributes of one, or an operator.

    Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument` for arguments that an operator
    has already.
    """
    if isinstance(operator, CastOperator):
        if rounding is not None or saturate is not None:
            raise InvalidArgument("an operator has its own rounding and saturate: omit both")
        if to is not None and canonical_name(to) != operator.to:
            raise InvalidArgument(f"the operator's target type is {operator.to}: omit to")
        return operator
    for given in (to, operator):
        if isinstance(given, type):
            _refuse_class(given)
    if isinstance(to, str) and to not in BY_NAME:
        raise InvalidDescriptor.at(("to",), not_accepted(to, BY_NAME))
    if to is None or isinstance(to, RoundOperator):
        raise InvalidArgumentType("to must be a dtype; an operator is operator=...")
    if operator is not None and rounding is not None:
        raise InvalidArgument("an operator has its own rounding: give one of the two")
    if operator is not None and not isinstance(operator, str):
        raise _no_word(operator, "CastOperator")
    if saturate is not None and not isinstance(saturate := plain(saturate), bool):
        raise InvalidArgumentType("saturate must be True, False or None")
    if not (rounding is None or (isinstance(rounding, str) and rounding in _DIRECTIONS)):
        raise InvalidDescriptor.at(("rounding",), not_accepted(rounding, Rounding))
    word = operator or rounding or "ties_to_even"
    return cast(CastOperator, _named(word, Kind.CAST, canonical_name(to), saturate=saturate))


def as_linear(
    kind: Kind,
    to: Any = None,
    operator: LinearOperator | str | None = None,
    **attributes: int | bool | None,
) -> LinearOperator:
    """The quantization that a caller gave, or its inverse: an operator, or a type and attributes.

    ``attributes`` are the operator's, such as ``axis`` and ``block_size``; None leaves one out.
    Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument` for arguments that an operator
    has already.
    """
    given = attributes_given(attributes)
    if isinstance(operator, LinearOperator) and operator.kind is kind:
        if given:
            raise InvalidArgument(f"an operator has its own attributes: omit {', '.join(given)}")
        if operator.to is None and to is not None:
            return cast(LinearOperator, replace(cast(Any, operator), to=to))
        if to is not None and canonical_name(to) != operator.to:
            raise InvalidArgument(f"the operator's target type is {operator.to}: omit to")
        return operator
    if operator is not None and not isinstance(operator, str):
        raise _no_word(operator, "LinearOperator")
    if isinstance(to, str) and to not in BY_NAME:
        raise InvalidDescriptor.at(("to",), not_accepted(to, BY_NAME))
    if isinstance(to, RoundOperator):
        raise InvalidArgumentType("to must be a dtype; an operator is operator=...")
    name = None if to is None else canonical_name(to)
    return cast(LinearOperator, _named(operator or "onnx", kind, name, **given))


def _no_word(operator: object, family: str) -> InvalidArgumentType:
    """The error of what is neither a word nor an operator of this family."""
    if isinstance(operator, RoundOperator):
        return InvalidArgumentType(f"{type(operator).__name__} {_USES[operator.kind]}")
    return InvalidArgumentType(f"operator must be a word or a {family}")


def _refuse_class(operator: object) -> None:
    """Raise :class:`InvalidArgumentType` for an operator's class in the place of an operator."""
    if isinstance(operator, type) and issubclass(operator, RoundOperator):
        arguments = ", ".join(f"{name}=..." for name in operator.required())
        name = operator.__name__
        raise InvalidArgumentType(f"{name} is a class: pass {name}({arguments})")


@lru_cache(maxsize=64)
def _named(
    word: str, kind: Kind = Kind.ROUND, to: str | None = None, **attributes: Any
) -> RoundOperator:
    if kind is Kind.ROUND and word in _DIRECTIONS:
        return _ieee754(cast(Rounding, word))
    from .registry import operator_from_text  # imports all dialects

    return operator_from_text(word, to=to, kind=kind, **attributes)


def _ieee754(rounding: Any) -> RoundOperator:
    from .dialects.ieee754 import IEEE754Round  # at first use, with pydantic

    return IEEE754Round(rounding)
