"""Tensors, frames, labelled and lazy arrays of other libraries, and back as their own kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import dask.array
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import xarray as xr
import zarr

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.pages import URL, blocks
from support.services.server import Service
from tensor_round.contract.dtypes import BY_NAME


@pytest.fixture(scope="module")
def client() -> Iterator[tr.Client]:
    with Service() as service, tr.Client(service.url, tile_bytes=4096) as connected:
        yield connected


def tensor(dtype: str, *shape: int) -> torch.Tensor:
    """Hard elements of a type, bit for bit."""
    x = patterns(dtype, int(np.prod(shape))).reshape(shape)
    return torch.from_numpy(x.view(f"i{x.itemsize}")).view(getattr(torch, dtype))


def as_bits(t: torch.Tensor) -> Any:
    return t.detach().view(getattr(torch, f"int{8 * t.itemsize}")).numpy().view(f"u{t.itemsize}")


@pytest.mark.parametrize(
    "dtype",
    ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "uint64"],
)
def test_a_torch_tensor_comes_back_as_one(client: tr.Client, dtype: str) -> None:
    t = tensor(dtype, 40, 100)
    y = client.round(t)
    assert isinstance(y, torch.Tensor)
    assert (y.dtype, y.shape, y.stride()) == (t.dtype, t.shape, t.stride())
    assert np.array_equal(as_bits(y), expected_bits(patterns(dtype, 4000)).reshape(40, 100))


LAYOUTS = {
    "transposed": lambda t: t.t(),
    "every-other": lambda t: t[::2, ::3],
    "0d": lambda t: t[3, 4],
    "empty": lambda t: t[:0],
    "expanded": lambda t: t[:1].expand(7, -1),
    "channels-last": lambda t: t.reshape(2, 5, 20, 20).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_torch_layouts(client: tr.Client, layout: Any) -> None:
    t = layout(tensor("bfloat16", 40, 100))
    y = client.round(t, "toward_negative")
    assert (y.dtype, y.shape, y.requires_grad) == (t.dtype, t.shape, False)
    assert np.array_equal(as_bits(y), bits_of_floor(t))


def test_a_tensor_that_requires_a_gradient_is_refused(client: tr.Client) -> None:
    t = torch.tensor([0.5, 1.5], requires_grad=True)
    with pytest.raises(tr.InvalidArgument, match=r"rounding has none: pass x.detach\(\)$"):
        client.round(t)
    with pytest.raises(tr.InvalidArgument, match=r"pass out.detach\(\)$"):
        client.round(t.detach(), out=t)
    assert client.round(t.detach()).tolist() == [0, 2]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_quantized_tensor_is_not_taken_for_an_integer_one(client: tr.Client) -> None:
    t = torch.quantize_per_tensor(torch.tensor([0.5]), 0.1, 0, torch.qint8)
    with pytest.raises(tr.InvalidDescriptor, match='got "qint8"; ieee754'):
        client.round(t)


def bits_of_floor(t: torch.Tensor) -> Any:
    name = str(t.dtype).removeprefix("torch.")
    seen = as_bits(t).view(patterns(name, 1).dtype)
    return expected_bits(seen, "toward_negative")


def test_a_torch_tensor_in_place(client: tr.Client) -> None:
    t = tensor("bfloat16", 40, 100)
    expected = expected_bits(patterns("bfloat16", 4000)).reshape(40, 100)
    memory = t.data_ptr()
    assert client.round(t, out=t) is t
    assert t.data_ptr() == memory
    assert np.array_equal(as_bits(t), expected)
    column = tensor("float32", 40, 100)
    out = torch.zeros(100, 40).t()
    assert client.round(column, out=out) is out
    assert np.array_equal(as_bits(out), expected_bits(patterns("float32", 4000)).reshape(40, 100))


@pytest.mark.parametrize(
    ("t", "kind", "why"),
    [
        (torch.zeros(2, dtype=torch.complex64), tr.InvalidDescriptor, "complex64"),
        (torch.zeros(2, dtype=torch.bool), tr.InvalidDescriptor, "bool"),
        (torch.zeros(2, device="meta"), tr.InvalidArgument, "meta"),
        (torch.zeros(2).to_sparse(), tr.InvalidArgument, "sparse"),
    ],
    ids=["complex", "bool", "meta", "sparse"],
)
def test_tensors_that_cannot_be_rounded(
    client: tr.Client, t: torch.Tensor, kind: type[tr.TensorRoundError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        client.round(t)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16, jnp.float8_e5m2])
def test_a_jax_array_comes_back_as_one(client: tr.Client, dtype: Any) -> None:
    x = (jnp.arange(40) / 8 - 2).astype(dtype)
    y = client.round(x, "ties_to_away")
    assert isinstance(y, type(x))
    assert y.dtype == x.dtype
    assert np.array_equal(bits(np.asarray(y)), expected_bits(np.asarray(x), "ties_to_away"))


def test_four_lines_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """The first example of docs/sdk.md."""
    (example,) = [b.text for b in blocks("docs/sdk.md") if b.needs == "torch"]
    with Service() as service:
        exec(example.replace(URL, service.url), {})
    assert capsys.readouterr().out.strip() in example


X = patterns("float32", 600)


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
    with pytest.raises(tr.InvalidArgument, match="omit out and progress"):
        client.round(x, out=X)
    some = x[x > 1]  # whose length nobody knows
    assert_is_rounded(client.round(some).compute(), some.compute())


#: Forms of an array of float32, and a type that each has beside it, and one that it lacks.
FORMS: dict[str, tuple[Callable[[Any], Any], str, str | None]] = {
    "torch": (torch.from_numpy, "float8_e4m3fn", "int4"),
    "torch-integers": (torch.from_numpy, "uint16", "float4_e2m1fn"),
    "jax": (jnp.asarray, "bfloat16", "float64"),  # jax makes it float32 unless told otherwise
    "pandas": (pd.Series, "float16", "bfloat16"),
    "pandas-frame": (lambda x: pd.DataFrame(x.reshape(200, 3)), "int8", "float8_e5m2"),
    "polars": (lambda x: pl.Series("gain", x), "int16", "bfloat16"),
    "xarray": (xr.DataArray, "bfloat16", None),
}


@pytest.mark.parametrize(("make", "can", "cannot"), FORMS.values(), ids=FORMS)
def test_cast_result_keeps_the_form_if_that_has_the_type(
    client: tr.Client, make: Callable[[Any], Any], can: str, cannot: str | None
) -> None:
    values = np.arange(-300, 300).astype(np.float32) % 100 / 4
    x = make(values)
    y = client.cast(x, can)
    assert type(y) is type(x)
    assert can in str(y.dtypes if isinstance(y, pd.DataFrame) else y.dtype).lower()
    expected = tr.cast(values, can)
    seen = as_bits(y) if isinstance(y, torch.Tensor) else bits(np.asarray(y))
    assert np.array_equal(seen.ravel(), bits(expected))
    if cannot is not None:
        other = client.cast(x, cannot)
        assert isinstance(other, np.ndarray)
        assert other.dtype == BY_NAME[cannot].numpy


def test_torch_names_the_type(client: tr.Client) -> None:
    t = torch.tensor([0.1, -2.5, 1e9])
    y = client.cast(t, torch.float8_e5m2, saturate=True)
    assert y.dtype == torch.float8_e5m2
    assert y.to(torch.float32).tolist() == [0.09375, -2.5, 57344]
    out = torch.empty(3, dtype=torch.bfloat16)
    assert client.cast(t, torch.bfloat16, out=out) is out
    assert torch.equal(out, t.to(torch.bfloat16))


def test_lazy_array_is_cast_by_its_blocks(client: tr.Client) -> None:
    x = dask.array.from_array(np.abs(X[:400]).reshape(20, 20) < 1, chunks=(7, 20)).astype("f4")
    y = client.cast(x, "bfloat16", "onnx:13")
    assert (y.dtype, y.chunks) == (BY_NAME["bfloat16"].numpy, x.chunks)
    assert np.array_equal(y.compute(), x.compute().astype(y.dtype))
    assert client.cast(xr.DataArray(x), "int8").dtype == np.int8


NULLABLE = pd.Series([0.5, None], dtype="Float32")
REFUSED: dict[str, tuple[Any, str]] = {
    "two-dtypes": (pd.DataFrame({"a": X, "b": range(600)}), "columns of float32 and int64: pass"),
    "nullable": (NULLABLE.dropna(), r'dtype Float32, .*: pass x.to_numpy\("float32"\)$'),
    "with-missing": (NULLABLE, r'pass x.to_numpy\("float64", na_value=float\("nan"\)\)$'),
    "index": (pd.Index(X), r"pandas Index: pass x.to_numpy\(\)$"),
    "text": (pd.Series(["a"]), "str"),
    "nulls": (pl.Series([0.5, None]), r"nulls, .*: pass x.fill_null"),
    "polars-frame": (pl.DataFrame({"a": X}), r"polars DataFrame: pass x.to_numpy\(\)"),
    "polars-text": (pl.Series(["a"]), "String"),
    "dataset": (xr.Dataset({"a": ("t", X)}), r"an xarray Dataset: .* x.map\(client.round\)"),
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
