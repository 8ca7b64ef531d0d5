"""What all operators are: immutable values that make descriptors and plans."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar, cast

from ...call import RoundCall
from ...names import AnyDType, DTypeName
from ...wire import native
from .. import Descriptor

#: Plans kept; a header has a few hundred bytes.
_CACHED_PLANS = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """A descriptor as it is sent, and what it means.

    ``descriptor`` is the value of the Operator-Descriptor header, ``call`` what it
    resolves to. ``headers`` are those that every request of it has, and ``stated`` is
    the Output-Descriptor of its answers, as this project's service writes it.
    """

    descriptor: bytes
    call: RoundCall
    headers: tuple[tuple[bytes, bytes], ...]
    stated: str


def plan_of(descriptor: Descriptor) -> Plan:
    """The plan for a descriptor; raises :class:`InvalidDescriptor`."""
    call, text = descriptor.resolve(), descriptor.to_json()
    headers = (
        (native.CONTENT_TYPE.encode(), native.OCTET_STREAM.encode()),
        (native.OPERATOR_DESCRIPTOR.encode(), text),
    )
    return Plan(text, call, headers, native.output_descriptor(call.output).decode())


class RoundOperator(abc.ABC):
    """One dialect's rounding operator, with its attributes; immutable and hashable.

    Attributes are held as the dialect's canonical names, however they were spelled: operators
    that mean the same are equal.

    One that was read from where it was written down may state a tensor; that is no part
    of what it is compared by.
    """

    __slots__ = ()

    #: Where the dialect's descriptor has each attribute.
    _paths: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        # Attributes are checked on a tensor that every version of every dialect takes.
        descriptor = self.descriptor("float32", (1, 1, 1, 1))
        descriptor.resolve()
        for attribute, path in self._paths.items():
            object.__setattr__(self, attribute, attrgetter(path)(descriptor))

    @abc.abstractmethod
    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> Descriptor:
        """The descriptor of the operator on a packed tensor, or on the one that it states.

        ``dtype`` is a canonical name, or a NumPy type in either byte order. Raises
        :class:`InvalidDescriptor` for a tensor that the operator does not take, and
        :class:`InvalidArgument` where neither the arguments nor the operator say what
        the tensor is.
        """

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape that the operator takes for ``count`` elements in a row."""
        return (count,)

    def plan(self, dtype: str, shape: tuple[int, ...]) -> Plan:
        """The plan for a packed tensor; raises :class:`InvalidDescriptor`."""
        return _plan_for(self, dtype, shape)


@lru_cache(maxsize=_CACHED_PLANS)
def _plan_for(by: RoundOperator, dtype: str, shape: tuple[int, ...]) -> Plan:
    # Any other name is the dialect's model's to refuse.
    return plan_of(by.descriptor(cast(DTypeName, dtype), shape))
