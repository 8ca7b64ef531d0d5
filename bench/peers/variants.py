"""Small requests as deployments make them: traced, keyed, chunked, over TLS or a Unix socket."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..measuring.client import Arena
from ..measuring.load import Wire
from . import protocols, targets
from .targets import KIB, Target

ALIKE = "heads alike"
TRACED = "traceparent differs"
KEY = "X-API-Key"
BEARER = "Authorization: Bearer"
OTHER_ID = "x-request-id differs"
CHUNKED = "chunked, one chunk"
TLS = "TLS"
UNIX = "Unix socket"

#: Stands in a field's value where each request has other hex digits.
MARK = "0123456789abcdef"
TRACE = {"traceparent": f"00-4bf92f3577b34da6{MARK}-{MARK}-01"}


@dataclass(frozen=True, eq=False)
class Variant:
    """A row: a target, and what its requests have that others have not."""

    target: Target
    requests: str
    fields: Mapping[str, str] = field(default_factory=dict)
    #: The server, where it is not the target's own.
    other_program: str = ""
    chunked: bool = False
    tls: bool = False

    @property
    def name(self) -> str:
        return f"{self.target.name}, 1 KiB, {self.requests}"

    @property
    def program(self) -> str:
        return self.other_program or self.target.program

    def wire(self, arena: Arena) -> Wire:
        """Its requests as they go over the wire, with a tensor of 1 KiB."""
        fields = {**protocols.native_fields(KIB), **self.fields}
        head = protocols.head("/round", None if self.chunked else KIB, fields)
        body = arena.tensor(KIB).tobytes()
        if self.chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (KIB, body)
        marks = re.finditer(MARK.encode(), head)
        return Wire(head + body, offsets=tuple(mark.start() for mark in marks))


def own() -> Iterator[Variant]:
    service = targets.ROUND
    bearer = {"Authorization": f"Bearer {targets.API_KEY}"}
    yield Variant(service, ALIKE)
    yield Variant(service, TRACED, TRACE)
    yield Variant(service, KEY, {"X-API-Key": targets.API_KEY}, "service-keys")
    yield Variant(service, BEARER, bearer, "service-keys")
    yield Variant(service, OTHER_ID, {"x-request-id": MARK})
    yield Variant(service, CHUNKED, chunked=True)
    yield Variant(service, UNIX, {}, "service-unix")


def peers() -> Iterator[Variant]:
    for target in (targets.LOOP, targets.ASGI, targets.FASTAPI):
        yield Variant(target, ALIKE)
        yield Variant(target, TRACED, TRACE)


ON_ONE_CORE = (
    *own(),
    Variant(targets.ROUND, TLS, {}, "service-tls", tls=True),
    *peers(),
)
#: The load generator does without a TLS library.
UNDER_LOAD = (*own(), *peers())
PROGRAMS = frozenset(variant.program for variant in (*ON_ONE_CORE, *UNDER_LOAD))
