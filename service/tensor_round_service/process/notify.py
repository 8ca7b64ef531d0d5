"""Notices to systemd, as sd_notify(3) describes: the service is ready, or stops."""

from __future__ import annotations

import contextlib
import os
import socket

_VARIABLE = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Send a state such as ``READY=1``; does nothing where nobody has asked for notices."""
    address = os.environ.get(_VARIABLE)
    if not address:
        return
    # A name of the abstract namespace is written with @.
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),  # the service does not depend on who has asked
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
    ):
        sock.sendto(state.encode(), address)
