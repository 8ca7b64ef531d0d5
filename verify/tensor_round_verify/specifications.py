"""Rounding operators of specifications and libraries, as data.

Each operator is a row with the rules of its specification; what the specification does not define,
the row does not either. An operator with a descriptor of :mod:`tensor_round` names its dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["SPECIFICATIONS", "Specification", "find"]

#: The rule for halves. ``not defined``: the text has no rule. ``no operator``: it has no operator.
Ties = Literal["even", "away", "toward +infinity", "by mode", "not defined", "no operator"]

#: The rules for zero and NaN, ``*IEEE`` or ``*SILENT`` in a row.
IEEE = ("keeps the operand's sign", "a quiet NaN")
SILENT = ("silent", "silent")


@dataclass(frozen=True, slots=True)
class Specification:
    """One operator and its rules.

    ``about`` has sentences. ``zero`` says what a zero result does with its sign, and ``nan`` what
    NaN becomes; ``silent`` if the text has no rule.
    ``source`` is the text; gh:owner/name#number is a thread on GitHub.
    """

    name: str
    ties: Ties
    about: str
    dtypes: str
    ranks: str
    zero: str
    nan: str
    source: str
    dialect: str | None = None


_FLOATS = "floats"

# One line per row.
# ruff: noqa: E501
# fmt: off
#: The rows of the dialects first.
SPECIFICATIONS: tuple[Specification, ...] = (
    Specification("ieee754.roundToIntegral", "by mode", "it has five directions", "floats", "scalar", *IEEE, "IEEE 754-2019, 5.9", "ieee754"),
    Specification("ieee754.convertFormat", "by mode", "it has five directions, which decide overflow too (7.4); 5.8 has integers", "floats", "scalar", *IEEE, "IEEE 754-2019, 5.4.2"),
    Specification("onnx.Round", "even", "integral values, zeros, NaN and infinities are returned as they are", "float16 float32 float64; bfloat16 from opset 22", "any", "keeps the sign of a zero operand", "itself", "ONNX Round-11, Round-22", "onnx"),
    Specification("onnx.Cast", "even", "8-bit floats saturate by default; float to integer out of range is undefined; integers keep their low bits", "numeric, by version", "any", "keeps the operand's sign, but not in fnuz types", "NaN, undefined as an integer", "ONNX Cast-9 to Cast-25"),
    Specification("openvino.Round", "by mode", "the mode is half_to_even (default) or half_away_from_zero", "any numeric type; integers as they are", "any", *SILENT, "OpenVINO Round-5", "openvino"),
    Specification("directml.ELEMENT_WISE_ROUND", "by mode", "the mode is HALVES_TO_NEAREST_EVEN, TOWARD_ZERO, or TOWARD_INFINITY, which rounds halves away", "float32 float16", "4 at feature level 2_1, 1 to 8 from 3_0", *SILENT, "DML_ELEMENT_WISE_ROUND_OPERATOR_DESC", "directml"),
    Specification("directml.CAST", "not defined", "", "float64 from feature level 4_1, float32 float16, integers", "4, 1 to 8 from 3_1", *SILENT, "DML_CAST_OPERATOR_DESC"),
    Specification("webnn.roundEven", "even", "the tests' tolerance is 0 ULP", "float32 float16", "any; 0 to 5 required", *SILENT, "webnn index.bs, roundEven; WPT round_even.https.any.js", "webnn"),
    Specification("webnn.cast", "even", "floats out of range become infinity; float to integer truncates, and is implementation-defined out of range; integers keep their low bits", "float32 float16 int32 uint32 int64 uint64 int8 uint8 int4 uint4", "any; 0 to 5 required", *SILENT, "webnn index.bs, cast; WPT cast.https.any.js"),
    Specification("webnn.quantizeLinear", "even", "it is clamp(roundEven(input / scale) + zeroPoint); the tests' tolerance is 1", "float32 float16 to int8 uint8 and others", "any", *SILENT, "webnn index.bs, quantizeLinear; WPT quantizeLinear.https.any.js"),
    Specification("stablehlo.round_nearest_even", "even", "it is IEEE roundToIntegralTiesToEven; accuracy is not guaranteed", "f4 f6 f8 bf16 f16 f32 f64, or quantized per tensor", "any", *IEEE, "stablehlo spec.md, round_nearest_even", "stablehlo"),
    Specification("stablehlo.round_nearest_afz", "away", "it is IEEE roundToIntegralTiesToAway; accuracy is not guaranteed", "f4 f6 f8 bf16 f16 f32 f64, or quantized per tensor", "any", *IEEE, "stablehlo spec.md, round_nearest_afz", "stablehlo"),
    Specification("stablehlo.convert", "not defined", "it is exact if representable, otherwise undecided (issue 180); float to integer truncates", "all but quantized", "any", *SILENT, "stablehlo spec.md, convert"),
    Specification("array_api.round", "even", "complex numbers are rounded by parts", "numeric; integers as they are", "any", "keeps the sign of a zero operand", "NaN", "Array API standard, elementwise functions", "array_api"),
    Specification("mlir.math.roundeven", "even", "it lowers to llvm.roundeven", "floats", "scalar, vector, tensor", *SILENT, "MathOps.td; reviews.llvm.org/D132375", "mlir"),
    Specification("mlir.math.round", "away", "it ignores the current rounding direction; it lowers to llvm.round", "floats", "scalar, vector, tensor", *SILENT, "MathOps.td; reviews.llvm.org/D128662", "mlir"),
    Specification("llvm.roundeven", "even", "it is IEEE roundToIntegralTiesToEven, without exceptions", _FLOATS, "scalar, vector", *IEEE, "LLVM LangRef; reviews.llvm.org/D75670"),
    Specification("numpy.rint", "even", "round(x) is the same", "floats, complex", "any", *IEEE, "NumPy reference"),
    Specification("torch.round", "even", "decimals= is inexact", "floats; integers copied", "any", "keeps -0 in the example", "silent", "docs.pytorch.org, torch.round"),
    Specification("tensorflow.round", "even", "tf.round and raw_ops.Round are the same", "bfloat16 half float32 float64, int8 to int64, complex", "any", *SILENT, "tensorflow.org, raw_ops/Round"),
    Specification("litert.ROUND", "even", "it is TensorFlow Lite's operator; it computes floor and difference", "float32", "any", "keeps -0.0; the code returns +0.0 for [-0.5, 0)", "silent", "tflite kernels/round.cc, reference/round.h"),
    Specification("xnnpack.bankers_rounding", "even", "", "f16 f32", "any", *SILENT, "XNNPACK operator-type.yaml; gh:tensorflow/tfjs#4486"),
    Specification("jax.lax.round", "by mode", "the mode is AWAY_FROM_ZERO (default) or TO_NEAREST_EVEN", _FLOATS, "any", *SILENT, "gh:jax-ml/jax#4959"),
    Specification("jax.numpy.round", "even", "", "numeric", "any", *SILENT, "gh:jax-ml/jax#4959"),
    Specification("coreml.round", "not defined", "0.5 is rounded to 0; the backend (MPS, BNNS, ANE, CPU) decides other halves", "fp16 fp32", "any", *SILENT, "coremltools elementwise_unary.py; issue 817 of the WebNN specification"),
    Specification("tensorrt.kROUND", "even", "", _FLOATS, "any", *SILENT, "TensorRT NvInfer.h, UnaryOperation"),
    Specification("onednn.eltwise_round", "not defined", "the text says d = round(s); the code calls nearbyintf, which follows the thread's mode", "f32; graph Round also f16 bf16", "any", *SILENT, "oneDNN doc/primitives/eltwise.md, doc/graph/operations/Round.md"),
    Specification("tosa", "no operator", "CAST of floats to integers goes to even; RESCALE has SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND", "", "", *SILENT, "TOSA 1.0; gh:ROCm/hip-ep#1053, gh:llvm/torch-mlir#3946"),
    Specification("nnapi", "no operator", "it has FLOOR and QUANTIZE alone", "", "", *SILENT, "Android NNAPI, from memory of its list of operations"),
    Specification("wgsl.round", "even", "it is correctly rounded; subnormals may be flushed", "f32 f16, abstract floats", "scalar, vector", "may lose its sign", "an indeterminate value", "WGSL index.bs, round and floating-point evaluation"),
    Specification("hlsl.round", "even", "", _FLOATS, "scalar, vector, matrix", *SILENT, "gh:gpuweb/gpuweb#1381, gh:microsoft/DirectXShaderCompiler#4368"),
    Specification("glsl.round", "not defined", "the implementation decides halves, as in SPIR-V's Round", "float double", "scalar, vector", *SILENT, "registry.khronos.org, round"),
    Specification("glsl.roundEven", "even", "SPIR-V's RoundEven is the same", "float double", "scalar, vector", *SILENT, "registry.khronos.org, roundEven"),
    Specification("metal.round", "away", "", "half float", "scalar, vector", *SILENT, "gh:gpuweb/gpuweb#1381"),
    Specification("metal.rint", "even", "", "half float", "scalar, vector", *SILENT, "gh:gpuweb/gpuweb#1381"),
    Specification("mlx.round", "even", "it is rint on Metal and CUDA; decimals= scales", "floats, complex", "any", *SILENT, "mlx unary_ops.h, unary_ops.cuh"),
    Specification("ggml.ROUND", "away", "it is roundf on the CPU, round on CUDA and Metal; the Vulkan shader adds a half and floors", "f32 f16", "any", *SILENT, "ggml unary-ops.cpp, unary.comp"),
    Specification("mindspore.round", "even", "Ascend's default result is int32", "f16 f32", "any", *SILENT, "MindSpore ops.round; hiascend atlaste_07_0040"),
    Specification("sentis.Round", "even", "", "f32", "any", *SILENT, "docs.unity3d.com, Sentis 1.3"),
    Specification("javascript.Math.round", "toward +infinity", "", "float64", "scalar", "keeps the operand's sign", "NaN", "ECMA-262, Math.round; gh:tensorflow/tfjs#7373"),
)
# fmt: on


def find(name: str) -> tuple[Specification, ...]:
    """The rows with this name or this family (the part before the dot); case is ignored."""
    wanted = name.lower()
    return tuple(
        row
        for row in SPECIFICATIONS
        if wanted in (row.name.lower(), row.name.partition(".")[0].lower())
    )
