"""What a row of the table came to."""

from __future__ import annotations

from dataclasses import dataclass, field

#: So many faults are printed.
MAX_FAULTS = 20


@dataclass
class Report:
    """The figures of a row, in a line or more, and its faults."""

    figures: str
    faults: list[str] = field(default_factory=list)

    def expect(self, fault: str, held: bool) -> None:
        """Add the fault where the expectation was not held."""
        if not held:
            self.faults.append(fault)

    def text(self, row: str) -> str:
        """All of it, as it is printed."""
        state = f"{len(self.faults)} FAULTS" if self.faults else "held"
        return "\n".join(
            (
                f"{row}: {state}: {self.figures}",
                *(f"  {fault}" for fault in self.faults[:MAX_FAULTS]),
            )
        )
