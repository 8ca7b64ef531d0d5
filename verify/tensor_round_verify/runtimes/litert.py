"""``litert[:builtin]``: LiteRT's (TensorFlow Lite's) ROUND, CEIL and FLOOR, on float32 only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensor_round.contract.errors import CannotVerify

from .forms import Form
from .runtime import Adapter, version

#: The builtin operator of each direction.
OPERATORS = {"ties_to_even": "ROUND", "toward_positive": "CEIL", "toward_negative": "FLOOR"}
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
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(
            model_content=_model(self._operator(dtype, rounding)),
            experimental_op_resolver_type=resolver if self._builtin else OpResolverType.AUTO,
        )

        def run(x: Any) -> Any:
            interpreter.resize_tensor_input(0, list(x.shape))
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, x)
            interpreter.invoke()
            return interpreter.get_tensor(1)

        return run


def _model(operator: str) -> bytes:
    """A flatbuffer: one operator from tensor 0 to tensor 1, of one dimension of any size."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str) -> Any:  # a class of the generated schema
        made = schema.TensorT()
        made.name, made.type, made.buffer = name, schema.TensorType.FLOAT32, 0
        made.shape, made.shapeSignature = [1], [-1]
        return made

    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, operator)
    # For older readers, whose field holds at most 127.
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    node = schema.OperatorT()
    node.inputs, node.outputs = [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = [tensor("x"), tensor("y")], [node]
    graph.inputs, graph.outputs = [0], [1]
    model = schema.ModelT()
    model.version, model.buffers = 3, [schema.BufferT()]
    model.operatorCodes, model.subgraphs = [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
