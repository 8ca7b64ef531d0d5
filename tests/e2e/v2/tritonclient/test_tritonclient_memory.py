"""tritonclient's calls for shared memory, with its own helpers where they need no device."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as client_memory
from tritonclient.utils import InferenceServerException

from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import EVEN, X
from support.segments import PREFIX, segment
from support.services.server import Service
from support.services.variants import DeviceService
from support.v2.regions import TRIES
from support.v2.tritonclients import OverHttp

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")


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
