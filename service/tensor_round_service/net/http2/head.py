"""The head of a request in HTTP/2: what its fields must be, and what they say. No I/O."""

from __future__ import annotations

import re
from copy import copy

from tensor_round.contract.errors import RequestRefused

from ..head import join_repeated, split_target
from .fields import Field
from .frames import Code

#: Names, each with a line end behind it: tokens in lower case (RFC 9113, section 8.2.1).
_NAMES = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9a-z]+\n)*")
#: What no value may have, as in HTTP/1.1.
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n"})
#: White space around one of values with a line end around each. One search for each takes less than
#: a tenth of the time of a pattern for all.
_PADDED = (b"\n ", b"\n\t", b" \n", b"\t\n")
_SPACE = b" \t"
#: Fields of one connection alone (section 8.2.2).
_OF_A_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_PSEUDO = frozenset({b":method", b":scheme", b":path", b":authority"})
_REQUIRED = frozenset({b":method", b":scheme", b":path"})
#: No length has more digits.
_MAX_DIGITS = 19


class MalformedHead(ValueError):
    """The fields are those of no request: its stream is reset (section 8.1.1)."""

    code = Code.PROTOCOL_ERROR


class RequestHead:
    """What the fields of a request say.

    ``fields`` are those without the pseudo-fields, in their order. ``values`` maps each name to its
    value; values of repeated fields are joined with commas, and ``repeated`` holds their names.
    ``length`` is the stated length of the body in bytes, None without one. ``fault`` is the refusal
    of a request whose list of fields was over its limit: few fields from there on are kept.
    """

    __slots__ = (
        "authority",
        "fault",
        "fields",
        "length",
        "method",
        "path",
        "query",
        "repeated",
        "target",
        "values",
    )
    version = "2"

    def __init__(self, fields: list[Field], fault: RequestRefused | None = None) -> None:
        self.fault = fault
        count = 0
        while count < len(fields) and fields[count][0][:1] == b":":
            count += 1
        pseudo, self.fields = dict(fields[:count]), fields[count:]
        if len(pseudo) < count or not _REQUIRED <= pseudo.keys() <= _PSEUDO:
            raise MalformedHead("pseudo-fields are missing, repeated or unknown")
        if _check(fields, self.fields):
            if any(value != value.strip(_SPACE) for value in pseudo.values()):
                raise MalformedHead("a pseudo-field has white space around its value")
            # As HTTP/1.1 does, and gRPC's specification allows for metadata.
            self.fields = [(name, value.strip(_SPACE)) for name, value in self.fields]
        self.method = pseudo[b":method"].decode("latin-1")
        self.target = pseudo[b":path"]
        self.path, self.query = split_target(self.target)
        if self.target[:1] != b"/" and (self.method, self.target) != ("OPTIONS", b"*"):
            raise MalformedHead("the path must begin with /")  # section 8.3.1
        self.values = dict(self.fields)
        self.repeated: frozenset[bytes] = frozenset()
        if len(self.values) < len(self.fields):
            self.repeated = join_repeated(self.fields, self.values)
        host = self.values.get(b"host")
        self.authority = pseudo.get(b":authority") or host
        if host is not None and host.lower() != (self.authority or b"").lower():
            raise MalformedHead("host is another than :authority")  # section 8.3.1
        if not _OF_A_CONNECTION.isdisjoint(self.values):
            raise MalformedHead("a field belongs to a connection")
        if self.values.get(b"te", b"trailers") != b"trailers":
            raise MalformedHead("te must be trailers")
        stated = self.values.get(b"content-length")
        if stated is not None and not (stated.isdigit() and len(stated) <= _MAX_DIGITS):
            raise MalformedHead("content-length must be one number")
        self.length = None if stated is None else int(stated)

    def copy(self) -> RequestHead:
        """One whose ``values`` may be changed: many requests of a connection may share a head."""
        own = copy(self)
        own.values = dict(self.values)
        return own


def check_trailers(fields: list[Field]) -> None:
    """Raise :class:`MalformedHead` for fields that no trailer may have."""
    _check(fields, fields)


def _check(fields: list[Field], regular: list[Field]) -> bool:
    """Whether there is white space around a value; raises :class:`MalformedHead`."""
    names = b"".join([name + b"\n" for name, _ in regular])
    values = b"\n" + b"".join([value + b"\n" for _, value in fields])
    if names.count(b"\n") > len(regular) or not _NAMES.fullmatch(names):
        raise MalformedHead("a name is not a token in lower case")
    if values.count(b"\n") > len(fields) + 1 or len(values.translate(None, _CONTROLS)) < len(
        values
    ):
        raise MalformedHead("a value has characters that no value may have")
    return any(map(values.__contains__, _PADDED))
