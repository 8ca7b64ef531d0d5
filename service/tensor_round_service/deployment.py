"""The effective limits of a service on this machine, and whether it has API keys and TLS."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ByteSize

from tensor_round.contract.version import __version__

from .documents import Limits, Terms
from .engine.memory import largest_request, memory_limit
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Deployment:
    """Sizes are bytes. ``worker_bytes`` is the memory budget of one worker."""

    workers: int
    worker_bytes: int
    max_tensor_bytes: int
    has_api_keys: bool
    has_tls: bool

    @classmethod
    def of(cls, settings: Settings, worker_bytes: int | None = None) -> Deployment:
        """The deployment of these settings on this machine, or with a given budget."""
        if worker_bytes is None:
            total = settings.max_bytes_in_flight or memory_limit() // 2
            worker_bytes = total // settings.workers
        return cls(
            workers=settings.workers,
            worker_bytes=worker_bytes,
            # A tensor that is rounded in place needs one buffer.
            max_tensor_bytes=min(settings.max_tensor_bytes, largest_request(worker_bytes)),
            has_api_keys=settings.api_keys_file is not None,
            has_tls=settings.ssl_certfile is not None,
        )

    @property
    def limits(self) -> Limits:
        """The sizes, for ``GET /operators``."""
        return {
            "max_tensor_bytes": self.max_tensor_bytes,
            "max_bytes_in_flight": self.worker_bytes * self.workers,
        }

    @property
    def terms(self) -> Terms:
        """Version, workers, API keys and TLS, for ``GET /operators``."""
        return {
            "version": __version__,
            "workers": self.workers,
            "api_keys": self.has_api_keys,
            "tls": self.has_tls,
        }

    def __str__(self) -> str:
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return (
            f"{workers}, tensors of up to {_size(self.max_tensor_bytes)}, "
            f"{_size(self.worker_bytes * self.workers)} in flight, "
            f"{'API keys' if self.has_api_keys else 'no API keys'}, "
            f"{'TLS' if self.has_tls else 'no TLS'}"
        )


def _size(nbytes: int) -> str:
    return ByteSize(nbytes).human_readable(separator=" ").replace(".0 ", " ")
