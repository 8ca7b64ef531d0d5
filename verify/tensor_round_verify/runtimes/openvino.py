"""``openvino[:DEVICE]``: OpenVINO's Round-5, compiled for a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.operators.dialects import openvino as dialect
from tensor_round.contract.operators.operator import name_in

from ..conversions.conversion import Cast, FakeQuantization, Linear
from ..conversions.patterns import Trial
from ..conversions.reference import ends
from ..reference import INTEGER_WIDTHS, WIDTHS
from .forms import Form, Values
from .model_tensors import Array, Tensor, for_openvino, infer, of_openvino
from .runtime import (
    NotLoaded,
    NotSupported,
    PlainCasts,
    QuantizeBits,
    RunsModel,
    RunsOnnx,
    by_rank,
    version,
)

MODES = {rounding.value: mode for mode, rounding in dialect.MODES.items()}


class OpenVINO(PlainCasts, RunsOnnx):
    """OpenVINO on one device: operators with the execution mode ACCURACY, models by defaults."""

    dtypes = tuple(WIDTHS)
    operators = MODES
    forms = Form.LENGTH | Form.EMPTY | Form.RANK
    linear_operators = ("quantize_linear", "dequantize_linear", "fake_quantize")
    # An infer request belongs to one thread.
    concurrent = False
    strict_options = "EXECUTION_MODE_HINT ACCURACY"

    def __init__(self, device: str, _: float) -> None:
        import openvino

        self._core = openvino.Core()
        self._device = device or "CPU"
        available = self._core.available_devices
        if self._device.partition(".")[0] not in {name.partition(".")[0] for name in available}:
            raise CannotVerify(
                f"openvino has no device {self._device} here; it has {', '.join(available)}"
            )
        # The version is followed by the build and the branch.
        self.name = f"openvino {version(openvino).partition('-')[0]}, {self._device}"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], object]:
        mode = self._operator(dtype, rounding)
        return self._compiled(dtype, dtype, lambda ops, x: ops.round(x, mode))

    def _casts(self, how: Cast) -> Callable[[Values], object]:
        target = name_in(dialect.DTYPES, how.target)
        return self._compiled(how.source, how.target, lambda ops, x: ops.convert(x, target))

    def _linear(self, how: Linear) -> QuantizeBits:
        """By ONNX's operators, as OpenVINO's reader converts them."""
        if isinstance(how, FakeQuantization):
            return self._faking(how)
        try:
            from .onnx_model import linear_model, with_constants
        except ImportError as error:
            raise NotSupported(f"its reader needs the package onnx: {error}") from error

        self.slow = True  # each tensor is a model to compile

        def call(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            model = linear_model(how, (x.ndim, scale.ndim), how.options(trial))
            # As in most models: of constants and known shapes the reader makes FakeQuantize.
            held = {"scale": Tensor.of(scale), "zero_point": Tensor.of(point)}
            model = with_constants(model, held, x.shape)
            try:
                return self.run_onnx(model, {"x": x}, ["y"], strict=True)["y"].array()
            except NotLoaded as error:
                raise NotSupported(error.reason) from error

        return self._by_trials(call, how)

    def _faking(self, how: FakeQuantization) -> QuantizeBits:
        """By FakeQuantize-1, between the numbers of the least and the largest code."""
        if how.codes not in INTEGER_WIDTHS or how.blocked or how.mixed or how.source == "int32":
            raise NotSupported(f"it does not quantize through {how.codes} in this way")
        import openvino

        self.slow = True
        least, most = ends(how.codes)

        def call(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            sizes = [1] * x.ndim
            if how.per_axis:
                sizes[trial.axis] = scale.size
            lows, highs = (
                ((end - point.astype(np.int64)) * scale.astype(np.float64)).astype(x.dtype)
                for end in (least, most)
            )
            low, high = (
                openvino.op.Constant(for_openvino(each.reshape(sizes))) for each in (lows, highs)
            )

            def make(ops: Any, parameter: Any) -> Any:
                return ops.fake_quantize(parameter, low, high, low, high, most - least + 1)

            operand = for_openvino(x)
            form = operand.element_type, list(operand.shape)
            return self._of_node(make, *form, strict=True)(operand).array()

        return self._by_trials(call, how)

    def _loaded(self, model: bytes | Path, *, strict: bool = False) -> RunsModel:
        """As OpenVINO's reader of ONNX converts it."""
        read = self._core.read_model(model)
        # Inputs that no result depends on are gone, as is one of which only the type counts.
        left = {name for port in read.inputs for name in port.get_names()}
        request = self._request(read, strict=strict)

        def run(given: Mapping[str, Array], names: Sequence[str]) -> dict[str, Tensor]:
            self._infer(request, {name: array for name, array in given.items() if name in left})
            return {name: of_openvino(request.get_tensor(name)) for name in names}

        return run

    def run_ir(
        self,
        path: Path,
        given: Mapping[str, Array],
        names: Sequence[str] = (),
        *,
        strict: bool = False,
    ) -> list[Tensor]:
        """The results of the model in a file, and behind them the tensors ``names``.

        ``3 NODE`` is the fourth output of a node.
        """
        from openvino import opset5

        model = self.read(path)
        with self._loading():
            ops = {op.get_friendly_name(): op for op in model.get_ops()}
            for parameter in model.get_parameters():
                if not parameter.output(0).get_names():
                    parameter.output(0).set_names({parameter.get_friendly_name()})
            ports = (name.split(" ", 1) for name in names)
            model.add_results([opset5.result(ops[node].output(int(port))) for port, node in ports])
            request = self._request(model, strict=strict)
        with self._failures_of("the model"):
            self._infer(request, given)
            return [of_openvino(tensor) for tensor in request.output_tensors]

    def run_alone(self, operator: str, attributes: Mapping[str, str], x: Array) -> Tensor:
        """The result of one of OpenVINO's operators with a single operand."""

        def make(ops: Any, parameter: Any) -> Any:
            return getattr(ops, operator)(parameter, **attributes)

        with self._loading():
            operand = for_openvino(x)
            run = self._of_node(make, operand.element_type, list(operand.shape))
        with self._failures_of("the operator"):
            return run(operand)

    def read(self, path: Path) -> Any:
        """The model in a file; raises :class:`CannotVerify`."""
        try:
            return self._core.read_model(path)
        except Exception as error:  # of classes that the bindings do not document
            raise CannotVerify(f"{path} is not a model: {self._told(error)}") from error

    def _infer(self, request: Any, given: Mapping[str, Array]) -> None:
        for name, array in given.items():
            request.set_tensor(name, for_openvino(array))
        infer(request)

    def _request(self, model: Any, *, strict: bool = False) -> Any:
        """An infer request of a model, compiled for the device."""
        # Without the hint a CPU with bfloat16 instructions may round float32 in bfloat16.
        hint = {"EXECUTION_MODE_HINT": "ACCURACY"} if strict else {}
        return self._core.compile_model(model, self._device, hint).create_infer_request()

    # OpenVINO's nodes, and the modules that make them, have no annotations.
    def _of_node(
        self,
        make: Callable[[Any, Any], Any],
        element: Any,
        shape: Sequence[int],
        *,
        strict: bool = False,
    ) -> Callable[[Any], Tensor]:
        """The results of the node that ``make`` returns for opset5 and a parameter."""
        import openvino
        from openvino import opset5

        parameter = opset5.parameter(shape, element)
        model = openvino.Model([make(opset5, parameter)], [parameter])
        request = self._request(model, strict=strict)

        def run(operand: Any) -> Tensor:
            request.set_input_tensor(operand)
            infer(request)
            return of_openvino(request.get_output_tensor())

        return run

    def _compiled(
        self, dtype: str, target: str, make: Callable[[Any, Any], Any]
    ) -> Callable[[Values], object]:
        """A function of arrays by the node that ``make`` returns; see :meth:`_of_node`.

        It raises :class:`NotSupported` if the node does not compile for this device.
        """
        import openvino

        element = getattr(openvino.Type, name_in(dialect.DTYPES, dtype), None)

        def compiled(rank: int) -> Callable[[Values], Values]:
            try:
                of_operand = self._of_node(make, element, [-1] * rank, strict=True)
            except Exception as error:  # of classes that the bindings do not document
                raise NotSupported(self._told(error)) from error

            def run(x: Values) -> Values:
                found = of_operand(for_openvino(x))
                if found.dtype != target:
                    raise CannotVerify(
                        f"{self.name} returned {found.dtype} for {dtype} to {target}"
                    )
                return found.array()

            return run

        return by_rank(compiled)

    def _told(self, error: BaseException) -> str:
        """The last line of an error; those before are places in OpenVINO's source.

        Lines below that refer to a page.
        """
        lines = [line.strip() for line in str(error).splitlines() if "https://" not in line]
        lines = [line for line in lines if line]
        return lines[-1] if lines else type(error).__name__
