"""Tensors of other frameworks through the client and a real service, and back as their own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import onnx.helper
import pytest
import torch

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.pages import URL, blocks
from support.services.server import Service


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


def test_a_quantized_tensor_is_not_taken_for_an_integer_one(client: tr.Client) -> None:
    t = torch.quantize_per_tensor(torch.tensor([0.5]), 0.1, 0, torch.qint8)
    with pytest.raises(tr.InvalidDescriptor, match=r'got "qint8"$'):
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


def test_from_onnx_reads_real_nodes(client: tr.Client) -> None:
    node = onnx.helper.make_node("Round", ["x"], ["y"])
    operator = tr.from_onnx(node, opset=22)
    assert operator == tr.OnnxRound(opset_version=22)
    assert client.round(np.array([0.5, 1.5, 2.5], "f4"), operator).tolist() == [0, 2, 2]
    for other in (
        onnx.helper.make_node("Floor", ["x"], ["y"]),
        onnx.helper.make_node("Round", ["x"], ["y"], domain="com.microsoft"),
        onnx.helper.make_node("Round", ["x"], ["y"], mode="even"),
    ):
        with pytest.raises(tr.InvalidDescriptor):
            tr.from_onnx(other, opset=22)


def test_four_lines_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """The first example of docs/sdk.md."""
    (example,) = [b.text for b in blocks("docs/sdk.md") if b.needs == "torch"]
    with Service() as service:
        exec(example.replace(URL, service.url), {})
    assert capsys.readouterr().out.strip() in example
