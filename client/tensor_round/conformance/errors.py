"""Why there is no verdict on a runtime."""

from __future__ import annotations

from ..errors import TensorRoundError


class CannotVerify(TensorRoundError):
    """The runtime is not there, failed, or returned something that is no result: no verdict.

    ``reason`` is what the runtime itself said, where it said something.
    """

    def __init__(self, detail: str, reason: str | None = None) -> None:
        super().__init__(_line(detail))
        self.reason = self.detail if reason is None else _line(reason)


class NotTaken(CannotVerify):
    """The runtime does not round this type in this direction."""


def _line(text: str) -> str:
    """One line for terminals and XML, whatever a runtime or a program has said."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
