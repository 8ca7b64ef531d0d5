"""The errors of the client, except the service's refusals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a request: ``loc`` is its path of keys and indices, ``msg`` the broken rule."""

    loc: tuple[str | int, ...]
    msg: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.loc))}: {self.msg}" if self.loc else self.msg


class TensorRoundError(Exception):
    """The base of all errors of this package."""

    #: Whether the same request may succeed a little later.
    transient: bool = False

    #: Whether the response does not look like one of a tensor-round service.
    is_foreign: bool = False

    #: Whether the same request may be sent to another address at once.
    can_fail_over: bool = False

    #: Whether any byte of the request may have been sent.
    was_sent: bool = True

    #: Whether nobody listens at the address now, as while a service is replaced.
    is_refused_connection: bool = False

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        #: The X-Request-ID of the failed request; None if none was made.
        self.request_id: str | None = None

    def restate(self, detail: str) -> None:
        """Replace the detail by a better one, from a caller that knows more."""
        self.detail = detail
        self.args = (detail,)


class ConnectionFailed(TensorRoundError):
    """The service could not be reached, or the connection broke before the response's end."""

    transient = True


class DeadlineExceeded(TensorRoundError):
    """The call's total deadline passed before the response was complete."""


class ProtocolViolation(TensorRoundError):
    """The response is not one of a correct service: a fault of the server, or of a proxy."""


class CannotVerify(TensorRoundError):
    """There is no verdict: the runtime is missing, failed, or returned a value of a wrong form."""

    def __init__(self, detail: str, reason: str | None = None) -> None:
        super().__init__(_line(detail))
        #: The runtime's own error text; the detail if it gave none.
        self.reason = self.detail if reason is None else _line(reason)


class InvalidArgument(TensorRoundError, ValueError):
    """An argument is wrong: ``x`` is no array, for example, or ``out`` does not fit."""


class InvalidArgumentType(InvalidArgument, TypeError):
    """An argument has the wrong type, as in ``timeout="5"``, or is a list instead of an array."""


def _line(text: str) -> str:
    """Any text on one line of printable characters, for terminals and XML."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
