"""OpenTelemetry spans of a client's calls, in applications that use OpenTelemetry.

Nothing is imported on behalf of traces: a client traces its calls if the application had imported
``opentelemetry.trace`` when the client was created. Spans have no elements, keys or descriptors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..contract.errors import RequestRefused, TensorRoundError
from ..contract.progress import Progress
from ..contract.version import __version__
from ..transport.address import LOCAL, Address
from ..transport.exchange import Deadline, Exchange, Request
from .options import Arguments
from .session import CallOptions, Session

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from ..transport.concurrency import Concurrency, Transport

T = TypeVar("T")


class TracedSession(Session):
    """A session whose calls are spans of kind CLIENT.

    Each try sends the context of its call (``traceparent``), unless the client's ``headers`` do.
    Each retry is an event.
    """

    def __init__(
        self, transport: Transport, concurrency: Concurrency, arguments: Arguments
    ) -> None:
        from opentelemetry import propagate, trace

        super().__init__(transport, concurrency, arguments)
        self._trace = trace
        self._inject = propagate.inject
        self._tracer = trace.get_tracer("tensor-round", __version__)
        self._server = server_attributes(arguments.url)
        self._own_fields = {name.lower() for name in arguments.options["headers"] or {}}

    @contextmanager
    def _call(self, name: str, progress: Progress = False) -> Iterator[CallOptions]:
        """A span, which is the current one for the call's tries."""
        kind = self._trace.SpanKind.CLIENT
        span = self._tracer.start_span(f"tensor_round.{name}", kind=kind, attributes=self._server)
        if not _is_valid(span):  # the application exports no spans
            with super()._call(name, progress) as options:
                yield options
            return
        with self._trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                with super()._call(name, progress) as options:
                    yield options
            except BaseException as error:
                text = str(error) if isinstance(error, TensorRoundError) else None
                span.set_attribute("error.type", _kind(error))
                span.set_status(self._trace.StatusCode.ERROR, text)
                raise

    def _record_retry(self, error: TensorRoundError, pause: float) -> None:
        span = self._trace.get_current_span()
        span.add_event("retry", {"error.type": _kind(error), "seconds": pause})

    async def _attempt(self, request: Request, exchange: Exchange[T], deadline: Deadline) -> T:
        if _is_valid(self._trace.get_current_span()):
            context: dict[str, str] = {}
            self._inject(context)
            fields = [
                (name.encode(), value.encode())
                for name, value in context.items()
                if name.lower() not in self._own_fields
            ]
            request = request._replace(varying=[*request.varying, *fields])
        return await super()._attempt(request, exchange, deadline)


def _is_valid(span: Span) -> bool:
    """Whether a span belongs to a trace."""
    return span.get_span_context().is_valid


def _kind(error: BaseException) -> str:
    """The code of a refusal, or the name of another error."""
    return error.code if isinstance(error, RequestRefused) else type(error).__name__


def server_attributes(url: str) -> dict[str, str | int]:
    """The attributes of the service's address; none for this process."""
    address = Address.parse(url)
    if address.scheme == LOCAL:
        return {}
    if address.uds is not None:
        return {"server.address": address.uds}
    return {"server.address": address.host, "server.port": address.port}
