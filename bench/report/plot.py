"""The picture of a run: round trips beside each other, as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

from ..measuring.latency import FREE, OWN_CORES
from ..peers import targets
from ..peers.targets import KIB, MIB, Target
from .tables import python, seconds, was_busy

#: A target, what it is called here, and its class in the style below.
Bar: TypeAlias = tuple[Target, str, str]
#: What is shown, from the least there can be to the slowest.
BARS: tuple[Bar, ...] = (
    (targets.FLOOR, "bare socket server, no HTTP", "floor"),
    (targets.ROUND, "POST /round", "own"),
    (targets.INFER, "POST /v2/…/infer, binary", "own"),
    (targets.SHARED, "/v2, shared memory", "own"),
    (targets.SDK, "client.round(x)", "own"),
    (targets.FASTAPI, "a plain FastAPI route", "peer"),
    (targets.TRITON_INFER, "Triton 2.51, Python backend", "peer"),
)
PANELS = ((KIB, "1 KiB", OWN_CORES), (MIB, "1 MiB", OWN_CORES), (64 * MIB, "64 MiB", FREE))

NAMES_WIDTH = 190
PANEL_WIDTH = 210
BAR_WIDTH = 130
LINE = 24
TOP = 64
BAR = 14

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
.floor { fill: #8c959f } .own { fill: #1f6feb } .peer { fill: #d4a72c }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } .own { fill: #58a6ff } .peer { fill: #e3b341 }
}
"""


def draw(results: dict[str, Any]) -> str:
    """The picture; bars are linear, each panel on a scale of its own."""
    times = {
        (row["target"], row["bytes"], row["placement"]): row["best"] for row in results["latency"]
    }
    bars = [
        bar for bar in BARS if any((bar[0].name, size, where) in times for size, _, where in PANELS)
    ]
    width = NAMES_WIDTH + PANEL_WIDTH * len(PANELS)
    height = TOP + LINE * len(bars) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'aria-label="Round-trip times of a float32 tensor">',
        f"<style>{STYLE}</style>",
        text(0, 18, "Round trip of a float32 tensor, one connection", "title"),
    ]
    for number, (_, name, _) in enumerate(bars):
        parts.append(text(0, TOP + LINE * number + 11, name))
    for number, (size, name, placement) in enumerate(PANELS):
        left = NAMES_WIDTH + PANEL_WIDTH * number
        parts.append(text(left, TOP - 16, name, "title"))
        parts += panel(bars, [times.get((bar[0].name, size, placement)) for bar in bars], left)
    parts += [text(0, height - 10, caption(results), "small"), "</svg>"]
    return "\n".join(parts) + "\n"


def panel(bars: list[Bar], times: list[float | None], left: int) -> Iterator[str]:
    """One size: a bar and its time for each."""
    longest = max((time for time in times if time is not None), default=1.0)
    for number, ((_, _, style), time) in enumerate(zip(bars, times, strict=True)):
        if time is None:
            continue
        top = TOP + LINE * number
        length = max(1.0, BAR_WIDTH * time / longest)
        yield (
            f'<rect class="{style}" x="{left}" y="{top}" width="{length:.1f}" '
            f'height="{BAR}" rx="2"/>'
        )
        yield text(left + length + 6, top + 11, seconds(time).replace("us", "µs"))


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{style}">{escape(words)}</text>'


def caption(results: dict[str, Any]) -> str:
    about = results["machine"]
    words = (
        f"{about['cpu']}, {about['cores']} cores, {python(about)}, loopback; "
        f"{results['date'][:10]}, make bench"
    )
    return f"{words}; the machine was busy with other work" if was_busy(results) else words
