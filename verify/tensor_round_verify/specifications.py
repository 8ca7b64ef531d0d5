"""Rounding operators of specifications and libraries, as data.

Each operator is a row with the rules of its specification; what the specification does not define,
the row does not either. An operator with a descriptor in this package names its dialect, and its
row is in the dialect's file.
"""

from __future__ import annotations

from tensor_round.contract.operators.dialect import IEEE, SILENT, Specification
from tensor_round.contract.operators.registry import DIALECTS

__all__ = ["SPECIFICATIONS", "Specification", "find"]

_FLOATS = "floats"

# One line per row.
# ruff: noqa: E501
# fmt: off
#: The rows of the dialects first, each from its dialect's file.
SPECIFICATIONS: tuple[Specification, ...] = (
    *(row for dialect in DIALECTS.values() for row in dialect.specifications),
    Specification("llvm.roundeven", "even", "IEEE roundToIntegralTiesToEven, without exceptions", _FLOATS, "scalar, vector", *IEEE, "LLVM LangRef; reviews.llvm.org/D75670"),
    Specification("numpy.rint", "even", "round(x) is the same", "floats, complex", "any", *IEEE, "NumPy reference"),
    Specification("torch.round", "even", "decimals= is inexact", "floats; integers copied", "any", "-0 shown in the example", "silent", "docs.pytorch.org, torch.round"),
    Specification("tensorflow.round", "even", "tf.round and raw_ops.Round", "bfloat16 half float32 float64, int8 to int64, complex", "any", *SILENT, "tensorflow.org, raw_ops/Round"),
    Specification("litert.ROUND", "even", "by floor and difference; TensorFlow Lite's operator", "float32", "any", "-0.0 kept; the code makes [-0.5, 0) +0.0", "silent", "tflite kernels/round.cc, reference/round.h"),
    Specification("xnnpack.bankers_rounding", "even", "", "f16 f32", "any", *SILENT, "XNNPACK operator-type.yaml; gh:tensorflow/tfjs#4486"),
    Specification("jax.lax.round", "by mode", "AWAY_FROM_ZERO (default) or TO_NEAREST_EVEN", _FLOATS, "any", *SILENT, "gh:jax-ml/jax#4959"),
    Specification("jax.numpy.round", "even", "", "numeric", "any", *SILENT, "gh:jax-ml/jax#4959"),
    Specification("coreml.round", "not defined", "0.5 is rounded to 0; of other halves the backend decides (MPS, BNNS, ANE, CPU)", "fp16 fp32", "any", *SILENT, "coremltools elementwise_unary.py; issue 817 of the WebNN specification"),
    Specification("tensorrt.kROUND", "even", "round to nearest even for floating-point data types", _FLOATS, "any", *SILENT, "TensorRT NvInfer.h, UnaryOperation"),
    Specification("onednn.eltwise_round", "not defined", "d = round(s); the code is nearbyintf, which follows the mode of the thread", "f32; graph Round also f16 bf16", "any", *SILENT, "oneDNN doc/primitives/eltwise.md, doc/graph/operations/Round.md"),
    Specification("tosa", "no operator", "CAST of floats to integers goes to even; RESCALE has SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND", "", "", *SILENT, "TOSA 1.0; gh:ROCm/hip-ep#1053, gh:llvm/torch-mlir#3946"),
    Specification("nnapi", "no operator", "FLOOR and QUANTIZE alone", "", "", *SILENT, "Android NNAPI, from memory of its list of operations"),
    Specification("wgsl.round", "even", "correctly rounded; subnormals may be flushed", "f32 f16, abstract floats", "scalar, vector", "may be ignored", "indeterminate", "WGSL index.bs, round and floating-point evaluation"),
    Specification("hlsl.round", "even", "", _FLOATS, "scalar, vector, matrix", *SILENT, "gh:gpuweb/gpuweb#1381, gh:microsoft/DirectXShaderCompiler#4368"),
    Specification("glsl.round", "not defined", "the direction of a fraction 0.5 is the implementation's; SPIR-V's Round too", "float double", "scalar, vector", *SILENT, "registry.khronos.org, round"),
    Specification("glsl.roundEven", "even", "SPIR-V's RoundEven too", "float double", "scalar, vector", *SILENT, "registry.khronos.org, roundEven"),
    Specification("metal.round", "away", "", "half float", "scalar, vector", *SILENT, "gh:gpuweb/gpuweb#1381"),
    Specification("metal.rint", "even", "", "half float", "scalar, vector", *SILENT, "gh:gpuweb/gpuweb#1381"),
    Specification("mlx.round", "even", "rint on Metal and CUDA; decimals= scales", "floats, complex", "any", *SILENT, "mlx unary_ops.h, unary_ops.cuh"),
    Specification("ggml.ROUND", "away", "roundf on the CPU, round on CUDA and Metal; the Vulkan shader adds a half and floors", "f32 f16", "any", *SILENT, "ggml unary-ops.cpp, unary.comp"),
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
