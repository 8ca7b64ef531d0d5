"""The forms of arrays that a runtime can be given, beside one dimension in separate memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

import numpy.typing as npt

Values = npt.NDArray[Any]


class Form(Flag):
    """What may differ from call to call."""

    #: One dimension of any length.
    LENGTH = auto()
    #: No elements.
    EMPTY = auto()
    #: Several dimensions.
    RANK = auto()
    #: The caller's own memory, with its start and strides.
    MEMORY = auto()


#: Any form at all.
ANY = ~Form(0)


@dataclass(frozen=True, slots=True)
class Arrays:
    """How a runtime rounds or converts arrays of one dtype.

    ``call`` gets an array, which it must not copy if it has the form MEMORY, and returns what the
    runtime returned; it raises :class:`CannotVerify` if the runtime fails.
    """

    call: Callable[[Values], object]
    forms: Form = Form.LENGTH | Form.EMPTY
    #: Whether a call is so slow that few are made.
    slow: bool = False
    #: Rounds the first array into the second, if the runtime can.
    into: Callable[[Values, Values], object] | None = None
