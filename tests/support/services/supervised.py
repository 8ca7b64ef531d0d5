"""A supervisor with workers that are no servers, as a program: ``supervised.py KIND FOLDER``.

It imports little: each worker imports it again.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tensor_round_service.failures import CannotStart
from tensor_round_service.process.listener import Listener
from tensor_round_service.process.workers import Supervisor
from tensor_round_service.settings import Settings


def dying(_folder: Path, _listener: Listener, _on_start: Callable[[], None]) -> None:
    """Dies in its start, always."""
    print("started", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def unwilling(_folder: Path, _listener: Listener, _on_start: Callable[[], None]) -> None:
    """Says why it cannot start, always."""
    raise CannotStart("there is no such device")


def crashing(_folder: Path, _listener: Listener, _on_start: Callable[[], None]) -> int:
    """Has a fault in its start, always."""
    return 3


def once(folder: Path, _listener: Listener, on_start: Callable[[], None]) -> None:
    """Serves, but a second of its kind says why it cannot."""
    if folder.joinpath("served").exists():
        print("started", flush=True)
        raise CannotStart("the device is gone")
    folder.joinpath("served").touch()
    on_start()
    print(f"serving {os.getpid()}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    kind, folder = sys.argv[1:]
    settings = Settings(port=0, workers=1)
    try:
        with Listener(settings) as listener:
            work = functools.partial(globals()[kind], Path(folder))
            sys.exit(Supervisor(work, settings, listener, lambda: None, Path(folder)).run())
    except CannotStart as reason:
        sys.exit(f"cannot serve: {reason}")
