"""Another name of :mod:`tensor_round_verify.specifications`."""

from __future__ import annotations

from tensor_round_verify.specifications import SPECIFICATIONS as SPECIFICATIONS
from tensor_round_verify.specifications import Specification as Specification
from tensor_round_verify.specifications import find as find
