"""A good inference, and variations of it to be refused."""

from __future__ import annotations

from typing import Any

from support.http.inference_form import (
    X,
    binary,
    document,
    tensor,
)

PAYLOAD = X.tobytes()
GOOD = document(binary("FP32", [10], 40), parameters={"binary_data_output": True})
INLINE = tensor("FP32", [2], data=[0.5, 1.5])
DIRECTML = "directml_element_wise_round"


def of(**members: Any) -> dict[str, Any]:
    return document({**INLINE, **members})
