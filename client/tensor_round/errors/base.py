"""What a caller of the client may catch, but for the service's refusals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a request: where (a path of keys and indices) and why."""

    loc: tuple[str | int, ...]
    msg: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.loc))}: {self.msg}" if self.loc else self.msg


class TensorRoundError(Exception):
    """The root of every error this package raises on purpose."""

    #: Whether the same request may well succeed a little later.
    transient: bool = False

    #: Whether the answer shows no sign of a tensor-round service.
    is_foreign: bool = False

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        #: The id of the request that failed, where one was made.
        self.request_id: str | None = None

    def restate(self, detail: str) -> None:
        """Have it say this instead: what is known where it was raised may not be all."""
        self.detail = detail
        self.args = (detail,)


class ConnectionFailed(TensorRoundError):
    """The service could not be reached, or the connection broke before the answer was whole."""

    transient = True


class DeadlineExceeded(TensorRoundError):
    """The call's total deadline passed before the answer was whole."""


class ProtocolViolation(TensorRoundError):
    """The answer is not one that a correct service gives: the server's fault, or a proxy's."""


class CannotVerify(TensorRoundError):
    """There is no verdict: the runtime is missing, failed, or returned what is no result."""

    def __init__(self, detail: str, reason: str | None = None) -> None:
        super().__init__(_line(detail))
        #: What the runtime itself said, where it said something.
        self.reason = self.detail if reason is None else _line(reason)


class InvalidArgument(TensorRoundError, ValueError):
    """The client was given what it cannot work with: no array, an ``out`` that does not fit."""


class InvalidArgumentType(InvalidArgument, TypeError):
    """The client was given an argument of the wrong type: ``timeout="5"``, a list as ``x``."""


def _line(text: str) -> str:
    """One line for terminals and XML, whatever a runtime or a program has said."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
