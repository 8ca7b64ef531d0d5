"""The backend's own digests beside the published ones."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import BY_NAME
from tensor_round.layout import Layout
from tensor_round.published import DIGESTS
from tensor_round.rounding import Rounding

from .backends import Backend


def digest(backend: Backend, dtype_name: str, rounding: Rounding) -> str:
    """The SHA-256 of the backend's results for all bit patterns of a type, in ascending order."""
    dtype = BY_NAME[dtype_name]
    patterns = np.arange(1 << (8 * dtype.itemsize), dtype=dtype.bits).view(np.uint8)
    memory = backend.allocate(patterns.size)
    memory[:] = patterns
    call = RoundCall.packed_output(rounding, Layout.of(dtype, (patterns.size // dtype.itemsize,)))
    backend.round(call, memory, memory)
    return hashlib.sha256(memory.data).hexdigest()


def report(backend: Backend) -> dict[str, Any]:
    """The digest of every 8- and 16-bit type and direction, and whether it is as published."""
    rows: dict[str, dict[str, Any]] = {}
    for (dtype_name, rounding), published in DIGESTS.items():
        found = digest(backend, dtype_name, Rounding(rounding))
        rows.setdefault(dtype_name, {})[rounding] = {
            "sha256": found,
            "matches_published": found == published,
        }
    conforms = all(cell["matches_published"] for row in rows.values() for cell in row.values())
    return {"conforms": conforms, "backends": {backend.name: rows}}
