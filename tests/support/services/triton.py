"""Triton, as ``make test-interop`` sets it up, with models of NumPy's rint."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
from http.client import HTTPException
from pathlib import Path

from support.services.fronts import free_port
from support.services.server import Service

HOME = Path(os.environ["TRITON_HOME"])
DTYPES = {
    "FP16": "float16", "FP32": "float32", "FP64": "float64", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32",
    "UINT64": "uint64",
}  # fmt: skip
MODEL = """\
import os, sys
sys.path.insert(0, os.environ["TRITON_SITE_PACKAGES"])
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        inputs = [triton.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        rounded = [np.rint(x) if x.dtype.kind == "f" else x for x in inputs]
        return [triton.InferenceResponse([triton.Tensor("Y", y)]) for y in rounded]
"""
CONFIG = """\
backend: "python"
max_batch_size: 0
input [{{ name: "X" data_type: TYPE_{0} dims: [ {1} ] }}]
output [{{ name: "Y" data_type: TYPE_{0} dims: [ {1} ] }}]
instance_group [{{ kind: KIND_CPU }}]
"""


class Triton(Service):
    """tritonserver with a model of NumPy's rint for each datatype, and one of two dimensions."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        models = folder / "models"
        shapes = {"round": ("FP32", "-1"), "round_2d": ("FP32", "-1, -1")}
        shapes |= {f"round_{datatype}": (datatype, "-1") for datatype in DTYPES}
        for name, shape in shapes.items():
            (models / name / "1").mkdir(parents=True)
            (models / name / "config.pbtxt").write_text(CONFIG.format(*shape))
            (models / name / "1" / "model.py").write_text(MODEL)
        packages = next(HOME.glob("lib/python3*/site-packages")).absolute()
        self.port = free_port()
        libraries = (packages / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR"))
        self.output = folder / "log"
        with self.output.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    packages / "pytriton/tritonserver/bin/tritonserver",
                    f"--model-repository={models}",
                    f"--backend-directory={HOME / 'backends'}",
                    f"--http-port={self.port}",
                    *("--allow-grpc=false", "--allow-metrics=false"),
                ],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
                    "TRITON_SITE_PACKAGES": str(packages),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
            )

    def wait(self) -> None:
        """Until it is ready."""
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.request("GET", "/v2/health/ready").status == 200:
                    return
            except (OSError, HTTPException):
                pass
            time.sleep(0.2)
        raise AssertionError(self.output.read_text())


#: The two that get the same requests.
Both = tuple[Triton, Service]
