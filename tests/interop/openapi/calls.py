"""What a user of the generated Python client writes: type-checked strictly, then run.

python calls.py URL KEY
"""

from __future__ import annotations

import json
import struct
import sys
from io import BytesIO

from rounding import models as m
from rounding.api.open_inference_protocol import (
    infer,
    model_metadata,
    server_metadata,
    system_regions,
)
from rounding.api.round_ import round_
from rounding.api.service import list_operators, service_info, show_conformance
from rounding.client import AuthenticatedClient, Client
from rounding.types import File

VALUES = [0.5, 1.5, -0.3, 2.5]
EVEN = [0.0, 2.0, -0.0, 2.0]
AWAY = [1.0, 2.0, -0.0, 3.0]
UP = [1.0, 2.0, -0.0, 3.0]
DOWN = [0.0, 1.0, -1.0, 2.0]

Descriptor = (
    m.IEEE754Descriptor
    | m.OnnxDescriptor
    | m.OpenVINODescriptor
    | m.OpenVINOFloorDescriptor
    | m.DirectMLDescriptor
    | m.DirectMLFloorDescriptor
)


def ieee754(rounding: m.IEEE754DescriptorRounding) -> m.IEEE754Descriptor:
    tensor = m.IEEE754Tensor(dtype=m.IEEE754TensorDtype.FLOAT32, shape=[4])
    return m.IEEE754Descriptor(dialect="ieee754", rounding=rounding, input_=tensor)


def directml() -> m.DirectMLDescriptor:
    tensor = m.BufferTensorDesc(data_type=m.BufferTensorDescDataTypeType0.FLOAT32, sizes=[4])
    return m.DirectMLDescriptor(
        dialect="directml",
        feature_level=m.DirectMLDescriptorFeatureLevelType0.VALUE_1,
        type_=m.DirectMLDescriptorTypeType0.ELEMENT_WISE_ROUND,
        desc=m.ElementWiseRoundDesc(
            input_tensor=tensor,
            output_tensor=tensor,
            rounding_mode=m.ElementWiseRoundDescRoundingModeType0.TOWARD_INFINITY,
        ),
    )


def directml_floor() -> m.DirectMLFloorDescriptor:
    tensor = m.BufferTensorDesc(data_type=m.BufferTensorDescDataTypeType0.FLOAT32, sizes=[4])
    return m.DirectMLFloorDescriptor(
        dialect="directml",
        feature_level=m.DirectMLFloorDescriptorFeatureLevelType0.VALUE_3,
        type_=m.DirectMLFloorDescriptorTypeType0.ELEMENT_WISE_FLOOR,
        desc=m.ElementWiseFloorDesc(input_tensor=tensor, output_tensor=tensor, scale_bias=None),
    )


def cast() -> m.OnnxCastDescriptor:
    return m.OnnxCastDescriptor(
        dialect="onnx",
        op_type="Cast",
        opset_version=24,
        to=m.OnnxCastDescriptorToType0.DOUBLE,
        input_=m.OnnxCastTensor(elem_type=m.OnnxCastTensorElemType.FLOAT, shape=[4]),
    )


def descriptors() -> list[tuple[Descriptor, list[float]]]:
    """One of each dialect, and what it makes of the values."""
    onnx = m.OnnxDescriptor(
        dialect="onnx",
        op_type=m.OnnxDescriptorOpType.ROUND,
        opset_version=22,
        input_=m.OnnxTensor(elem_type=m.OnnxTensorElemType.FLOAT, shape=[4]),
    )
    openvino = m.OpenVINODescriptor(
        dialect="openvino",
        type_="Round",
        version="opset5",
        data=m.OpenVINOData(mode=m.OpenVINODataMode.HALF_AWAY_FROM_ZERO),
        input_=m.OpenVINOTensor(element_type=m.OpenVINOTensorElementType.F32, shape=[4]),
    )
    ceiling = m.OpenVINOFloorDescriptor(
        dialect="openvino",
        type_=m.OpenVINOFloorDescriptorType.CEILING,
        version="opset1",
        input_=m.OpenVINOTensor(element_type=m.OpenVINOTensorElementType.F32, shape=[4]),
    )
    return [
        (ieee754(m.IEEE754DescriptorRounding.TIES_TO_EVEN), EVEN),
        (ieee754(m.IEEE754DescriptorRounding.TIES_TO_AWAY), AWAY),
        (onnx, EVEN),
        (openvino, AWAY),
        (directml(), AWAY),
        (ceiling, UP),
        (directml_floor(), DOWN),
    ]


