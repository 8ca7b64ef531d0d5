"""``X-Request-ID`` of every response: the request's own if it is valid, else a new one."""

from __future__ import annotations

import itertools
import os
import re

from tensor_round.contract.wire import native

from .head import Header, RequestHead
from .response import field_name

REQUEST_ID = field_name(native.REQUEST_ID)

_VALID = re.compile(native.SANE_REQUEST_ID.encode())
#: A new id is random bytes of the process and a counter: unique without a system call each.
_process = os.urandom(8).hex().encode()
_count = itertools.count(1)


def request_id_field(head: RequestHead) -> Header:
    """The field for the response to a request with this head."""
    own = head.values.get(REQUEST_ID)
    if own is not None:
        if _VALID.fullmatch(own):
            return REQUEST_ID, own
        for name, value in head.fields:  # a repeated field: use its first valid line
            if name == REQUEST_ID and _VALID.fullmatch(value):
                return REQUEST_ID, value
    return REQUEST_ID, b"%s-%x" % (_process, next(_count))
