"""Frames and labelled, lazy and chunked arrays of other libraries, and back as their own kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
import zarr

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.services.server import Service

X = patterns("float32", 600)


@pytest.fixture(scope="module")
def client() -> Iterator[tr.Client]:
    with Service() as service, tr.Client(service.url) as connected:
        yield connected


def assert_is_rounded(y: Any, x: Any = X, rounding: str = "ties_to_even") -> None:
    assert y.dtype == x.dtype
    assert np.array_equal(bits(y).ravel(), expected_bits(x.ravel(), rounding))


def test_a_pandas_series_keeps_its_index_and_name(client: tr.Client) -> None:
    index = pd.date_range("2026-01-01", periods=600)
    x = pd.Series(X, index, name="gain")
    x.attrs["unit"] = "dB"
    y = client.round(x, "ties_to_away")
    assert isinstance(y, pd.Series)
    assert y.index.equals(index)
    assert (y.name, y.attrs) == ("gain", {"unit": "dB"})
    assert_is_rounded(y.to_numpy(), rounding="ties_to_away")


def test_a_pandas_frame_keeps_its_labels(client: tr.Client) -> None:
    x = pd.DataFrame(X.reshape(200, 3), index=range(7, 207), columns=["a", "b", "b"])
    y = client.round(x)
    assert isinstance(y, pd.DataFrame)
    assert y.index.equals(x.index)
    assert y.columns.equals(x.columns)
    assert_is_rounded(y.to_numpy(), x.to_numpy())


def test_a_polars_series_keeps_its_name(client: tr.Client) -> None:
    y = client.round(pl.Series("gain", X))
    assert isinstance(y, pl.Series)
    assert y.name == "gain"
    assert_is_rounded(y.to_numpy())


@pytest.mark.parametrize("chunks", [None, {"t": 70}], ids=["numpy", "dask"])
def test_an_array_of_xarray_keeps_its_coordinates(client: tr.Client, chunks: Any) -> None:
    x = xr.DataArray(X, dims="t", coords={"t": np.arange(600) / 10}, name="gain", attrs={"u": "dB"})
    y = client.round(x if chunks is None else x.chunk(chunks))
    assert isinstance(y, xr.DataArray)
    assert (y.chunks is None) == (chunks is None)
    assert y.coords.identical(x.coords)
    assert (y.name, y.attrs) == (x.name, x.attrs)
    assert_is_rounded(y.to_numpy())
    assert isinstance(client.round(x.variable), xr.Variable)
    assert_is_rounded(x.to_dataset().map(client.round)["gain"].to_numpy())


def test_a_dask_array_stays_lazy_and_is_rounded_by_its_blocks(client: tr.Client) -> None:
    blocks = []

    def noted(block: Any) -> Any:
        blocks.append(block.shape)
        return block

    x = dask.array.from_array(X.reshape(20, 30), chunks=(7, 30))
    y = client.round(x.map_blocks(noted, meta=X[:0].reshape(0, 0)), "toward_zero")
    assert isinstance(y, dask.array.Array)
    assert (y.chunks, y.dtype, blocks) == (x.chunks, x.dtype, [])
    assert_is_rounded(y.compute(scheduler="threads"), rounding="toward_zero")
    assert sorted(blocks) == [(6, 30), (7, 30), (7, 30)]
    assert_is_rounded(tr.round(x).compute(scheduler="processes", num_workers=1))


def test_a_zarr_array_is_rounded_by_chunks_through_dask(client: tr.Client) -> None:
    stored = zarr.array(X.reshape(20, 30), chunks=(7, 30))
    with pytest.raises(tr.InvalidArgumentType, match=r"dask.array.from_zarr\(x\)"):
        client.round(stored)
    y: Any = client.round(dask.array.from_zarr(stored))
    assert y.chunksize == (7, 30)
    assert_is_rounded(y.compute())


def test_a_lazy_array_is_validated_at_once(client: tr.Client) -> None:
    x = dask.array.from_array(X.reshape(20, 30), chunks=7)
    with pytest.raises(tr.InvalidDescriptor, match="exactly 4 dimensions"):
        client.round(x, tr.DirectMLRound(feature_level="2_1"))
    with pytest.raises(tr.InvalidArgument, match="neither out nor progress"):
        client.round(x, out=X)
    some = x[x > 1]  # whose length nobody knows
    assert_is_rounded(client.round(some).compute(), some.compute())


NULLABLE = pd.Series([0.5, None], dtype="Float32")
REFUSED: dict[str, tuple[Any, str]] = {
    "two-dtypes": (pd.DataFrame({"a": X, "b": range(600)}), "columns of float32 and int64: pass"),
    "nullable": (NULLABLE, r'dtype Float32, .*: pass x.to_numpy\("float32"\)$'),
    "index": (pd.Index(X), r"pandas Index: pass x.to_numpy\(\)$"),
    "text": (pd.Series(["a"]), "str"),
    "nulls": (pl.Series([0.5, None]), r"nulls, .*: pass x.fill_null"),
    "polars-frame": (pl.DataFrame({"a": X}), r"polars DataFrame: pass x.to_numpy\(\)"),
    "polars-text": (pl.Series(["a"]), "String"),
    "dataset": (xr.Dataset({"a": ("t", X)}), r"x.map\(client.round\)"),
}


@pytest.mark.parametrize(("x", "why"), REFUSED.values(), ids=REFUSED)
def test_frames_that_cannot_be_rebuilt_are_refused_with_the_call_that_works(
    client: tr.Client, x: Any, why: str
) -> None:
    with pytest.raises((tr.InvalidArgument, tr.InvalidDescriptor), match=why):
        client.round(x)


def test_the_calls_that_the_refusals_name_work(client: tr.Client) -> None:
    assert client.round(NULLABLE.to_numpy("float32"))[0] == 0
    assert_is_rounded(client.round(pd.Index(X).to_numpy()))
    assert_is_rounded(client.round(pl.DataFrame({"a": X}).to_numpy()))


def test_frames_are_not_filled(client: tr.Client) -> None:
    for out in (pd.Series(X), pl.Series(X)):
        with pytest.raises(tr.InvalidArgument, match="Series, which is not filled"):
            client.round(X, out=out)
    labelled = xr.DataArray(X.copy())
    assert client.round(labelled, out=labelled) is labelled
    assert_is_rounded(labelled.to_numpy())


def test_lazy_frames_are_refused_with_the_call_that_computes() -> None:
    x = dask.array.from_array(X)

    async def call() -> None:
        async with tr.AsyncClient("local:") as client:
            await client.round(x)

    with pytest.raises(tr.InvalidArgumentType, match=r"pass x.compute\(\)"):
        asyncio.run(call())
    with pytest.raises(tr.InvalidArgumentType, match=r"pass a.compute\(\)"):
        tr.compare(x)
