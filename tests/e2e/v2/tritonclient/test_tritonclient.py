"""tritonclient, NVIDIA's own client, against a real socket: every call it has, every dtype.

Over gRPC it needs a protobuf that the suite's environment has not: `make test-interop` has it,
and runs this folder over both.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as client_memory
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from support.cases.array_cases import on_wire
from support.cases.linear_calls import operands_of, right
from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import AWAY, DIRECTML, EVEN, ZERO, X
from support.segments import PREFIX, segment
from support.services.server import Service
from support.services.variants import DeviceService
from support.v2.regions import TRIES
from support.v2.tritonclients import OverHttp
from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE
from tensor_round.contract.layout import Layout
from tensor_round_service.oip.models import MODELS, find, operator_for
from tensor_round_service.oip.plan import carried_shape
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import INTEGER_WIDTHS, is_nan, rounded

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")
Act = Callable[[Any], Any]
#: Makes a call with a client that is given to it.
Ask = Callable[[Act], Any]
KINDS = [
    pytest.param(OverHttp(), id="http"),
    pytest.param(OverHttp(binary_data=False), id="json"),
]
if importlib.util.find_spec("grpc"):
    from support.v2.tritonclient_grpc import OverGrpc

    unproxied = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")
    KINDS.append(pytest.param(OverGrpc(), id="grpc", marks=unproxied))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> OverHttp:
    made: OverHttp = request.param
    return made


@pytest.fixture
def client(kind: OverHttp, service: Service) -> Iterator[Any]:
    """The blocking client."""
    with kind.blocking(f"127.0.0.1:{service.port}") as made:
        yield made


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, kind: OverHttp, service: Service, client: Any) -> Ask:
    """Either client: they share no implementation."""

    async def connected(call: Act) -> Any:
        async with kind.asynchronous(f"127.0.0.1:{service.port}") as made:
            return await call(made)

    def ask(call: Act) -> Any:
        if request.param == "blocking":
            return call(client)
        try:
            return asyncio.run(connected(call))
        finally:
            # Over HTTP it asks after health and drops the answers unread; they would complain
            # elsewhere.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()

    return ask


#: Those whose elements travel as UINT8.
FP8 = [name for name, row in BY_NAME.items() if row.oip is None]


def asked(
    ask: Ask,
    kind: OverHttp,
    x: np.ndarray[Any, Any],
    model: str = "round",
    version: str = "",
    **parameters: Any,
) -> np.ndarray[Any, Any]:
    """An array rounded."""
    into, out = ("InputTensor", "OutputTensor") if model == DIRECTML else ("X", "Y")
    result = ask(
        lambda client: client.infer(
            model,
            [kind.given(x, into)],
            version,
            outputs=[kind.wish(out)],
            parameters=parameters or None,
        )
    )
    assert kind.form == {} or "data" in result.get_response()["outputs"][0]
    y = result.as_numpy(out)
    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    return y


@pytest.mark.parametrize("dtype", [dtype.name for dtype in ROUNDABLE])
def test_every_dtype_to_the_bit(ask: Ask, kind: OverHttp, dtype: str) -> None:
    """But for what JSON cannot say of a NaN."""
    patterns = samples(dtype, random_count=1 << 12)
    own = {"dtype": dtype} if dtype in FP8 else {}
    x = patterns if own else patterns.view(BY_NAME[dtype].numpy)
    found = asked(ask, kind, x, rounding="toward_positive", **own).view(patterns.dtype)
    expected = rounded(patterns, dtype, "toward_positive")
    if kind.form and dtype not in (*FP8, *INTEGER_WIDTHS):
        found = np.where(is_nan(dtype, expected) & is_nan(dtype, found), expected, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 5), (1,) * 32], ids=str)
def test_every_shape(ask: Ask, kind: OverHttp, shape: tuple[int, ...]) -> None:
    x = np.resize(X, shape).astype("<f4")
    np.testing.assert_array_equal(asked(ask, kind, x), np.rint(x))


@pytest.mark.parametrize("count", [1, 1 << 14, 40_000])
@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_every_length_and_compression(
    ask: Ask, kind: OverHttp, count: int, algorithm: str | None
) -> None:
    x = np.random.default_rng(count).normal(scale=9, size=count).astype("<f4")
    wishes: dict[str, Any] = {"outputs": [kind.wish()], **kind.packed(algorithm)}
    result = ask(lambda client: client.infer("round", [kind.given(x)], **wishes))
    assert result.as_numpy("Y").tobytes() == np.rint(x).tobytes()


@pytest.mark.parametrize(
    ("model", "version", "parameters", "expected"),
    [
        ("openvino_round", "", {"mode": "half_away_from_zero"}, AWAY),
        (DIRECTML, "5_2", {"rounding_mode": 1}, ZERO),
    ],
)
def test_models(
    ask: Ask, kind: OverHttp, model: str, version: str, parameters: Any, expected: Any
) -> None:
    y = asked(ask, kind, X, model, version, **parameters)
    np.testing.assert_array_equal(y.view("<u4"), expected.view("<u4"))


def test_infer_without_outputs(ask: Ask, kind: OverHttp) -> None:
    options = {"request_id": "a/b c", "priority": 1, "timeout": 1000}
    result = ask(lambda client: client.infer("round", [kind.given(X)], **options))
    np.testing.assert_array_equal(result.as_numpy("Y"), EVEN)
    response = kind.plain(result.get_response())
    assert response["id"] == "a/b c"
    assert (response["model_name"], response["model_version"]) == ("round", "1")
    assert response["outputs"][0]["parameters"] == {}


def test_calls_at_the_same_time(kind: OverHttp, client: Any, service: Service) -> None:
    inputs = [[kind.given(X + n)] for n in range(50)]

    async def gathered() -> list[Any]:
        async with kind.asynchronous(f"127.0.0.1:{service.port}") as other:
            return await asyncio.gather(*(other.infer("round", each) for each in inputs))

    pending = [kind.later(client, "round", each) for each in inputs[:8]]
    for results in ([wait() for wait in pending], asyncio.run(gathered())):
        for n, result in enumerate(results):
            np.testing.assert_array_equal(result.as_numpy("Y"), np.rint(X + n))


def test_many_calls_without_a_pause(kind: OverHttp, client: Any) -> None:
    """A client may send further frames with each call, which bring nothing."""
    tensor = kind.given(X)
    for _ in range(1500):
        result = client.infer("round", [tensor])
    np.testing.assert_array_equal(result.as_numpy("Y"), EVEN)


@pytest.mark.parametrize(
    ("model", "x", "status", "says"),
    [
        ("torch_round", X, 404, 'no model "torch_round"'),
        ("round", np.array([b"a"], object), 400, 'got "BYTES"'),
        ("round", np.array([True]), 400, 'got "BOOL"'),
    ],
)
def test_errors_a_user_can_read(
    ask: Ask, kind: OverHttp, model: str, x: np.ndarray[Any, Any], status: int, says: str
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        asked(ask, kind, x, model)
    assert kind.status(caught.value) == status
    assert says in str(caught.value.message())


def test_health(ask: Ask) -> None:
    assert ask(lambda c: c.is_server_live())
    assert ask(lambda c: c.is_server_ready())
    assert ask(lambda c: c.is_model_ready("onnx_round", "11"))
    assert not ask(lambda c: c.is_model_ready("torch_round"))
    assert not ask(lambda c: c.is_model_ready("onnx_round", "12"))


def test_descriptions(ask: Ask, kind: OverHttp) -> None:
    def told(act: Act) -> Any:
        return kind.plain(ask(act))

    assert "statistics" in told(lambda c: c.get_server_metadata())["extensions"]
    assert told(lambda c: c.get_model_metadata("onnx_round"))["versions"] == ["11", "22"]
    assert told(lambda c: c.get_model_metadata(DIRECTML, "2_1"))["inputs"] == [
        {"name": "InputTensor", "datatype": "FP32", "shape": [-1, -1, -1, -1]}
    ]
    assert told(lambda c: c.get_model_config("openvino_round", "5"))["max_batch_size"] == 0
    index = told(lambda c: c.get_model_repository_index())
    assert {"name": "round", "version": "1", "state": "READY"} in index
    statistics = told(lambda c: c.get_inference_statistics())["model_stats"]
    assert len(index) == len(statistics) == len(MODELS)
    assert told(lambda c: c.get_log_settings())["log_verbose_level"] == 0
    for model in (None, "round"):
        settings = told(lambda c, m=model: c.get_trace_settings(m))
        assert settings["trace_level"] == ["OFF"]


def test_a_model_can_be_loaded(ask: Ask) -> None:
    ask(lambda c: c.load_model("round"))
    ask(lambda c: c.load_model("round", config='{"parameters": {}}'))


REFUSED: dict[str, tuple[Act, int, str]] = {
    "load": (lambda c: c.load_model("torch_round"), 404, "no model"),
    "unload": (lambda c: c.unload_model("round"), 400, "cannot be unloaded"),
    "logging": (lambda c: c.update_log_settings({"log_info": True}), 400, "fixed"),
    "trace": (lambda c: c.update_trace_settings("round", {"a": "1"}), 400, "no tracing"),
    "metadata": (lambda c: c.get_model_metadata("none"), 404, 'no model "none"'),
    "memory": (lambda c: c.register_system_shared_memory("r", "/k", 1), 501, "PREFIX"),
    "cuda": (lambda c: c.register_cuda_shared_memory("r", b"handle==", 0, 1), 501, "CUDA"),
}


@pytest.mark.parametrize(("act", "status", "says"), REFUSED.values(), ids=REFUSED)
def test_errors(ask: Ask, kind: OverHttp, act: Act, status: int, says: str) -> None:
    with pytest.raises(InferenceServerException, match=says) as caught:
        ask(act)
    assert kind.status(caught.value) == status


def placed(kind: OverHttp, count: int, region: str, to: str, offset: int = 0) -> dict[str, Any]:
    """The arguments of an inference of floats from one region to another."""
    tensor, wish = kind.tensor("X", [count], "FP32"), kind.wish()
    tensor.set_shared_memory(region, 4 * count)
    wish.set_shared_memory(to, 4 * count, offset)
    return {"inputs": [tensor], "outputs": [wish]}


def test_system_shared_memory(kind: OverHttp) -> None:
    x = np.linspace(-5, 5, 1000, dtype="<f4")
    key = "/" + PREFIX + "tritonclient"
    handle = client_memory.create_shared_memory_region("in", key, 2 * x.nbytes)
    options = ("--workers", "2", "--shared-memory-prefix", PREFIX)
    try:
        client_memory.set_shared_memory_region(handle, [x])
        with Service(*options) as service, kind.blocking(f"127.0.0.1:{service.port}") as client:
            client.register_system_shared_memory("in", key, x.nbytes)
            client.register_system_shared_memory("out", key, x.nbytes, offset=x.nbytes)
            with pytest.raises(InferenceServerException, match="already"):
                client.register_system_shared_memory("in", key, x.nbytes)
            for _ in range(TRIES):
                result = client.infer("round", **placed(kind, x.size, "in", "out"))
            (output,) = kind.plain(result.get_response())["outputs"]
            assert output["parameters"]["shared_memory_region"] == "out"
            y = client_memory.get_contents_as_numpy(handle, np.float32, [x.size], x.nbytes)
            np.testing.assert_array_equal(y, np.rint(x))
            told = kind.plain(client.get_system_shared_memory_status())
            assert {region["name"] for region in told} == {"in", "out"}
            (region,) = kind.plain(client.get_system_shared_memory_status("in"))
            assert region["key"] == key
            client.unregister_system_shared_memory("in")
            client.unregister_system_shared_memory()
            assert kind.plain(client.get_system_shared_memory_status()) == []
            del y
    finally:
        client_memory.destroy_shared_memory_region(handle)


#: A model, its parameters, and the types and sizes of its inputs.
Linear = tuple[str, dict[str, Any], list[tuple[str, tuple[int, ...]]]]
#: Those without a name in the protocol travel as UINT8; the parameter dtype names them.
LINEAR: dict[str, Linear] = {
    "per axis": (
        "onnx_quantize_linear", {"axis": 0, "saturate": True},
        [("float32", (3, 50)), ("float32", (3,)), ("int8", (3,))],
    ),
    "blocks of 4 bits": (
        "onnx_quantize_linear", {"block_size": 25, "dtype": "int4"},
        [("float16", (3, 50)), ("float16", (3, 2)), ("int4", (3, 2))],
    ),
    "floats of 8 bits": (
        "onnx_dequantize_linear", {"to": "float32", "dtype": "float8_e4m3fn"},
        [("float8_e4m3fn", (3, 50)), ("bfloat16", ())],
    ),
    "columns": (
        "directml_element_wise_quantize_linear", {},
        [("int32", (3, 50)), ("float32", (1, 50)), ("uint8", (1, 50))],
    ),
    "tiles": (
        "webnn_dequantize_linear", {},
        [("int32", (4, 50)), ("float16", (2, 10)), ("int32", (2, 10))],
    ),
}  # fmt: skip


def prepared(case: Linear) -> tuple[dict[str, np.ndarray[Any, Any]], bytes]:
    """The inputs by their names, as messages have them, and the reference's result."""
    name, parameters, tensors = case
    model = find(name)
    call = operator_for(model, parameters).prepare(*tensors[0], *tensors[1:]).call.without_gaps
    operands = operands_of(call, 47)
    given: dict[str, np.ndarray[Any, Any]] = {}
    parts = (operands.x, operands.scale, operands.zero_point)
    for into, bits, (dtype, shape) in zip(model.inputs, parts, tensors, strict=False):
        assert bits is not None
        row = BY_NAME[dtype]
        given[into] = bits.view(row.numpy).reshape(shape)
        if row.oip is None:
            carried = np.frombuffer(on_wire(given[into]), np.uint8)
            given[into] = carried.reshape(carried_shape(Layout.of(row, shape)))
    return given, on_wire(right(call, operands).view(call.output.dtype.numpy))


