"""Draw the Grafana dashboard's panels with matplotlib, from a real Prometheus.

    python tools/dashboard_image.py docs/images/dashboard.png [SECONDS]

Services get mixed traffic for so long, Prometheus scrapes them, and each panel of
deploy/monitoring/grafana/dashboards/tensor-round.json is drawn in its place, by its own queries.
It is no screenshot of Grafana, which draws the same panels in its own style.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from datetime import datetime
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import DateFormatter
from matplotlib.ticker import FuncFormatter
from PIL import Image

from monitored import monitored
from support import monitoring
from support.services.prometheus import Prometheus

#: Seconds between two points, and the range of rates.
STEP, RATE_SECONDS = 1.0, 10
COLUMNS, ROW_INCHES = 24, 0.42
_UNITS = {"reqps": " req/s", "Bps": "B/s", "bytes": "B", "s": "s"}
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"))


def shown(value: float, unit: str) -> str:
    """A value in a unit of Grafana's."""
    if unit == "percentunit":
        return f"{value:.1%}"
    size, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= s), (1, ""))
    if not prefix and abs(value) < 1:
        size, prefix = 1, ""
    return f"{value / size:.3g} {prefix}{_UNITS.get(unit, '')}".strip()


class Panels:
    """Draws panels; all their series are of the same time."""

    def __init__(self, prometheus: Prometheus, start: float, end: float) -> None:
        self._prometheus = prometheus
        self._times = start, end, STEP

    def draw(self, axes: Axes, panel: dict[str, Any]) -> None:
        """One panel."""
        axes.set_title(panel["title"].replace("$phase", "execute"), fontsize=9, loc="left")
        {"timeseries": self._lines, "stat": self._value, "heatmap": self._heatmap}[panel["type"]](
            axes, panel
        )

    def _series(self, panel: dict[str, Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Of each series its name, times and values."""
        found = []
        for target in panel["targets"]:
            query = monitoring.Query("", target["expr"].replace("$phase", "execute"), "")
            text = replace(
                query, expression=query.expression.replace("$__rate_interval", f"{RATE_SECONDS}s")
            ).runnable
            for series in self._prometheus.query_range(text, *self._times):
                name = target["legendFormat"]
                for label, value in series["metric"].items():
                    name = name.replace("{{" + label + "}}", value)
                times, values = zip(*series["values"], strict=True)
                when = np.array([datetime.fromtimestamp(t) for t in times])
                found.append((name, when, np.array(values, float)))
        return found

    def _lines(self, axes: Axes, panel: dict[str, Any]) -> None:
        defaults = panel["fieldConfig"]["defaults"]
        is_stacked = defaults["custom"]["stacking"]["mode"] == "normal"
        below: dict[datetime, float] = {}
        for name, when, values in self._series(panel):
            if is_stacked:
                base = np.array([below.get(t, 0.0) for t in when])
                values = base + np.nan_to_num(values)
                axes.fill_between(when, base, values, alpha=0.35, linewidth=0)
                below.update(zip(when, values, strict=True))
            axes.plot(when, values, linewidth=1, label=name)
        unit = defaults["unit"]
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
        axes.set_ylim(bottom=0)
        self._finish(axes)
        handles, names = axes.get_legend_handles_labels()
        columns = max(1, round(12 * axes.get_position().width))
        axes.legend(
            *(handles[: 3 * columns], names[: 3 * columns]),
            fontsize=5.5,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.09),
            ncols=columns,
            frameon=False,
        )

    def _value(self, axes: Axes, panel: dict[str, Any]) -> None:
        axes.axis("off")
        series = self._series(panel)
        if panel["options"]["textMode"] == "name":
            text, size = "\n".join(name for name, _, _ in series), 13
        else:
            ((_, when, values),) = series
            unit = panel["fieldConfig"]["defaults"]["unit"]
            text, size = shown(values[-1], unit), 18
            ghost = axes.inset_axes((0, 0, 1, 0.45))
            ghost.fill_between(when, values, alpha=0.2, color="tab:green", linewidth=0)
            ghost.axis("off")
        axes.text(0.5, 0.55, text, fontsize=size, ha="center", va="center", color="tab:green")

    def _heatmap(self, axes: Axes, panel: dict[str, Any]) -> None:
        series = [(float(name), when, values) for name, when, values in self._series(panel)]
        series.sort(key=lambda each: each[0])
        when = series[0][1]
        counts = np.diff([np.zeros(len(when)), *(values for _, _, values in series)], axis=0)
        shades = np.where(counts > 0, np.sqrt(counts), np.nan)
        axes.pcolormesh(when, range(len(series)), shades, cmap="Oranges", shading="nearest")
        names = ["more" if math.isinf(le) else f"≤ {shown(le, 's')}" for le, _, _ in series]
        axes.set_yticks(range(0, len(series), 3), names[::3])
        self._finish(axes)

    def _finish(self, axes: Axes) -> None:
        axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))
        axes.xaxis.set_major_locator(plt.MaxNLocator(4))
        axes.tick_params(labelsize=6)
        axes.grid(alpha=0.2)


def main(path: str, seconds: float = 90) -> None:
    """Write the image."""
    document = monitoring.dashboard()
    rows = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in document["panels"])
    figure = plt.figure(figsize=(16, rows * ROW_INCHES + 0.6), dpi=75)
    height = rows + 2.5
    with monitored(seconds) as (prometheus, end):
        panels = Panels(prometheus, end - seconds + RATE_SECONDS, end)
        for panel in document["panels"]:
            place = panel["gridPos"]
            bottom = 1 - (place["y"] + place["h"] + 1) / height
            if panel["type"] == "row":
                figure.text(0.01, bottom + 0.2 / height, panel["title"], fontsize=11, weight="bold")
                continue
            box = ((place["x"] + 1) / COLUMNS, bottom + 1.6 / height)
            size = ((place["w"] - 1.4) / COLUMNS, (place["h"] - 2.7) / height)
            panels.draw(figure.add_axes((*box, *size)), panel)
    figure.text(
        0.01,
        0.5 / height,
        "The panels of deploy/monitoring/grafana/dashboards/tensor-round.json over a real "
        "Prometheus, drawn by tools/dashboard_image.py; Grafana draws them in its own style.",
        fontsize=7,
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    # 128 colours do, and take a third of the bytes.
    image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
    image.convert("RGB").quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:3]))
