"""What every descriptor of every dialect resolves to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .errors import PayloadSizeMismatch
from .layout import Layout
from .rounding import Rounding


@dataclass(frozen=True)
class RoundCall:
    """Round every element of ``input`` in one direction, and lay the results out as ``output``.

    Both layouts have the same dtype and shape. The payload a sender gives has
    ``input.byte_length`` bytes, or ``shortest_input``: less only where the dialect
    rounds lengths up (DirectML, to 4) and the sender did not.
    """

    rounding: Rounding
    input: Layout
    output: Layout
    shortest_input: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lawful lengths of a payload, in bytes."""
        return self.input.byte_length, self.shortest_input

    @classmethod
    def packed_output(cls, rounding: Rounding, input: Layout) -> RoundCall:
        """The call whose output is packed C order."""
        return cls(rounding, input, Layout.of(input.dtype, input.shape), input.byte_length)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of memory that the call takes: one buffer in place, else two."""
        return self.input.byte_length + (0 if self.is_in_place else self.output.byte_length)

    @cached_property
    def is_in_place(self) -> bool:
        """Whether the results can overwrite the input.

        So it is where both lie the same and have no gaps between elements: then no
        byte of the input is left in the answer but trailing padding, which is zeroed.
        """
        return (
            self.input.is_dense
            and self.input.lies_like(self.output.strides)
            and self.input.byte_length == self.output.byte_length
        )


def wrong_size(got: int, lawful: tuple[int, ...]) -> PayloadSizeMismatch:
    """The refusal of a payload of any length but the lawful ones."""
    return PayloadSizeMismatch(
        f"the payload must have {' or '.join(map(str, sorted(set(lawful))))} bytes "
        f"for this descriptor, got {got}"
    )
