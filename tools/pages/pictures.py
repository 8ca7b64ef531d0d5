"""docs/staircase.svg, the five directions as steps, and docs/parts.svg, what calls what.

Every step and every point is a rounding by the service's engine, in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

import tensor_round as tr

#: A panel for each direction.
PANELS = [rounding.value for rounding in tr.Rounding]
SIDE, GAP, UNIT, REACH = 180, 20, 30, 3
STEPS_STYLE = (
    "text{font:12px sans-serif;fill:#222}.grid{stroke:#ddd}.axis{stroke:#888}"
    ".step{stroke:#3949ab;stroke-width:3}.at{fill:#3949ab}"
    ".off{fill:#fff;stroke:#3949ab;stroke-width:1.5}.paper{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.axis{stroke:#8b949e}"
    ".step{stroke:#8c9eff}.at{fill:#8c9eff}.off{fill:#0d1117;stroke:#8c9eff}.paper{fill:#0d1117}}"
)


def steps(client: tr.Client, rounding: str) -> Iterator[tuple[int, float, float, bool, bool]]:
    """Each step: its height, where it begins and ends, and whether the ends belong to it.

    Ends are halves or integers: directions differ nowhere else.
    """
    places = np.arange(-REACH * 2, REACH * 2 + 1, dtype=np.float32) / 2
    below = np.nextafter(places, np.float32(-9))
    above = np.nextafter(places, np.float32(9))
    x = np.stack([below, places, above], 1).ravel()[1:-1]
    height = client.round(x, tr.IEEE754Round(rounding))
    for y, run in groupby(range(len(x)), key=lambda i: int(height[i])):
        ends = list(run)
        first, last = x[ends[0]], x[ends[-1]]
        yield y, round(2 * first) / 2, round(2 * last) / 2, first in places, last in places


def staircase() -> str:
    """The whole picture, as SVG."""
    width = len(PANELS) * (SIDE + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIDE + 60}" role="img">',
        "<title>The five rounding directions as staircases from -3 to 3</title>",
        f'<style>{STEPS_STYLE}</style><rect class="paper" width="{width}" height="{SIDE + 60}"/>',
    ]
    with tr.Client("local:") as client:
        for number, rounding in enumerate(PANELS):
            left = GAP + number * (SIDE + GAP)
            parts.append(f'<g transform="translate({left} 40)">{_panel(client, rounding)}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(client: tr.Client, rounding: str) -> str:
    drawn = [f'<text x="{SIDE / 2:g}" y="-14" text-anchor="middle">{rounding}</text>']
    for at in range(-REACH, REACH + 1):
        kind = "grid" if at else "axis"
        drawn.append(f'<path class="{kind}" d="M{_x(at)} 0V{SIDE}M0 {_y(at)}H{SIDE}"/>')
    for height, first, last, *_ in steps(client, rounding):
        drawn.append(f'<path class="step" d="M{_x(first)} {_y(height)}H{_x(last)}"/>')
    for height, first, last, begins, ends in steps(client, rounding):
        for place, belongs in ((first, begins), (last, ends)):
            if abs(place) < REACH:
                kind = "at" if belongs else "off"
                drawn.append(f'<circle class="{kind}" cx="{_x(place)}" cy="{_y(height)}" r="3.5"/>')
    for at in (-REACH, REACH):
        drawn.append(f'<text x="{_x(at)}" y="{SIDE + 14}" text-anchor="middle">{at}</text>')
    return "".join(drawn)


def _x(value: float) -> str:
    return f"{(value + REACH) * UNIT:g}"


def _y(value: float) -> str:
    return f"{(REACH - value) * UNIT:g}"


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
    ("python", "gate"),
    ("cli", "gate"),
    ("others", "gate"),
    ("triton", "gate"),
    ("gate", "round"),
    ("gate", "v2"),
    ("round", "engine"),
    ("v2", "engine"),
    ("engine", "cpu"),
    ("engine", "gpu"),
    ("cli", "verify"),
    ("verify", "runtimes"),
)
HEIGHT = 32
PARTS_STYLE = """
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


def parts() -> str:
    """The whole picture, as SVG."""
    drawn = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-5 -5 970 285" role="img">',
        "<title>Clients call the service, which rounds on CPU or GPU; verify calls others</title>",
        f"<style>{PARTS_STYLE}</style>",
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" style="marker-end:none"/></marker>',
        '<rect class="service" x="285" y="20" width="670" height="185" rx="8"/>',
        '<text class="note" x="620" y="38">tensor-round-service</text>',
    ]
    for start, end in ARROWS:
        left, top, width, *_ = BOXES[start]
        x, y, *_ = BOXES[end]
        drawn.append(f'<path d="M{left + width} {top + HEIGHT / 2:g}L{x - 1} {y + HEIGHT / 2:g}"/>')
    for left, top, width, style, line in BOXES.values():
        drawn.append(
            f'<rect class="{style}" x="{left}" y="{top}" width="{width}" height="{HEIGHT}" rx="5"/>'
            f'<text x="{left + width / 2:g}" y="{top + 21}">{line}</text>'
        )
    return "\n".join([*drawn, "</svg>", ""])
