"""The call: the common form that descriptors of every dialect resolve to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from .dtypes import BY_NAME, DType
from .errors import PayloadSizeMismatch, TensorTooLarge
from .functions import Convert, FakeQuantize, Function, Quantize, RoundToIntegral
from .layout import Layout, check_size
from .quoting import shown
from .rounding import Rounding

#: An output may have so many times the bytes of its input, by strides of 0 or gaps, and in any case
#: this many. Else a few callers that send little and read slowly hold the memory of all.
MAX_AMPLIFICATION, UNAMPLIFIED_BYTES = 64, 16 << 20


#: Names of operand, scale and zero point, if a dialect has no others.
_NAMES = ("input", "scale", "zero point")


@dataclass(frozen=True)
class Parameters:
    """The scale and the zero point of a function of :class:`Linear` quantization.

    Both have a dimension for each of the input's, and lie behind it in a payload: first the scale,
    then the zero point if there is one. ``blocks`` has a size for each dimension: the element at
    index i there has the parameters at index ``i // size``. So it is the dimension's whole size
    where one parameter is for all, and 1 where each index has its own. The last block of a
    dimension may be shorter. ``names`` are those of operand, scale and zero point in messages. Use
    :meth:`of`, which validates, to make one.

    ``constants`` are their bytes where the descriptor has them: then a payload has none.
    """

    scale: Layout
    zero_point: Layout | None
    blocks: tuple[int, ...]
    constants: bytes | None = None
    names: tuple[str, str, str] = field(default=_NAMES, compare=False)

    @cached_property
    def gathered_bytes(self) -> int:
        """Bytes of the copies that a kernel makes of parameters with strides, packed."""
        layouts = (self.scale, self.zero_point)
        return sum(each.element_bytes for each in layouts if each and not each.is_packed)

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        scale: Layout,
        zero_point: DType | None = None,
        blocks: Sequence[int] | None = None,
        names: tuple[str, str, str] = _NAMES,
    ) -> Parameters:
        """The parameters of a tensor of that shape, with a packed zero point for each scale.

        By default a dimension is divided evenly. Raises :class:`ValueError` for blocks that do not
        make as many parameters as the scale has.
        """
        counts = scale.shape
        if blocks is None:
            blocks = [-(-size // max(n, 1)) or 1 for size, n in zip(shape, counts, strict=True)]
        for size, block, count in zip(shape, blocks, counts, strict=True):
            if block < 1 or (-(-size // block) != count and (size, count) != (0, 1)):
                raise ValueError(f"blocks of {block} do not divide {size} elements into {count}")
        points = None if zero_point is None else Layout.of(zero_point, counts)
        return cls(scale, points, tuple(blocks), names=names)


@dataclass(frozen=True)
class Call:
    """Apply ``function`` to every element of a tensor, into one of the same shape.

    A payload has ``input.byte_length`` bytes, or ``shortest_input`` bytes: DirectML rounds lengths
    up to a multiple of 4, and senders need not. Behind it are the bytes of ``parameters``, if the
    function has any.
    """

    function: Function
    input: Layout
    output: Layout
    shortest_input: int
    parameters: Parameters | None = None

    @cached_property
    def tensors(self) -> dict[str, Layout]:
        """The tensors that lie behind each other in a payload, by their names."""
        parameters = self.parameters
        if parameters is None or parameters.constants is not None:
            return {"input": self.input}
        layouts = (self.input, parameters.scale, parameters.zero_point)
        named = zip(parameters.names, layouts, strict=True)
        return {name: layout for name, layout in named if layout is not None}

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of memory that a payload takes: the input, and the parameters behind it."""
        if self.parameters is None:
            return self.input.byte_length
        return sum(layout.byte_length for layout in self.tensors.values())

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The valid lengths of a payload, in bytes."""
        if self.parameters is not None:
            return (self.payload_bytes,)
        return self.input.byte_length, self.shortest_input

    def wrong_size(self, got: int) -> PayloadSizeMismatch:
        """The refusal of a payload with ``got`` bytes; it names the tensor that they end in."""
        named = {name: layout.byte_length for name, layout in self.tensors.items()}
        return wrong_size(got, self.lengths, named)

    @property
    def rounding(self) -> Rounding:
        """The direction in which the function rounds."""
        return self.function.rounding

    @cached_property
    def is_copy(self) -> bool:
        """Whether the elements' bits are the results."""
        return self.function.is_copy(self.input.dtype, self.output.dtype)

    @classmethod
    def packed(
        cls, rounding: Rounding, dtype: str, shape: Sequence[int], loc: tuple[str, ...] = ()
    ) -> Call:
        """A rounding to integral values of a packed tensor in C order, of a canonical dtype.

        Raises :class:`InvalidDescriptor` at ``loc``.
        """
        source = Layout.of(BY_NAME[dtype], shape, loc=loc)
        return cls.packed_output(RoundToIntegral(rounding), source)

    @classmethod
    def packed_output(cls, function: Function, input: Layout, to: DType | None = None) -> Call:
        """A call with a packed output in C order, of the type ``to`` if the function has one."""
        output = Layout.of(to or input.dtype, input.shape)
        return cls(function, input, output, input.byte_length)

    @cached_property
    def without_gaps(self) -> Call:
        """The call on packed tensors: DirectML's own have padding at the end."""
        packed = Call.packed_output(self.function, _packed(self.input), self.output.dtype)
        own = self.parameters
        if own is None:
            return packed
        scale, point = _packed(own.scale), own.zero_point and _packed(own.zero_point)
        return replace(packed, parameters=replace(own, scale=scale, zero_point=point))

    @classmethod
    def converting(
        cls,
        input: Layout,
        to: str,
        rounding: Rounding | None = None,
        *,
        saturates: bool = False,
    ) -> Call:
        """A conversion into a packed tensor of the canonical dtype ``to``; see :class:`Convert`."""
        target = BY_NAME[to]
        function = Convert.between(input.dtype, target, rounding, saturates)
        return cls.packed_output(function, input, target)

    def fake(self, back: Call) -> Call:
        """This quantization and its inverse, with the same parameters, as one call."""
        made = self.function
        assert isinstance(made, Quantize)
        through = self.output.dtype
        function = FakeQuantize(made.rounding, made.precision, made.saturates, made.limits, through)
        return replace(self, function=function, output=back.output)

    def result_bytes(self, nbytes: int) -> int:
        """Bytes of the packed results of so many contiguous bytes of whole elements."""
        return self.output.dtype.nbytes(self.input.dtype.count(nbytes))

    @cached_property
    def keeps_width(self) -> bool:
        """Whether a result has as many bits as its operand."""
        return self.input.dtype.width == self.output.dtype.width

    def flat(self, nbytes: int, start: int = 0) -> Call:
        """The call on ``nbytes`` bytes of whole elements of a dense tensor, from ``start`` on.

        A call with parameters has no parts: an element's parameters are found by its index.
        """
        assert self.parameters is None, "a call with parameters has no parts"
        source = self.input
        is_odd = source.has_spare_bits and start + nbytes == source.element_bytes
        return _flat(self.function, source.dtype, self.output.dtype, nbytes, is_odd)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of memory that the call needs: one buffer in place, else two, and copies."""
        copies = self.parameters.gathered_bytes if self.parameters is not None else 0
        return self.payload_bytes + copies + (0 if self.is_in_place else self.output.byte_length)

    @cached_property
    def is_flat(self) -> bool:
        """Whether both layouts have the elements in the same order, without gaps."""
        return self.input.is_dense and self.input.lies_like(self.output.strides)

    @cached_property
    def is_run(self) -> bool:
        """Whether the elements can be computed as they lie, one behind the other.

        An element's parameters are known by its index: by its place if that is in C order.
        """
        return self.is_flat and (self.parameters is None or self.input.is_packed)

    @cached_property
    def is_in_place(self) -> bool:
        """Whether the results can overwrite the input, whose elements are without gaps.

        Then no byte of the input is left in the output but trailing padding, which is zeroed.
        Narrower results lie at the beginning of the input's memory, each before the next operand.
        """
        fits = self.output.byte_length <= self.input.byte_length
        # A rounding is spared the call of is_run, which is is_flat without parameters.
        lies_as_computed = self.is_flat if self.parameters is None else self.is_run
        return lies_as_computed and (
            self.input.byte_length == self.output.byte_length
            if self.keeps_width
            else self.output.dtype.width < self.input.dtype.width and fits
        )

    def check_sizes(self, limit_bytes: int) -> None:
        """Raise :class:`TensorTooLarge` if the input or the output exceeds ``limit_bytes``.

        So does an output that is far larger than the input.
        """
        check_size(self.input, limit_bytes, "input")
        if self.parameters is not None:
            for name, layout in self.tensors.items():
                check_size(layout, limit_bytes, name)
        check_size(self.output, limit_bytes, "output")
        sent, got = self.input.byte_length, self.output.byte_length
        most = max(MAX_AMPLIFICATION * sent, UNAMPLIFIED_BYTES)
        if got > most:
            raise TensorTooLarge(
                f"the output tensor has {shown(got)} bytes, for {sent} bytes of input the limit is "
                f"{most}: {MAX_AMPLIFICATION} times as many, at least {UNAMPLIFIED_BYTES}",
                limit_bytes=most,
                got_bytes=got,
            )


@lru_cache(maxsize=256)
def _flat(function: Function, source: DType, target: DType, nbytes: int, is_odd: bool) -> Call:
    count = source.count(nbytes) - is_odd
    return Call.packed_output(function, Layout.of(source, (count,)), target)


def _packed(layout: Layout) -> Layout:
    return Layout.of(layout.dtype, layout.shape)


def wrong_size(
    got: int, valid: tuple[int, ...], tensors: Mapping[str, int] = {}
) -> PayloadSizeMismatch:
    """The refusal of a payload with ``got`` bytes where ``valid`` are the valid lengths.

    ``tensors`` are the lengths of those in it.
    """
    return PayloadSizeMismatch(
        f"the payload must have {' or '.join(map(str, sorted(set(valid))))} bytes "
        f"for this descriptor, got {got}{ending(got, tensors)}"
    )


def ending(got: int, tensors: Mapping[str, int]) -> str:
    """In which of several tensors of these lengths a payload of another length ends."""
    if len(tensors) < 2:
        return ""
    end, place = 0, ""
    for name, nbytes in tensors.items():
        start, end = end, end + nbytes
        place = f"{'before' if got == start else 'within' if got < end else 'after'} {name}"
        if got < end:
            break
    listed = ", ".join(f"{name} {nbytes}" for name, nbytes in tensors.items())
    return f", which ends {place} (of {listed})"
