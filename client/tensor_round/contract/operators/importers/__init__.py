"""Importers of operators from other programs' formats, with the tensors that these state."""

from .dxdispatch import from_dxdispatch
from .onnx_node import from_onnx
from .openvino_layer import from_openvino

__all__ = ["from_dxdispatch", "from_onnx", "from_openvino"]
