"""The files on a command line; a fault in one is a usage error that names the file."""

from __future__ import annotations

from pathlib import Path

import typer

from ..arrays import npy_files
from ..dtypes import DTYPES
from ..errors import MalformedNpy, UnsupportedMediaType


def read_tensor(source: str, dtype: str | None, name: str = "IN") -> npy_files.NpyArray:
    """Read a .npy file or standard input; raises ``typer.BadParameter`` for argument ``name``."""
    try:
        return npy_files.read_npy(source, dtype)
    except npy_files.DTypeNeeded as error:
        raise typer.BadParameter(f"{source}: {error}", param_hint="--dtype") from None
    except MalformedNpy as error:
        why = error.detail.replace("the body is", "the file is", 1)
        why = why.replace("the body", "this is no .npy file: it", 1)
        raise _unfit(name, source, why) from None
    except UnsupportedMediaType as error:
        served = ", ".join(dtype.name for dtype in DTYPES)
        raise _unfit(name, source, f"{error.detail}; supported types: {served}") from None
    except OSError as error:
        raise _unfit(name, source, str(error.strerror)) from None


def check_target(target: str) -> None:
    """Raise ``typer.BadParameter`` for a path where no file can be written."""
    if target == npy_files.PIPE:
        return
    place = Path(target)
    if place.is_dir():
        raise typer.BadParameter(f"{target} is a folder", param_hint="OUT")
    if not place.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {place.parent}", param_hint="OUT")


def _unfit(name: str, source: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{source}: {why}", param_hint=name)
