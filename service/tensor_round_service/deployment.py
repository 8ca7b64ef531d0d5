"""The effective limits of a service on this machine, and whether it has API keys and TLS."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ByteSize

from tensor_round.contract.version import __version__

from .engine.memory import largest_request, memory_limit
from .service_types import Limits, Terms
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Deployment:
    """Sizes are bytes. ``worker_bytes`` is the memory budget of one worker."""

    settings: Settings
    worker_bytes: int
    max_tensor_bytes: int

    @classmethod
    def of(cls, settings: Settings, worker_bytes: int | None = None) -> Deployment:
        """The deployment of these settings on this machine, or with a given budget."""
        if worker_bytes is None:
            total = settings.max_bytes_in_flight or memory_limit() // 2
            worker_bytes = total // settings.workers
        # A tensor that is rounded in place needs one buffer.
        largest = min(settings.max_tensor_bytes, largest_request(worker_bytes))
        return cls(settings, worker_bytes, largest)

    @property
    def limits(self) -> Limits:
        """The sizes, for ``GET /operators``."""
        return {
            "max_tensor_bytes": self.max_tensor_bytes,
            "max_bytes_in_flight": self.worker_bytes * self.settings.workers,
        }

    @property
    def terms(self) -> Terms:
        """Version, workers, API keys and TLS, for ``GET /operators``."""
        return {
            "version": __version__,
            "workers": self.settings.workers,
            "api_keys": self.settings.api_keys_file is not None,
            "tls": self.settings.ssl_certfile is not None,
        }

    def __str__(self) -> str:
        limits, terms = self.limits, self.terms
        workers = "1 worker" if terms["workers"] == 1 else f"{terms['workers']} workers"
        return (
            f"{workers}, tensors of up to {_size(limits['max_tensor_bytes'])}, "
            f"{_size(limits['max_bytes_in_flight'])} in flight, "
            f"{'API keys' if terms['api_keys'] else 'no API keys'}, "
            f"{'TLS' if terms['tls'] else 'no TLS'}"
        )


def _size(nbytes: int) -> str:
    return ByteSize(nbytes).human_readable(separator=" ").replace(".0 ", " ")
