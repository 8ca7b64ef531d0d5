"""docs/parts.svg: what calls what."""

from __future__ import annotations

#: Each box: its left and upper edge, its width, its class, its text.
BOXES = {
    "python": (0, 30, 190, "", "Python client"),
    "cli": (0, 180, 190, "", "command tensor-round"),
    "others": (0, 130, 190, "", "curl, C, JavaScript, Rust ..."),
    "triton": (0, 80, 190, "", "tritonclient, KServe"),
    "gate": (300, 105, 130, "own", "gate"),
    "round": (470, 55, 130, "own", "POST /round"),
    "v2": (470, 155, 130, "own", "/v2, gRPC"),
    "engine": (640, 105, 110, "own", "engine"),
    "cpu": (790, 55, 150, "own", "NumPy, LLVM (CPU)"),
    "gpu": (790, 155, 150, "own", "CuPy (GPU)"),
    "verify": (300, 240, 130, "own", "verify"),
    "runtimes": (470, 240, 280, "", "ONNX Runtime, torch, your kernel ..."),
}
ARROWS = (
    *(("python", "gate"), ("cli", "gate"), ("others", "gate"), ("triton", "gate")),
    *(("gate", "round"), ("gate", "v2"), ("round", "engine"), ("v2", "engine")),
    *(("engine", "cpu"), ("engine", "gpu"), ("cli", "verify"), ("verify", "runtimes")),
)
HEIGHT = 32
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; text-anchor: middle }
rect { fill: #f6f8fa; stroke: #8c959f } .own { fill: #ddf4ff; stroke: #1f6feb }
.service { fill: none; stroke: #1f6feb; stroke-dasharray: 5 4 } .note { fill: #57606a }
path { stroke: #8c959f; stroke-width: 1.5; fill: none; marker-end: url(#tip) }
marker path { fill: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .note { fill: #9198a1 } rect { fill: #161b22 }
  .own { fill: #0c2d6b; stroke: #58a6ff }
  .service { fill: none; stroke: #58a6ff }
}
"""


def picture() -> str:
    """The whole picture, as SVG."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-5 -5 970 285" role="img">',
        "<title>Clients call the service, which rounds on CPU or GPU; verify calls others</title>",
        f"<style>{STYLE}</style>",
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" style="marker-end:none"/></marker>',
        '<rect class="service" x="285" y="20" width="670" height="185" rx="8"/>',
        '<text class="note" x="620" y="38">tensor-round-service</text>',
    ]
    for start, end in ARROWS:
        left, top, width, *_ = BOXES[start]
        x, y, *_ = BOXES[end]
        parts.append(f'<path d="M{left + width} {top + HEIGHT / 2:g}L{x - 1} {y + HEIGHT / 2:g}"/>')
    for left, top, width, style, line in BOXES.values():
        parts.append(
            f'<rect class="{style}" x="{left}" y="{top}" width="{width}" height="{HEIGHT}" rx="5"/>'
            f'<text x="{left + width / 2:g}" y="{top + 21}">{line}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
