"""Features: what the service has besides ``POST /round``, each in a folder that can be taken away.

Without a feature's folder and its word in :data:`FEATURES`, the service has everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from fastapi import Request, Response

from .deployment import Deployment
from .engine.engine import Engine
from .engine.readiness import ProcessLifecycle, Readiness
from .gate import Gate
from .net.http2.responding import StreamProtocol
from .openapi.document import Description
from .refusals import ErrorForm
from .routes.table import RouteEntry
from .settings import Settings

T = TypeVar("T")

#: The folders of the features; each may stand on earlier ones, as ``grpc`` does on ``oip``.
FEATURES = ("catalog", "compare", "oip", "grpc", "pages", "telemetry")


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureContext:
    """What the application gives to its features."""

    settings: Settings
    deployment: Deployment
    engine: Engine
    readiness: Readiness
    lifecycle: ProcessLifecycle
    #: The folder that several workers share; None for a single one.
    worker_folder: Path | None
    #: What earlier features provide, by its type.
    provided: dict[type, object] = field(default_factory=dict)

    def provision(self, kind: type[T]) -> T:
        """What an earlier feature provides; raises :class:`KeyError` without that feature."""
        found = self.provided[kind]
        assert isinstance(found, kind)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Feature:
    """What a feature brings to the application."""

    rows: Sequence[RouteEntry] = ()
    #: The folder of its paths, which metrics count together; empty for none.
    folder: str = ""
    #: Whether requests to its folder change something, which pages of other origins may not.
    changes: bool = False
    #: The form of the errors in its folder; None for problem documents.
    error_form: ErrorForm | None = None
    #: Paths besides those of its rows that metrics count by their names.
    counted_paths: AbstractSet[str] = frozenset()
    #: Paths besides those of its rows that need no key.
    open_paths: AbstractSet[str] = frozenset()
    #: Paths besides those of its rows that machines ask for again and again.
    probes: AbstractSet[str] = frozenset()
    #: Header fields that pages of other origins may send and read.
    fields: Sequence[str] = ()
    #: Its part of the OpenAPI document.
    description: Description | None = None
    #: The page at ``/``; returns None for callers that want no page.
    home: Callable[[Request], Response | None] | None = None
    #: Makes a protocol on HTTP/2.
    streams: Callable[[Gate], StreamProtocol] | None = None
    #: Entered while a process serves. May raise :class:`~.failures.CannotStart`.
    serving: Callable[[Gate], AbstractContextManager[object]] | None = None
    #: What later features stand on: one object of a type; see :meth:`FeatureContext.provision`.
    provides: Sequence[object] = ()


def load(context: FeatureContext) -> list[Feature]:
    """The features of this installation, in the order of :data:`FEATURES`."""
    features = []
    for name in FEATURES:
        feature: Feature = import_module(f".{name}", __package__).feature(context)
        context.provided.update((type(each), each) for each in feature.provides)
        features.append(feature)
    return features
