"""``litert[:builtin]``: LiteRT's (TensorFlow Lite's) ROUND, CEIL, FLOOR, CAST and QUANTIZE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ai_edge_litert
import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast, Linear
from ..conversions.patterns import Trial
from .forms import Form
from .runtime import NotSupported, PlainCasts, QuantizeBits, version

#: The builtin operator of each direction.
OPERATORS = {"ties_to_even": "ROUND", "toward_positive": "CEIL", "toward_negative": "FLOOR"}
#: The types that it quantizes to.
CODES = ("int8", "uint8", "int16")
#: The argument for LiteRT's own kernels, in place of the XNNPACK delegate that it uses by default.
BUILTIN = "builtin"


class LiteRT(PlainCasts):
    """LiteRT's interpreter on the CPU, by models of one operator."""

    dtypes = ("float32",)
    operators = OPERATORS
    # An interpreter copies its input.
    forms = Form.LENGTH | Form.RANK
    # An interpreter belongs to one thread.
    concurrent = False
    linear_operators = ("quantize_linear", "dequantize_linear")

    def __init__(self, kernels: str, _: float) -> None:
        if kernels not in ("", BUILTIN):
            raise CannotVerify(f"litert has no kernels {kernels}; it has {BUILTIN}, or XNNPACK's")
        self._builtin = kernels == BUILTIN
        kind = "builtin kernels" if self._builtin else "XNNPACK"
        self.name = f"litert {version(ai_edge_litert)}, {kind}"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Any], Any]:
        return self._running(_model(self._operator(dtype, rounding), dtype, dtype))

    def _casts(self, how: Cast) -> Callable[[Any], Any]:
        return self._running(_model("CAST", how.source, how.target))

    def _linear(self, how: Linear) -> QuantizeBits:
        """A model of one operator, whose scales and zero points are the codes' type."""
        operator = how.operator.removesuffix("_linear").upper()
        if (
            how.mixed
            or how.scale_type != "float32"
            or how.codes not in CODES
            or "int32" in how.named
        ):
            raise NotSupported(f"it has no {operator} from {how.named}")
        if how.blocked:
            raise NotSupported("it has no blocks here")

        def convert(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            by = scale.reshape(-1).tolist(), point.reshape(-1).tolist()
            axis = trial.axis % max(1, x.ndim)
            return self._running(_model(operator, how.source, how.target, by, axis, x.shape))(x)

        return self._by_trials(convert, how)

    def _running(self, model: bytes) -> Callable[[Any], Any]:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(
            model_content=model,
            experimental_op_resolver_type=resolver if self._builtin else OpResolverType.AUTO,
        )

        def run(x: Any) -> Any:
            interpreter.resize_tensor_input(0, list(x.shape))
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, x)
            interpreter.invoke()
            return interpreter.get_tensor(1)

        return run


def _model(
    operator: str,
    source: str,
    target: str,
    by: tuple[list[float], list[int]] | None = None,
    axis: int = 0,
    shape: tuple[int, ...] = (1,),
) -> bytes:
    """A flatbuffer: one operator from tensor 0 to tensor 1.

    ``by`` are the scales and zero points of the codes, along an axis if they are several; else
    tensors may have any shape.
    """

    def tensor(name: str, dtype: str) -> Any:  # a class of the generated schema
        made = schema.TensorT()
        kind = getattr(schema.TensorType, dtype.upper(), None)
        if kind is None:
            raise NotSupported(f"it has no type {dtype}")
        made.name, made.type, made.buffer = name, kind, 0
        made.shape, made.shapeSignature = [1], [-1]
        return made

    x, y = tensor("x", source), tensor("y", target)
    if by is not None:
        codes = x if operator == "DEQUANTIZE" else y
        codes.quantization = schema.QuantizationParametersT()
        codes.quantization.scale, codes.quantization.zeroPoint = by
        codes.quantization.quantizedDimension = axis
        if len(by[0]) > 1:
            x.shape = y.shape = x.shapeSignature = y.shapeSignature = list(shape)
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, operator)
    # For older readers, whose field holds at most 127.
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    node = schema.OperatorT()
    node.inputs, node.outputs = [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = [x, y], [node]
    graph.inputs, graph.outputs = [0], [1]
    model = schema.ModelT()
    model.version, model.buffers = 3, [schema.BufferT()]
    model.operatorCodes, model.subgraphs = [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
