"""What every benchmark shares: one thread, CPU time, versions, and a table that says whether a claim holds."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np  # noqa: F401  (BLAS must be loaded before it can be limited)
import sklearn  # noqa: F401
from threadpoolctl import threadpool_limits

from weald.plot import COLOURS

threadpool_limits(1)


@dataclass(frozen=True)
class Claim:
    """A figure, what it may be at most, and where it stands."""

    text: str
    figure: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.figure <= self.limit

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'SHORT'}  {self.text}: {self.figure:.3g} (limit {self.limit:.3g})"


def cpu_seconds(function: Callable[[], object]) -> float:
    """Process CPU time of one call: other work on the machine does not count."""
    start = time.process_time()
    function()
    return time.process_time() - start


def heading(title: str, packages: tuple[str, ...]) -> None:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("weald", "numpy", *packages))
    print(f"\n## {title}\n{versions}; Python {platform.python_version()}, {platform.machine()}, one thread, CPU time\n")


def table(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    cells = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ["| " + " | ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)) + " |" for row in cells]
    print("\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]]))


def figure_path() -> str | None:
    """What follows ``--figure`` on the command line."""
    words = sys.argv[1:]
    return words[words.index("--figure") + 1] if "--figure" in words else None


def draw_paths(path: str, panels: dict[str, dict[str, tuple[list[float], list[float]]]], quality: str) -> None:
    """A quality against CPU seconds, a panel for each title, a line for each name."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = plt.subplots(1, len(panels), figsize=(3.5 * len(panels), 3.4), layout="constrained", squeeze=False)
    for ax, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for colour, (name, (seconds, values)) in zip(COLOURS, lines.items(), strict=False):
            ax.semilogx(seconds, values, "o-", color=colour, label=name, markersize=3.5, linewidth=1.4)
        ax.set(title=title, xlabel="CPU seconds")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    axes[0, 0].set_ylabel(quality)
    figure.savefig(path, dpi=130)


def conclude(claims: list[Claim]) -> None:
    """Print each claim; end with 1 where one is short."""
    print("\n" + "\n".join(str(claim) for claim in claims))
    raise SystemExit(0 if all(claim.holds for claim in claims) else 1)
