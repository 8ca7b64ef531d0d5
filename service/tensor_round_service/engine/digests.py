"""The digests of a backend's results for all patterns, beside the published ones."""

from __future__ import annotations

import hashlib

import numpy as np

from tensor_round.contract.call import Call
from tensor_round.contract.digests import DIGESTS
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import BackendFailed
from tensor_round.contract.host_memory import pack
from tensor_round.contract.rounding import Rounding

from ..backends import Backend, Round
from ..service_types import Conformance, PatternDigest


def digest(round_: Round, dtype_name: str, rounding: Rounding) -> str:
    """SHA-256 of the results for all bit patterns of a type, in ascending order."""
    dtype = BY_NAME[dtype_name]
    every = np.arange(1 << dtype.width, dtype=dtype.bits)
    patterns = pack(every) if dtype.is_sub_byte else every.view(np.uint8)
    call = Call.packed(rounding, dtype_name, every.shape)
    round_(call, patterns, patterns)
    return hashlib.sha256(patterns.data).hexdigest()


def report(backend: Backend) -> Conformance:
    """The digests of every arithmetic of the backend, compared with the published ones.

    Raises :class:`BackendFailed` if the backend fails.
    """
    try:
        found = {name: _table(round_) for name, round_ in backend.arithmetics().items()}
    except (MemoryError, RuntimeError) as error:
        raise BackendFailed("the backend failed on the test patterns", retry_after=1) from error
    conforms = all(
        cell["matches_published"]
        for table in found.values()
        for row in table.values()
        for cell in row.values()
    )
    return {"conforms": conforms, "backends": found}


def _table(round_: Round) -> dict[str, dict[str, PatternDigest]]:
    """Digests by dtype and rounding."""
    rows: dict[str, dict[str, PatternDigest]] = {}
    for (dtype_name, rounding), published in DIGESTS.items():
        found = digest(round_, dtype_name, Rounding(rounding))
        rows.setdefault(dtype_name, {})[rounding] = {
            "sha256": found,
            "matches_published": found == published,
        }
    return rows
