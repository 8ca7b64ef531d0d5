"""The call: the common form that descriptors of every dialect resolve to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .dtypes import BY_NAME
from .errors import PayloadSizeMismatch, TensorTooLarge
from .layout import Layout, check_size
from .quoting import shown
from .rounding import Rounding

#: An output may have so many times the bytes of its input, by strides of 0 or gaps, and in any case
#: this many. Else a few callers that send little and read slowly hold the memory of all.
MAX_AMPLIFICATION, UNAMPLIFIED_BYTES = 64, 16 << 20


@dataclass(frozen=True)
class RoundCall:
    """Round every element of a tensor of layout ``input`` into one of layout ``output``.

    Both layouts have the same dtype and shape. A payload has ``input.byte_length`` bytes, or
    ``shortest_input`` bytes: DirectML rounds lengths up to a multiple of 4, and senders need not.
    """

    rounding: Rounding
    input: Layout
    output: Layout
    shortest_input: int

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The valid lengths of a payload, in bytes."""
        return self.input.byte_length, self.shortest_input

    @classmethod
    def packed(
        cls, rounding: Rounding, dtype: str, shape: Sequence[int], loc: tuple[str, ...] = ()
    ) -> RoundCall:
        """A call on a packed tensor in C order, of a canonical dtype.

        Raises :class:`InvalidDescriptor` at ``loc``.
        """
        return cls.packed_output(rounding, Layout.of(BY_NAME[dtype], shape, loc=loc))

    @classmethod
    def packed_output(cls, rounding: Rounding, input: Layout) -> RoundCall:
        """A call with a packed output in C order."""
        return cls(rounding, input, Layout.of(input.dtype, input.shape), input.byte_length)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of memory that the call needs: one buffer in place, else two."""
        return self.input.byte_length + (0 if self.is_in_place else self.output.byte_length)

    @cached_property
    def is_in_place(self) -> bool:
        """Whether the results can overwrite the input.

        Both layouts must be equal and without gaps between elements. Then no byte of the input is
        left in the output but trailing padding, which is zeroed.
        """
        return (
            self.input.is_dense
            and self.input.lies_like(self.output.strides)
            and self.input.byte_length == self.output.byte_length
        )

    def check_sizes(self, limit_bytes: int) -> None:
        """Raise :class:`TensorTooLarge` if the input or the output exceeds ``limit_bytes``.

        So does an output that is far larger than the input.
        """
        check_size(self.input, limit_bytes, "input")
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


def wrong_size(got: int, valid: tuple[int, ...]) -> PayloadSizeMismatch:
    """The refusal of a payload with ``got`` bytes where ``valid`` are the valid lengths."""
    return PayloadSizeMismatch(
        f"the payload must have {' or '.join(map(str, sorted(set(valid))))} bytes "
        f"for this descriptor, got {got}"
    )
