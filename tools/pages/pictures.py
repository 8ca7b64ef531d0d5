"""docs/staircase.svg and docs/casts.svg, directions as steps, and docs/parts.svg, what calls what.

Every step and every point is a rounding or a cast by the service's engine, of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import tensor_round as tr

Floats = npt.NDArray[np.float32]

SIDE, GAP, REACH = 180, 20, 3
STEPS_STYLE = (
    "text{font:12px sans-serif;fill:#222}.grid{stroke:#ddd}.axis{stroke:#888}"
    ".step{stroke:#3949ab;stroke-width:3}.at{fill:#3949ab}"
    ".off{fill:#fff;stroke:#3949ab;stroke-width:1.5}.paper{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.axis{stroke:#8b949e}"
    ".step{stroke:#8c9eff}.at{fill:#8c9eff}.off{fill:#0d1117;stroke:#8c9eff}.paper{fill:#0d1117}}"
)
#: The narrow type of casts.svg, from half its largest number beyond it on either side.
NARROW, NARROW_REACH = "float4_e2m1fn", 7


@dataclass(frozen=True)
class Panel:
    """A function from -``reach`` to ``reach``, which has steps at some of ``places`` alone."""

    title: str
    function: Callable[[Floats], npt.NDArray[Any]]
    places: Floats
    reach: int

    def x(self, value: float) -> str:
        """The place of an argument in the picture."""
        return f"{(value + self.reach) * SIDE / (2 * self.reach):g}"

    def y(self, value: float) -> str:
        """The place of a result."""
        return f"{(self.reach - value) * SIDE / (2 * self.reach):g}"

    def steps(self) -> Iterator[tuple[float, float, float, bool, bool]]:
        """Each step: its height, where it begins and ends, and whether the ends belong to it."""
        below = np.nextafter(self.places, np.float32(-9))
        above = np.nextafter(self.places, np.float32(9))
        x = np.stack([below, self.places, above], 1).ravel()[1:-1]
        height = self.function(x).astype(np.float32) + np.float32(0)
        for y, run in groupby(range(len(x)), key=lambda i: float(height[i])):
            ends = list(run)
            first, last = x[ends[0]], x[ends[-1]]
            begins, stops = first in self.places, last in self.places
            yield y, self._nearest(first), self._nearest(last), begins, stops

    def _nearest(self, value: np.float32) -> float:
        return float(self.places[np.abs(self.places - value).argmin()])

    def draw(self) -> str:
        """The panel, as SVG."""
        drawn = [f'<text x="{SIDE / 2:g}" y="-14" text-anchor="middle">{self.title}</text>']
        for at in range(-self.reach, self.reach + 1):
            kind = "grid" if at else "axis"
            drawn.append(f'<path class="{kind}" d="M{self.x(at)} 0V{SIDE}M0 {self.y(at)}H{SIDE}"/>')
        found = list(self.steps())
        for height, first, last, *_ in found:
            line = f"M{self.x(first)} {self.y(height)}H{self.x(last)}"
            drawn.append(f'<path class="step" d="{line}"/>')
        for height, first, last, begins, ends in found:
            for place, belongs in ((first, begins), (last, ends)):
                if abs(place) < self.reach:
                    kind = "at" if belongs else "off"
                    at = f'cx="{self.x(place)}" cy="{self.y(height)}"'
                    drawn.append(f'<circle class="{kind}" {at} r="3.5"/>')
        for at in (-self.reach, self.reach):
            drawn.append(f'<text x="{self.x(at)}" y="{SIDE + 14}" text-anchor="middle">{at}</text>')
        return "".join(drawn)


def staircase() -> str:
    """The five directions, as SVG: they differ at halves and integers alone."""
    places = np.arange(-REACH * 2, REACH * 2 + 1, dtype=np.float32) / 2
    with tr.Client("local:") as client:
        panels = [
            Panel(rounding.value, lambda x, by=rounding: client.round(x, by), places, REACH)
            for rounding in tr.Rounding
        ]
        return _picture("The five rounding directions as staircases from -3 to 3", panels)


def casts() -> str:
    """A cast to a type of 15 numbers in the five directions, as SVG."""
    numbers = np.unique(np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype("f4"))
    ends = np.array([-NARROW_REACH, NARROW_REACH], np.float32)
    places = np.unique([*numbers, *(numbers[1:] + numbers[:-1]) / 2, *ends]).astype(np.float32)
    with tr.Client("local:") as client:
        panels = [
            Panel(
                rounding.value,
                lambda x, by=rounding: client.cast(x, NARROW, rounding=by),
                places,
                NARROW_REACH,
            )
            for rounding in tr.Rounding
        ]
        return _picture(f"Casts to {NARROW} in the five directions, from -7 to 7", panels)


def _picture(title: str, panels: list[Panel]) -> str:
    width = len(panels) * (SIDE + GAP) + GAP
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIDE + 60}" role="img">',
        f"<title>{title}</title>",
        f'<style>{STEPS_STYLE}</style><rect class="paper" width="{width}" height="{SIDE + 60}"/>',
    ]
    for number, panel in enumerate(panels):
        left = GAP + number * (SIDE + GAP)
        drawn.append(f'<g transform="translate({left} 40)">{panel.draw()}</g>')
    return "\n".join([*drawn, "</svg>", ""])


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
