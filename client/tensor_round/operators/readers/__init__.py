"""Operators read from where other programs write them down, with the tensors stated there."""

from .dxdispatch import from_dxdispatch
from .onnx_node import from_onnx
from .openvino_layer import from_openvino

__all__ = ["from_dxdispatch", "from_onnx", "from_openvino"]
