"""``webgpu[:ggml]``: a compute shader on the default GPU, through wgpu: Vulkan, Metal or Direct3D.

With Mesa's lavapipe (Debian's mesa-vulkan-drivers) the device is the CPU, by Vulkan.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensor_round.contract.errors import CannotVerify

from .forms import Form, Values
from .runtime import FUNCTIONS, Adapter, version

#: The argument for the expression of ggml's Vulkan shader for ROUND (vulkan-shaders/unary.comp).
GGML = "ggml"
GGML_EXPRESSIONS = {"ties_to_away": "select(ceil(x - 0.5), floor(x + 0.5), x >= 0.0)"}

_SHADER = """
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < arrayLength(&result)) {
        let x = bitcast<f32>(source[id.x]);
        result[id.x] = bitcast<u32>(EXPRESSION);
    }
}
"""
#: Elements of a dispatch: 256 in each of at most 65,535 workgroups.
_BLOCK = 1 << 20


class WebGPU(Adapter):
    """A shader of one expression on float32."""

    dtypes = ("float32",)
    concurrent = False
    # An empty buffer cannot be bound.
    forms = Form.LENGTH

    def __init__(self, expressions: str, _: float) -> None:
        import wgpu

        if expressions not in ("", GGML):
            raise CannotVerify(f"webgpu has no expressions {expressions}; it has WGSL's, or {GGML}")
        # WGSL's own functions (section 17.5), or another expression.
        own = {rounding: f"{name}(x)" for rounding, name in FUNCTIONS.items()}
        self.operators = GGML_EXPRESSIONS if expressions else own
        try:
            adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        except RuntimeError as error:
            raise CannotVerify(f"webgpu: {error}") from error
        info = adapter.info
        kind = "ggml's expression" if expressions else "WGSL"
        self.name = f"wgpu {version(wgpu)}, {info['backend_type']}, {info['device']}, {kind}"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        from wgpu.utils.compute import compute_with_buffers

        shader = _SHADER.replace("EXPRESSION", self._operator(dtype, rounding))

        def run(block: Values) -> Values:
            out = compute_with_buffers(
                {0: block}, {1: block.nbytes}, shader, n=-(-block.size // 256)
            )
            return np.frombuffer(out[1], block.dtype)

        def rounds(x: Values) -> Values:
            blocks = [x[at : at + _BLOCK] for at in range(0, x.size, _BLOCK)]
            return np.concatenate([run(np.ascontiguousarray(block)) for block in blocks])

        return rounds
