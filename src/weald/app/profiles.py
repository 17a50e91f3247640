"""What makes each cluster different: every column against the rest of the table, on one scale.

    d_kj = (mean of j in cluster k - mean of j elsewhere) / standard deviation of j

A level of a text column counts as a column of zeros and ones, so numbers, truth values and categories compare:
for a level with overall share p, d = (share in k - share elsewhere) / sqrt(p (1 - p)). Cost: O(n) for each
column and each of the `MAX_LEVELS` commonest levels.

    >>> table = Table(("age", "member"), {"age": np.array([30, 31, 70]), "member": np.array([True, True, False])})
    >>> describe(traits(table, np.array([0, 0, 1]), 2), 1)
    'not member, high age'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weald._typing import Array, FloatArray, IntArray
from weald.app.readers import Table
from weald.plot import contrast

MAX_LEVELS = 20
WORTH_SAYING = 0.4  # standard deviations
ROUNDING = 1e-12  # share of a mean below which another is nought


@dataclass(frozen=True)
class Trait:
    """One column, or one level of one, in every cluster.

    Parameters
    ----------
    column : str
        The column.
    level : str or None
        The level, for text.
    share : bool
        True where the means are shares of rows: text and truth values.
    difference, inside, outside : arrays of shape (K,)
        Difference in standard deviations; mean in the cluster; mean elsewhere.
    """

    column: str
    level: str | None
    share: bool
    difference: FloatArray
    inside: FloatArray
    outside: FloatArray

    @property
    def name(self) -> str:
        """The column, with its level."""
        return self.column if self.level is None else f"{self.column} = {self.level}"

    def values(self, k: int) -> tuple[str, str]:
        """The typical value in cluster k and elsewhere, for people."""
        write = percent if self.share else number
        pair = self.inside[k], self.outside[k]
        rounding = ROUNDING * max(map(abs, pair))
        inside, outside = (write(0.0 if abs(value) < rounding else value) for value in pair)
        return inside, outside


def traits(table: Table, labels: IntArray, n_clusters: int) -> list[Trait]:
    """Every column of a table as traits, in the order of the table."""
    found = []
    for name in table.names:
        cells, kind = table.columns[name], table.kind(name)
        for level, values in indicators(cells) if kind == "text" else ((None, cells),):
            found.append(Trait(name, level, kind in ("text", "bool"), *contrast(values, labels, n_clusters)))
    return found


def indicators(cells: Array) -> list[tuple[str, FloatArray]]:
    """The commonest levels of a text column, each as (n,) zeros and ones; NaN where the cell is missing."""
    counts = Counter(cell for cell in cells.tolist() if cell is not None)
    missing = np.array([cell is None for cell in cells])
    return [(level, np.where(missing, np.nan, cells == level)) for level, _ in counts.most_common(MAX_LEVELS)]


def design(table: Table, rows: IntArray) -> tuple[list[str], FloatArray]:
    """Names (p,) and cells (len(rows), p): numbers as they are, text as indicators; the map of a mixed table."""
    columns: list[tuple[str, FloatArray]] = []
    for name in table.names:
        cells = table.columns[name][rows]
        if table.kind(name) == "text":
            columns += [(f"{name} = {level}", values) for level, values in indicators(cells)]
        else:
            columns.append((name, cells.astype(np.float64)))
    return [name for name, _ in columns], np.column_stack([values for _, values in columns])


def leading(found: Sequence[Trait], k: int, limit: int) -> list[Trait]:
    """The traits that set cluster k apart, strongest first."""
    worth = [trait for trait in found if abs(trait.difference[k]) >= WORTH_SAYING]
    return sorted(worth, key=lambda trait: -abs(trait.difference[k]))[:limit]


def describe(found: Sequence[Trait], k: int) -> str:
    """Cluster k in a few words."""
    present = [trait for trait in found if trait.level is None or trait.difference[k] > 0]
    words = []
    for trait in leading(present, k, 3):
        up = trait.difference[k] > 0
        sign = ("" if up else "not ") if trait.share else "high " if up else "low "
        words.append(sign + trait.name)
    return ", ".join(words) or "close to the average of the rest"


def number(value: float) -> str:
    """A number with three or so digits."""
    if not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share as a percentage that is 0 % or 100 % only when it is exactly that."""
    if not np.isfinite(share):
        return "-"
    share = abs(round(share, 9))
    if 0 < share < 0.005:
        return "< 1 %" if share >= 0.0005 else "< 0.1 %"
    if 0.995 <= share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"
