"""docs/staircase.svg: the five directions as steps.

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
STYLE = (
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


def picture() -> str:
    """The whole picture, as SVG."""
    width = len(PANELS) * (SIDE + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIDE + 60}" role="img">',
        "<title>The five rounding directions as staircases from -3 to 3</title>",
        f'<style>{STYLE}</style><rect class="paper" width="{width}" height="{SIDE + 60}"/>',
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
