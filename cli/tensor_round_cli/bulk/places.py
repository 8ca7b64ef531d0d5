"""Where an array is: a path or a URL, of a .npy file or a Zarr array."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tensor_round.contract.quoting import one_line

from . import durable

T = TypeVar("T")
#: Seconds before each further try of a call into a file system at a URL.
PAUSES = (0.5, 2.0)
#: The refusal of a target that is there: nothing is lost unless an option asks for it.
EXISTS = "exists already: --overwrite replaces it"
#: The user and the query of a URL, also where it is chained (simplecache::https://...) or quoted.
_SECRETS = re.compile(r"""(?<=://)[^/?\s]*@|[?][^\s'"]*""")


class PlaceError(OSError):
    """An array cannot be read or written where it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path, or a URL of fsspec, as the caller gave it. ``path`` is None for a URL."""

    text: str
    path: Path | None

    @classmethod
    def of(cls, text: str) -> Place:
        """Read a path or URL."""
        if text.startswith("file://"):
            text = url2pathname(urlsplit(text).path)
        return cls(text, None if "://" in text else Path(text))

    @property
    def is_http(self) -> bool:
        """Whether a web server has it, which cannot be written to."""
        return self.text.startswith(("http://", "https://"))

    @property
    def is_zarr(self) -> bool:
        """Whether it is a Zarr array by its name.

        A URL is one unless its path ends in ``.npy``; a path is one if it or a folder in it has a
        name that ends in ``.zarr``.
        """
        if self.path is None:
            return not self.name.endswith(".npy")
        is_in_zarr = any(part.endswith(".zarr") for part in self.path.parts)
        return is_in_zarr and self.path.suffix != ".npy"

    @property
    def name(self) -> str:
        """The place without what is secret or changes between runs: a URL's query and user."""
        if self.path is not None:
            return str(self.path.resolve())
        return without_secrets(self.text)

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.text}/{name}", None if self.path is None else self.path / name)

    def read(self) -> bytes | None:
        """The content of a small file; None if there is none."""
        try:
            if self.path is not None:
                return self.path.read_bytes()
            content: bytes = self.call("cat_file")
        except FileNotFoundError:
            return None
        return content

    def write(self, data: bytes) -> None:
        """Replace the content of a small file."""
        if self.path is not None:
            durable.replace(self.path, data)
        else:
            self.call("pipe_file", data)

    def remove(self) -> None:
        """Remove a file, if it is there."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        elif self.read() is not None:
            self.call("rm_file")

    # fsspec has no types, and file systems add arguments of their own.
    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of a URL's file system; raises FileNotFoundError and PlaceError."""
        files, path = self.file_system()
        return tried(self.name, lambda: getattr(files, method)(path, *arguments, **options))

    def file_system(self) -> tuple[Any, str]:
        """A URL's file system, and the path there; raises :class:`PlaceError`."""
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise missing("fsspec", error) from None
        try:
            files, path = url_to_fs(self.text)
        except (ImportError, ValueError) as error:
            raise PlaceError(f"fsspec cannot open it: {error}") from None
        return files, path


def without_secrets(text: str) -> str:
    """A URL, or a text in which there are some, without users and queries."""
    return _SECRETS.sub("", text)


def missing(package: str, error: ImportError) -> PlaceError:
    """The error for a package that is not installed."""
    return PlaceError(f"{package} is needed ({error}): pip install 'tensor-round[bulk]'")


def _first(error: Exception) -> Exception:
    """The error, or the first in a group, as zarr raises them for reads that run at once."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def tried(name: str, call: Callable[[], T], *, again: bool = True) -> T:
    """The result of a call into a file system or Zarr, which is repeated after an error.

    Raises FileNotFoundError and :class:`PlaceError`. Every exception counts, since file systems
    raise those of the libraries that they are made of.
    """
    pauses = iter(PAUSES if again else ())
    while True:
        try:
            return call()
        except Exception as raised:
            error = _first(raised)
            if isinstance(error, FileNotFoundError):
                why = "not found, or no server answers"
                raise FileNotFoundError(error.errno, why, name) from error
            pause = next(pauses, None)
            if pause is None or isinstance(error, PermissionError | NotImplementedError):
                why = one_line(without_secrets(str(error)))
                raise PlaceError(f"{name}: {type(error).__name__}: {why}") from error
        time.sleep(pause)
