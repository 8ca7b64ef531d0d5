"""Memory of a device: tensors stay in it, and parameters beside them are counted once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import tensor
from support.segments import segment
from tensor_round.contract.dtypes import BY_OIP
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.engine.job import Job
from tensor_round_service.oip import infer_json
from tensor_round_service.oip.cuda_memory import HANDLE_BYTES, CudaSharedMemory
from tensor_round_service.oip.executor import InferenceExecutor
from tensor_round_service.oip.models import find
from tensor_round_service.oip.plan import plan
from tensor_round_service.oip.regions import Registry

SIZE = 4096


class WatchedDevice(CupyBackend):
    """A device that is this CPU, which remembers what is allocated on the host."""

    def __init__(self) -> None:
        super().__init__([HostDevice()], NumpyBackend(threads=1))
        self.allocated: list[int] = []

    def allocate(self, nbytes: int) -> Bytes:
        self.allocated.append(nbytes)
        return super().allocate(nbytes)


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
@pytest.mark.parametrize(
    ("datatype", "by"), [("FP32", "cupy"), ("INT32", "numpy")], ids=["kernel", "none"]
)
def test_parameters_beside_tensors_on_a_device_are_counted_once(datatype: str, by: str) -> None:
    x, scale = (np.array(values, BY_OIP[datatype].numpy) for values in ([2, 6], [2, 3]))
    header = {
        "inputs": [
            tensor(datatype, [2], "x", parameters=at(0, 8)),
            tensor(datatype, [2], "y_scale", data=scale.tolist()),
        ],
        "outputs": [{"name": "y", "parameters": at(8, 2)}],
        "parameters": {"to": "int8", "axis": 0},
    }
    backend = WatchedDevice()
    engine = Engine(backend)
    memory = CudaSharedMemory(engine, Registry())
    work = InferenceExecutor(engine, "", memory)
    request = infer_json.read_request(json.dumps(header).encode())
    planned = plan(find("onnx_quantize_linear"), request)
    job = Job(engine.memory)
    with segment(SIZE) as region:
        region.memory[:8] = x.view(np.uint8)
        memory.register("r", region.key.encode().ljust(HANDLE_BYTES, b"\0"), 0, SIZE)
        work.run(planned, None, job)
        job.end(reusable=True)
        engine.close()
        codes = region.memory[8:10].tolist()
    assert (codes, job.executed_by) == ([1, 2], by)
    assert work.buffer_bytes(planned) == planned.call.nbytes
    assert sum(backend.allocated) <= planned.call.nbytes


def at(offset: int, nbytes: int) -> dict[str, Any]:
    return {
        "shared_memory_region": "r",
        "shared_memory_byte_size": nbytes,
        "shared_memory_offset": offset,
    }
