"""``litert[:builtin]``: LiteRT's (TensorFlow Lite's) ROUND, CEIL, FLOOR, CAST and QUANTIZE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.operators.operator import name_in

from ..conversions.conversion import Cast, Quantization
from ..conversions.patterns import Trial
from .forms import Form
from .runtime import Adapter, NotSupported, QuantizeBits, RoundBits, plain, version

#: The builtin operator of each direction.
OPERATORS = {"ties_to_even": "ROUND", "toward_positive": "CEIL", "toward_negative": "FLOOR"}
#: The names of its types that are verified.
TYPES = {
    **{name.upper(): name for name in ("float16", "bfloat16", "float32", "float64")},
    **{name.upper(): name for name in ("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16")},
}
#: The argument for LiteRT's own kernels, in place of the XNNPACK delegate that it uses by default.
BUILTIN = "builtin"


class LiteRT(Adapter):
    """LiteRT's interpreter on the CPU, by models of one operator."""

    dtypes = ("float32",)
    operators = OPERATORS
    roundings = tuple(OPERATORS)
    # An interpreter copies its input.
    forms = Form.LENGTH | Form.RANK
    # An interpreter belongs to one thread.
    concurrent = False

    def __init__(self, kernels: str, _: float) -> None:
        import ai_edge_litert

        if kernels not in ("", BUILTIN):
            raise CannotVerify(f"litert has no kernels {kernels}; it has {BUILTIN}, or XNNPACK's")
        self._builtin = kernels == BUILTIN
        kind = "builtin kernels" if self._builtin else "XNNPACK"
        self.name = f"litert {version(ai_edge_litert)}, {kind}"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Any], Any]:
        return self._running(_model(self._operator(dtype, rounding), dtype, dtype))

    def cast(self, how: Cast) -> RoundBits:
        """Cast by a model of CAST."""
        plain(how)
        return self._casting(self._running(_model("CAST", how.source, how.target)), how)

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Quantize by a model of QUANTIZE, whose scales and zero points are its result's type."""
        if how.source != "float32" or how.target == "uint16":
            raise NotSupported(f"it does not quantize {how.source} to {how.target}")

        def quantize(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            by = (scale.reshape(-1).tolist(), point.reshape(-1).tolist())
            return self._running(_model("QUANTIZE", how.source, how.target, by))(x)

        return self._by_trials(quantize, how)

    def _running(self, model: bytes) -> Callable[[Any], Any]:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

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
    operator: str, source: str, target: str, by: tuple[list[float], list[int]] | None = None
) -> bytes:
    """A flatbuffer: one operator from tensor 0 to tensor 1, of one dimension of any size.

    ``by`` are the scales and zero points of the result, of its first dimension if they are several.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str, dtype: str) -> Any:  # a class of the generated schema
        made = schema.TensorT()
        kind = name_in(TYPES, dtype)
        made.name, made.type, made.buffer = name, getattr(schema.TensorType, kind), 0
        made.shape, made.shapeSignature = [1], [-1]
        return made

    x, y = tensor("x", source), tensor("y", target)
    if by is not None:
        y.quantization = schema.QuantizationParametersT()
        y.quantization.scale, y.quantization.zeroPoint = by
        y.quantization.quantizedDimension = 0
        # Several scales need a dimension that is known.
        x.shape, y.shape = ([len(by[0]), 1],) * 2 if len(by[0]) > 1 else ([1], [1])
        x.shapeSignature = y.shapeSignature = [len(by[0]), -1] if len(by[0]) > 1 else [-1]
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