def packed(values: list[float]) -> bytes:
    """Their bytes: the signs of zeros count."""
    return struct.pack("<4f", *values)


def round_octets(client: AuthenticatedClient) -> None:
    for descriptor, expected in descriptors():
        rounded = round_.sync(
            client=client,
            body=File(payload=BytesIO(packed(VALUES))),
            operator_descriptor=json.dumps(descriptor.to_dict()),
        )
        assert isinstance(rounded, File), rounded
        assert rounded.payload.read() == packed(expected)


def round_json(client: AuthenticatedClient) -> None:
    for descriptor, expected in descriptors():
        body = m.RoundRequest(descriptor=descriptor, data=[*VALUES])
        rounded = round_.sync(client=client, body=body)
        assert isinstance(rounded, File), rounded
        response = m.RoundResponse.from_dict(json.load(rounded.payload))
        assert response.output.shape == [4]
        assert isinstance(response.data, list)
        numbers = [value for value in response.data if isinstance(value, float)]
        assert packed(numbers) == packed(expected)


def cast_json(client: AuthenticatedClient) -> None:
    body = m.RoundRequest(descriptor=cast(), data=[*VALUES])
    converted = round_.sync(client=client, body=body)
    assert isinstance(converted, File), converted
    response = json.load(converted.payload)
    assert response["output"] == {"dtype": "float64", "shape": [4]}
    assert struct.pack("<4f", *response["data"]) == packed(VALUES)


def be_refused(client: AuthenticatedClient, url: str) -> None:
    descriptor = ieee754(m.IEEE754DescriptorRounding.TIES_TO_EVEN)
    short = m.RoundRequest(descriptor=descriptor, data=[0.5])
    problem = round_.sync(client=client, body=short)
    assert isinstance(problem, m.Problem)
    assert problem.code is m.ProblemCode.PAYLOAD_SIZE_MISMATCH
    nobody = round_.sync(client=Client(base_url=url), body=short)
    assert isinstance(nobody, m.Problem)
    assert nobody.code is m.ProblemCode.UNAUTHORIZED


def infer_json(client: AuthenticatedClient) -> None:
    tensor = m.InferenceInput(name="X", datatype="FP32", shape=[4], data=[*VALUES])
    response = infer.sync(
        m.ModelName.OPENVINO_ROUND, client=client, body=m.InferenceRequest(inputs=[tensor])
    )
    assert isinstance(response, m.InferenceResponse), response
    (output,) = response.outputs
    assert output.data == EVEN


def read_documents(client: AuthenticatedClient, url: str) -> None:
    root = service_info.sync(client=Client(base_url=url))
    assert isinstance(root, m.ServiceInfo)
    operators = list_operators.sync(client=client)
    assert isinstance(operators, m.Operators)
    assert operators.dialects["onnx"].operator == "Round"
    assert operators.limits.max_tensor_bytes == 1 << 30
    conformance = show_conformance.sync(client=client)
    assert isinstance(conformance, m.Conformance)
    assert conformance.conforms
    metadata = model_metadata.sync(m.ModelName.ONNX_ROUND, client=client)
    assert isinstance(metadata, m.ModelMetadata)
    assert metadata.versions == ["11", "22"]
    server = server_metadata.sync(client=client)
    assert isinstance(server, m.ServerMetadata)
    assert "system_shared_memory" in server.extensions
    assert system_regions.sync(client=client) == []


def main() -> None:
    url, key = sys.argv[1:]
    client = AuthenticatedClient(base_url=url, token=key)
    round_octets(client)
    round_json(client)
    cast_json(client)
    be_refused(client, url)
    infer_json(client)
    read_documents(client, url)


if __name__ == "__main__":
    main()
