"""A Triton model, for its Python backend, that rounds with NumPy as this service does."""

from __future__ import annotations

import os
import sys
from typing import Any

# The backend takes no notice of PYTHONPATH, and with NumPy 2 it answers nothing, with 200.
sys.path.insert(0, os.environ["TRITON_SITE_PACKAGES"])

import numpy as np
import triton_python_backend_utils as triton  # Triton puts it there


class TritonPythonModel:
    def execute(self, requests: list[Any]) -> list[Any]:
        tensors = (triton.get_input_tensor_by_name(request, "X").as_numpy() for request in requests)
        return [
            triton.InferenceResponse([triton.Tensor("Y", np.rint(tensor))]) for tensor in tensors
        ]
