"""Executing calls on memory: engine, jobs, the memory budget, digests and readiness.

No module here depends on HTTP. Programs that use the service as a library use ``Engine``.
"""

from .engine import Engine

__all__ = ["Engine"]
