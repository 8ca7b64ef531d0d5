"""``grpc-timeout``: how long a caller waits (the specification of gRPC over HTTP/2)."""

from __future__ import annotations

import re

from tensor_round.contract.errors import InvalidDescriptor

_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


def seconds_of(timeout: bytes) -> float:
    """The seconds of a field; raises :class:`InvalidDescriptor`."""
    found = _TIMEOUT.fullmatch(timeout)
    if found is None:
        raise InvalidDescriptor(
            "grpc-timeout must be up to 8 digits and one of the units H, M, S, m, u and n"
        )
    return int(found[1]) * _SECONDS[found[2]]
