"""What other processes do to a list of regions; in a module that they can import."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tensor_round_service.oip.regions import Registration, Registry


def registration(name: str) -> Registration:
    return Registration(name, "key é\n", 2**70, 3, (1, 2), "token-of-" + name)


def add(file: Path, names: list[str]) -> None:
    """Register these, one change each."""
    registry = Registry(file)
    for name in names:
        with registry.edit() as regions:
            regions[name] = registration(name)


def die_in_a_change(file: Path) -> None:
    """Never return."""
    with Registry(file).edit() as regions:
        regions["lost"] = registration("lost")
        os.kill(os.getpid(), signal.SIGKILL)
