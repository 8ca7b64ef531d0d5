"""The files on a command line; a fault in one is a usage error that names the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import PurePath

import typer

from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import MalformedNpy, UnsupportedMediaType

from .bulk import npy_files
from .bulk.npy_arrays import NpySource, NpyTarget, RemoteNpy
from .bulk.places import Place, PlaceError, without_secrets
from .bulk.tile_grid import Source, Target
from .bulk.zarr_arrays import ZarrSource, ZarrTarget, new_metadata
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


def open_source(source: str, dtype: str | None) -> Source:
    """Open the array IN; standard input is read. Raises ``typer.BadParameter``."""
    place = Place.of(source)
    with _usage_errors(source, "IN"):
        if place.is_zarr or (place.path is not None and place.path.is_dir()):
            return ZarrSource(place, dtype)
        return RemoteNpy(place, dtype) if place.path is None else NpySource(place.path, dtype)


def make_target(
    source: str, target: str, given: Source, tile_bytes: int, *, overwrite: bool
) -> Target | None:
    """The array OUT for a bulk run; None if one call rounds ``given`` into a .npy file.

    Raises ``typer.BadParameter``. A .npy file that is there is replaced when the new one is
    complete; a Zarr array, whose chunks are written in place, only with ``overwrite``.
    """
    place = Place.of(target)
    check_target(target, may_be_folder=place.is_zarr)
    if place.is_zarr and f"{Place.of(source).name}/".startswith(f"{place.name}/"):
        raise _unfit("OUT", target, "only a .npy file may be its own OUT")
    has_pipe = npy_files.PIPE in (source, target)
    if place.path is not None and not place.is_zarr and isinstance(given, NpySource):
        is_short = given.header.data_length <= tile_bytes
        if has_pipe or is_short or not npy_files.is_plain(target):
            return None
    if has_pipe:
        raise typer.BadParameter("- stands for a .npy file, from and to a .npy file of this host")
    with _usage_errors(target, "OUT"):
        if place.is_zarr and isinstance(given, ZarrSource):
            return ZarrTarget(place, given.metadata, overwrite=overwrite)
        if place.is_zarr:
            metadata = new_metadata(given.header, given.dtype, tile_bytes)
            return ZarrTarget(place, metadata, overwrite=overwrite)
        if place.path is None:
            raise PlaceError("a .npy file is written on this host only; a URL can be a Zarr array")
        return NpyTarget(place.path, given.header, given.dtype)


@contextlib.contextmanager
def _usage_errors(source: str, name: str) -> Iterator[None]:
    if Place.of(source).path is None:
        source = without_secrets(source)
    try:
        yield
    except npy_files.DTypeNeeded as error:
        raise typer.BadParameter(f"{source}: {error}", param_hint="--dtype") from None
    except MalformedNpy as error:
        why = error.detail.replace("the body is", "the file is", 1)
        why = why.replace("the body", "this is no .npy file: it", 1)
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
    """What to do with a model; None if the path has not the name of one."""
    # Not every .json is one.
    if PurePath(path).suffix.lower() not in (".onnx", ".xml"):
        return None
    return f"this is a model, whose rounding nodes are verified by {how_to_verify(path)}"


def check_target(target: str, *, may_be_folder: bool = False) -> None:
    """Raise ``typer.BadParameter`` for a path where no file can be written."""
    place = Place.of(target).path
    if place is None or target == npy_files.PIPE:
        return
    if place.is_dir() and not may_be_folder:
        raise typer.BadParameter(f"{target} is a folder", param_hint="OUT")
    if not place.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {place.parent}", param_hint="OUT")


def _unfit(name: str, source: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{source}: {why}", param_hint=name)
