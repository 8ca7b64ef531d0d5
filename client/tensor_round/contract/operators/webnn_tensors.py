"""The shapes of WebNN's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from .model import PerDimension

#: A "valid dimension": greater than zero, and in the range of WebIDL's ``long``.
_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1)]
Shape = Annotated[Sequence[int], PerDimension(_Dimension)]
SIZES = "Elements along each dimension, at least 1; an empty list is a scalar."
