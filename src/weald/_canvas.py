"""What all pictures share: colours, Axes to draw on, short names.

>>> palette(2)
['#2f7d5b', '#d9822b']
"""

from __future__ import annotations

import colorsys
from typing import Any

from weald.exceptions import need

FAINT = "#a9b0a8"
COLOURS = ("#2f7d5b", "#d9822b", "#4a6fb5", "#c2504c", "#8a63b0", "#3d9aa6", "#b58a1e", "#b4568f", "#6b8e23", "#7a6a58")


def palette(n_colours: int) -> list[str]:
    """Distinct colours as hex strings; the first ten are hand-picked."""
    if n_colours <= len(COLOURS):
        return list(COLOURS[:n_colours])
    hues = [(0.42 + 0.618034 * i) % 1 for i in range(n_colours)]  # golden ratio: neighbours far apart
    tones = [colorsys.hls_to_rgb(hue, (0.32, 0.42, 0.50)[i % 3], 0.5) for i, hue in enumerate(hues)]
    return ["#" + "".join(f"{round(255 * part):02x}" for part in tone) for tone in tones]


def axes_or_new(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """The Axes given, or those of a new figure of this size in inches."""
    try:
        import matplotlib
    except ImportError as error:
        raise need("matplotlib", "plot", "drawing") from error
    if ax is None:
        import matplotlib.pyplot

        _, ax = matplotlib.pyplot.subplots(layout="constrained", figsize=size)
    return ax


def short(name: str, width: int = 28) -> str:
    """The name, cut where it is longer than `width` letters."""
    return name if len(name) <= width else name[: width - 1] + "…"
