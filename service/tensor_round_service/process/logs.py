"""The log: text or JSON on stderr, which a thread writes.

Whoever reads it may stall: a pipe that is full makes the thread wait, and neither the service nor
its exit. Lines that wait have a bound; those beyond it are dropped and counted.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from ..settings import Settings

#: The root of this package's loggers.
_PACKAGE = "tensor_round_service"
#: Loggers with the level LOG_LEVEL; that of others is at least WARNING.
_LOGGERS = (_PACKAGE, "uvicorn", "opentelemetry")
#: Bytes of the lines that may wait.
MAX_WAITING_BYTES = 1 << 20
#: Time for the lines that wait at exit.
EXIT_SECONDS = 1.0
#: Time between two lines that say how many were dropped, while more are.
NOTICE_SECONDS = 1.0
#: Standard error; Python has no file for it if it was closed at start, and another may have its
#: number then.
_STDERR = -1 if sys.__stderr__ is None else 2
#: What every record has; other attributes are fields of a line. ``event`` is the constant name of
#: a line whose text has the fields, and ``color_message`` uvicorn's second text.
_ATTRIBUTES = {
    *vars(logging.makeLogRecord({})),
    "asctime",
    "color_message",
    "event",
    "message",
    "taskName",
}
#: Terminals act on control characters (of C0, and of C1), and other programs end lines at some.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class TextFormatter(logging.Formatter):
    """A line of text, and a traceback in separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record, without control characters."""
        text = f"{record.levelname + ':':<9} {_printable(record.getMessage())}"
        if record.exc_info:
            lines = self.formatException(record.exc_info).split("\n")
            text = "\n".join([text, *map(_printable, lines)])
        return text


class JsonFormatter(logging.Formatter):
    """A JSON object with the time in UTC, level, logger, event, fields, and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The object of a record, in ASCII."""
        fields = {k: v for k, v in vars(record).items() if k not in _ATTRIBUTES and v is not None}
        entry: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).strftime(
                "%Y-%m-%dT%H:%M:%S.%fZ"
            ),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
            **fields,
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class Log(logging.Handler):
    """Formats records where they are logged, and has a thread write them to a file descriptor."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._descriptor = descriptor
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._guard = threading.RLock()
        self._waiting = 0
        #: How many lines were dropped so far.
        self.dropped = 0
        #: How many dropped lines a line has told, and when.
        self._told = 0
        self._told_at = float("-inf")
        threading.Thread(target=self._write_lines, name="tensor-round-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written; drop it if too many wait."""
        try:
            line = self.format(record)
        except Exception as error:  # arguments may not fit the text; the service goes on
            line = f"a line of {record.name} cannot be formatted: {type(error).__name__}"
        self.say(line)

    def say(self, line: str) -> None:
        """Have a line written as it is."""
        content = f"{line}\n".encode(errors="backslashreplace")
        with self._guard:
            if self._waiting + len(content) > MAX_WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting += len(content)
        self._lines.put(content)

    def finish(self) -> None:
        """Wait until all lines are written, but no longer than ``EXIT_SECONDS``."""
        deadline = time.monotonic() + EXIT_SECONDS
        while self._waiting and time.monotonic() < deadline:
            time.sleep(0.005)

    def _write_lines(self) -> None:
        while True:
            content = self._lines.get()
            is_written = self._write(content)
            with self._guard:
                self._waiting -= len(content)
                self.dropped += not is_written
                untold = self.dropped - self._told
            is_due = not self._waiting or time.monotonic() > self._told_at + NOTICE_SECONDS
            if untold and is_due and self._write(self._notice(untold)):
                self._told += untold
                self._told_at = time.monotonic()

    def _notice(self, count: int) -> bytes:
        text = "dropped %d lines of the log: its reader is slow, or the disk is full"
        record = logging.LogRecord(_PACKAGE, logging.WARNING, "", 0, text, (count,), None)
        return f"{self.format(record)}\n".encode()

    def _write(self, content: bytes) -> bool:
        """Write; return False if it fails. Python's own file would be locked meanwhile."""
        while content:
            try:
                content = content[os.write(self._descriptor, content) :]
            except BlockingIOError:  # the descriptor is another process's, too
                writable = select.poll()
                writable.register(self._descriptor, select.POLLOUT)
                writable.poll()
            except OSError:
                return False
        return True


@contextmanager
def logging_to_stderr(settings: Settings) -> Iterator[Log]:
    """Have all loggers of this process write to stderr, until the lines are written at the end."""
    log = Log(_STDERR, JsonFormatter() if settings.log_format == "json" else TextFormatter())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    root = logging.getLogger()
    root.addHandler(log)
    root.setLevel(max(level, logging.WARNING))
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)
    try:
        yield log
    finally:
        logging.captureWarnings(False)
        root.removeHandler(log)
        log.finish()


def _printable(text: str) -> str:
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)
