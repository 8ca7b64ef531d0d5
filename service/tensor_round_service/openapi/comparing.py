"""``POST /compare`` in the OpenAPI document."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor_round.contract.differences.document import adapter
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.layout import Layout
from tensor_round.contract.wire import native

from ..engine.differences import compared
from .errors import SCHEMAS_PATH, problem_responses
from .rounding import BINARY, CODES, HEADERS, PARAMETERS, REQUEST

_OPERATOR_IN_QUERY = ("operator", "rounding")
_RESPONSE_HEADERS = (
    native.EXECUTION_BACKEND,
    native.SERVER_TIMING,
    native.REQUEST_ID,
    native.CONTENT_DIGEST,
)


def schemas() -> dict[str, Any]:
    """The components for the operation: the response, as the client's models define it."""
    found = adapter().json_schema(mode="serialization", ref_template=SCHEMAS_PATH + "{model}")
    return {**found.pop("$defs"), "Differences": found}


def operation() -> dict[str, Any]:
    """The OpenAPI operation of ``POST /compare``."""
    data = np.array(REQUEST["data"], np.float32)
    example = compared(data.view(np.uint8), Layout.of(BY_NAME["float32"], data.shape))
    return {
        "tags": ["round"],
        "operationId": "compare",
        "summary": "Compare roundings on a tensor",
        "description": (
            "For each pair of roundings: the number of elements whose results differ, by class, "
            "and the first three of each class. The request has the representations of `/round`. "
            "Of a descriptor, only the layout of the input is used, which must be dense. The "
            "response is always JSON."
        ),
        "parameters": [p for p in PARAMETERS if p["name"] not in _OPERATOR_IN_QUERY],
        "requestBody": {
            "required": True,
            "content": {
                native.JSON: {
                    "schema": {"$ref": SCHEMAS_PATH + "RoundRequest"},
                    "example": REQUEST,
                },
                native.OCTET_STREAM: BINARY,
                native.NPY: BINARY,
            },
        },
        "responses": {
            "200": {
                "description": "The differences.",
                "headers": {name: HEADERS[name] for name in _RESPONSE_HEADERS},
                "content": {
                    native.JSON: {
                        "schema": {"$ref": SCHEMAS_PATH + "Differences"},
                        "example": example,
                    }
                },
            },
            **problem_responses(CODES),
        },
    }
