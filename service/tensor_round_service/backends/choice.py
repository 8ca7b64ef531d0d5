"""Which backend serves: what the settings ask for, and what the machine has."""

from __future__ import annotations

import logging

from . import Backend
from .cpu import NumpyBackend

logger = logging.getLogger(__name__)


class BackendUnavailable(Exception):
    """The backend that was asked for cannot run here; the message says what is missing."""


def choose(name: str) -> Backend:
    """The backend of that name: ``numpy``, ``cupy``, or ``auto`` for the best that works.

    Raises :class:`BackendUnavailable` for ``cupy`` where it cannot run.
    """
    if name == "cupy":
        raise BackendUnavailable("BACKEND=cupy: this version has no CuPy backend yet")
    if name == "auto":
        logger.info("backend: numpy (no usable GPU)")
    return NumpyBackend()
