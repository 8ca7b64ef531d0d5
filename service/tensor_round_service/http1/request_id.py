"""``X-Request-ID`` on every response: the caller's own if it is sane, else a fresh one."""

from __future__ import annotations

import itertools
import os
import re

from tensor_round.wire import native

from .head import Header, RequestHead
from .response import field_name

REQUEST_ID = field_name(native.REQUEST_ID)

_SANE = re.compile(native.SANE_REQUEST_ID.encode())
#: Fresh ids are unique without a system call each: random for the process, then counted.
_process = os.urandom(8).hex().encode()
_count = itertools.count(1)


def request_id_field(head: RequestHead) -> Header:
    """The field for the response to a request with this head."""
    own = head.values.get(REQUEST_ID)
    if own is not None:
        if _SANE.fullmatch(own):
            return REQUEST_ID, own
        for name, value in head.fields:  # one of several lines may be sane
            if name == REQUEST_ID and _SANE.fullmatch(value):
                return REQUEST_ID, value
    return REQUEST_ID, b"%s-%x" % (_process, next(_count))
