"""What a row of the table came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Verdict:
    """The figures of a row, in a line, and what was not held."""

    figures: str
    faults: list[str] = field(default_factory=list)

    def hold(self, what: str, held: bool) -> None:
        """Note what was not held."""
        if not held:
            self.faults.append(what)
