"""The files on a command line; an error in one is a usage error that names the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePath

import typer

from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import MalformedNpy, UnsupportedMediaType

from . import npy_files
from .modelling import how_to_verify

#: Other files of arrays, by their suffix: what they are, and the call that reads an array.
_OTHERS = {
    **dict.fromkeys((".h5", ".hdf5"), ("an HDF5 file", "h5py.File('FILE')['NAME'][...]")),
    ".parquet": ("a Parquet file", "pandas.read_parquet('FILE')['COLUMN'].to_numpy()"),
    ".csv": ("text", "numpy.loadtxt('FILE', delimiter=',')"),
    **dict.fromkeys((".pt", ".pth"), ("a file of torch", "torch.load('FILE').numpy()")),
}


def read_tensor(source: str, dtype: str | None, name: str = "IN") -> npy_files.NpyArray:
    """Read a .npy file or standard input; raises ``typer.BadParameter`` for argument ``name``."""
    with _usage_errors(source, name):
        return npy_files.read_npy(source, dtype)


@contextlib.contextmanager
def _usage_errors(source: str, name: str) -> Iterator[None]:
    if "://" in source or PurePath(source).suffix == ".zarr":
        shown = "a URL" if "://" in source else source  # it may have a password
        raise _unfit(
            name,
            shown,
            "only .npy files are rounded here; for Zarr arrays and URLs, "
            "see docs/howto/large-arrays.md",
        )
    try:
        yield
    except npy_files.DTypeNeeded as error:
        raise typer.BadParameter(f"{source}: {error}", param_hint="--dtype") from None
    except MalformedNpy as error:
        why = error.detail.replace("the body is", "the file is", 1)
        why = why.replace("the body", "this is not a .npy file: it", 1)
        if (kind := _OTHERS.get(PurePath(source).suffix.lower())) is not None:
            what, call = kind
            why = f"this is {what}, not a .npy file: numpy.save('in.npy', {call}) converts it"
        raise _unfit(name, source, of_a_model(source) or why) from None
    except UnsupportedMediaType as error:
        served = ", ".join(dtype.name for dtype in DTYPES)
        raise _unfit(name, source, f"{error.detail}; supported types: {served}") from None
    except OSError as error:
        raise _unfit(name, source, error.strerror or str(error)) from None


def of_a_model(path: str) -> str | None:
    """What to do with a model; None if the path does not name one."""
    # Not every .json is one.
    if PurePath(path).suffix.lower() not in (".onnx", ".xml"):
        return None
    return f"this is a model; to verify its rounding nodes, run {how_to_verify(path)}"


def check_target(target: str) -> None:
    """Raise ``typer.BadParameter`` for a path where no file can be written."""
    if target == npy_files.PIPE:
        return
    if Path(target).is_dir():
        raise typer.BadParameter(f"{target} is a folder", param_hint="OUT")
    folder = Path(target).parent
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}", param_hint="OUT")


def check_npy_target(target: str) -> None:
    """Likewise, also for the name of a file of another format."""
    if PurePath(target).suffix.lower() in _OTHERS:
        raise _unfit("OUT", target, "only .npy files are written here")
    check_target(target)


def _unfit(name: str, source: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{source}: {why}", param_hint=name)