@pytest.mark.parametrize("case", LINEAR.values(), ids=LINEAR)
def test_quantization_to_the_bit(ask: Ask, kind: OverHttp, case: Linear) -> None:
    model, parameters, _ = case
    given, want = prepared(case)
    inputs = [kind.given(x, name) for name, x in given.items()]
    out = find(model).output
    options = {"outputs": [kind.wish(out)], "parameters": parameters or None}
    result = ask(lambda client: client.infer(model, inputs, **options))
    assert result.as_numpy(out).tobytes() == want


def test_quantization_with_a_region_for_each_tensor(kind: OverHttp) -> None:
    options = ("--shared-memory-prefix", PREFIX)
    with (
        Service(*options) as service,
        kind.blocking(f"127.0.0.1:{service.port}") as client,
        contextlib.ExitStack() as regions,
    ):

        def region(name: str, nbytes: int) -> Any:
            key = f"/{PREFIX}{name}"
            handle = client_memory.create_shared_memory_region(name, key, nbytes)
            regions.callback(client_memory.destroy_shared_memory_region, handle)
            client.register_system_shared_memory(name, key, nbytes)
            return handle

        for label, case in LINEAR.items():
            model, parameters, _ = case
            given, want = prepared(case)
            inputs = []
            for name, x in given.items():
                handle = region(f"{label} {name}", x.nbytes)
                client_memory.set_shared_memory_region(handle, [x.reshape(-1)])
                tensor = kind.tensor(name, list(x.shape), np_to_triton_dtype(x.dtype))
                tensor.set_shared_memory(f"{label} {name}", x.nbytes)
                inputs.append(tensor)
            results, wish = region(label, len(want)), kind.wish(find(model).output)
            wish.set_shared_memory(label, len(want))
            client.infer(model, inputs, outputs=[wish], parameters=parameters or None)
            found = client_memory.get_contents_as_numpy(results, np.uint8, [len(want)])
            assert found.tobytes() == want, label
            del found


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_cuda_shared_memory(kind: OverHttp) -> None:
    """Its helper for allocations needs a device; what goes over the wire does not."""
    options = ("--backend", "auto", "--cuda-shared-memory", "true")
    with (
        segment(4096) as owned,
        DeviceService(*options) as service,
        kind.blocking(f"127.0.0.1:{service.port}") as client,
    ):
        raw = base64.b64encode(owned.key.encode().ljust(64, b"\0"))
        client.register_cuda_shared_memory("t", raw, 0, 4096)
        assert kind.plain(client.get_cuda_shared_memory_status()) == [
            {"name": "t", "device_id": 0, "byte_size": 4096}
        ]
        owned.memory[:40] = X.view(np.uint8)
        client.infer("round", **placed(kind, 10, "t", "t", 128))
        assert owned.memory[128:168].tobytes() == EVEN.tobytes()
        client.unregister_cuda_shared_memory("t")
        assert kind.plain(client.get_cuda_shared_memory_status()) == []
