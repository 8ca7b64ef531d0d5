"""How a call of gRPC ends: its status, the trailers that say so, and its deadline."""

from __future__ import annotations

import re
from enum import IntEnum
from urllib.parse import quote

from tensor_round.contract.errors import InvalidDescriptor, RequestRefused, UnsupportedEncoding

from ..net.codings import CODINGS, IDENTITY
from ..net.http2.fields import encoded


class Status(IntEnum):
    """The statuses of gRPC that this service has."""

    OK = 0
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class CallRefused(RequestRefused):
    """A refusal for a reason that gRPC alone has; HTTP's status is 400."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.grpc_status = status


#: The status of a refusal, by its status in HTTP; of all others under 500 INVALID_ARGUMENT.
_BY_HTTP = {
    401: Status.UNAUTHENTICATED,
    403: Status.PERMISSION_DENIED,
    404: Status.NOT_FOUND,
    408: Status.DEADLINE_EXCEEDED,
    413: Status.RESOURCE_EXHAUSTED,
    415: Status.UNIMPLEMENTED,
    431: Status.RESOURCE_EXHAUSTED,
    501: Status.UNIMPLEMENTED,
    503: Status.UNAVAILABLE,
}
#: What a message may have beside ASCII letters and digits without being percent-encoded.
_PLAIN = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
#: The longest message in trailers, in characters before encoding: clients refuse long trailers.
_MESSAGE_LENGTH = 1024

#: ``grpc-timeout``: how long a caller waits (the specification of gRPC over HTTP/2).
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

OK = encoded((b"grpc-status", b"0"))
EXPIRED = encoded(
    (b"grpc-status", b"%d" % Status.DEADLINE_EXCEEDED),
    (b"grpc-message", b"the time that grpc-timeout states has passed"),
)


def status_of(refusal: RequestRefused) -> Status:
    """The status of a refusal."""
    if isinstance(refusal, CallRefused):
        return refusal.grpc_status
    other = Status.INTERNAL if refusal.status >= 500 else Status.INVALID_ARGUMENT
    return _BY_HTTP.get(refusal.status, other)


def outcome(refusal: RequestRefused | None) -> tuple[str, str]:
    """Status and code for metrics and log: those that the same request has over HTTP."""
    if refusal is None:
        return "200", ""
    return str(400 if refusal.status == 422 else refusal.status), refusal.code


def trailers_of(refusal: RequestRefused) -> bytes:
    """The header block that ends a refused call."""
    message = quote(" ".join(refusal.detail.split())[:_MESSAGE_LENGTH], safe=_PLAIN)
    fields = [
        (b"grpc-status", b"%d" % status_of(refusal)),
        (b"grpc-message", message.encode()),
    ]
    if isinstance(refusal, UnsupportedEncoding):
        fields.append((b"grpc-accept-encoding", ",".join((IDENTITY, *CODINGS)).encode()))
    if refusal.retry_after is not None:  # gRPC's retry policies read it
        fields.append((b"grpc-retry-pushback-ms", b"%d" % (1000 * refusal.retry_after)))
    return encoded(*fields)


def seconds_of(timeout: bytes) -> float:
    """The seconds of a ``grpc-timeout``; raises :class:`InvalidDescriptor`."""
    found = _TIMEOUT.fullmatch(timeout)
    if found is None:
        raise InvalidDescriptor(
            "grpc-timeout must be up to 8 digits and one of the units H, M, S, m, u and n"
        )
    return int(found[1]) * _SECONDS[found[2]]
