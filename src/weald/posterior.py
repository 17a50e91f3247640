"""Contract E: what a run leaves behind, as plain arrays.

    draws[name]  (chain, draw, ...)   what the model believes: kept draws of each quantity
    stats[name]  (chain, sweep)       what each sweep measured; the first `warmup` sweeps come before the draws
    status       may the result be trusted, and if not, what to do
    attrs        seed, versions, wall time, ...: JSON

With ``attrs["thin"] = t`` one draw is kept after every t-th sweep that follows warmup. Quantities whose size changes
from draw to draw are padded with NaN (floats) or -1 (labels). Names follow ArviZ (``lp`` is the log joint density);
ArviZ itself is met only in `Posterior.to_arviz`.

    >>> posterior = Posterior({"alpha": np.ones((2, 5))}, {}, Status(), {"seed": 0})
    >>> posterior.n_chains, posterior.n_draws, posterior.flat("alpha").shape
    (2, 5, (10,))
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from weald._typing import JSON, Array
from weald.diagnostics import Summary, summarise
from weald.exceptions import ParameterError, Status, need

ARVIZ_NAMES = {"log_likelihood": "log_likelihood_sum"}  # ArviZ keeps the plain name for pointwise values


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws, measurements and the verdict on them.

    Parameters
    ----------
    draws : mapping of str to array of shape (chain, draw, ...)
        Kept draws of each quantity.
    stats : mapping of str to array of shape (chain, sweep)
        Measurements of every sweep, warmup included.
    status : Status
        How far to trust the draws.
    attrs : mapping of str to JSON
        Seed, versions, wall time, inference, thin.
    warmup : int
        Leading sweeps of `stats` that belong to warmup.
    """

    draws: Mapping[str, Array]
    stats: Mapping[str, Array]
    status: Status
    attrs: Mapping[str, JSON]
    warmup: int = 0

    def __post_init__(self) -> None:
        _check_arrays("draws", self.draws)
        _check_arrays("stats", self.stats)
        if wrong := [name for name, x in self.stats.items() if x.ndim != 2]:
            raise ParameterError(f"stats {wrong} must have shape (chain, sweep)")
        if len({x.shape[0] for group in (self.draws, self.stats) for x in group.values()}) > 1:
            raise ParameterError("draws and stats must have the same number of chains")
        if not isinstance(self.warmup, int) or not 0 <= self.warmup <= self.n_sweeps:
            raise ParameterError(f"warmup must be an int from 0 to {self.n_sweeps}, all sweeps; got {self.warmup!r}")

    @property
    def n_chains(self) -> int:
        """How many chains were run."""
        return next((x.shape[0] for group in (self.draws, self.stats) for x in group.values()), 0)

    @property
    def n_draws(self) -> int:
        """How many draws each chain kept."""
        return next((x.shape[1] for x in self.draws.values()), 0)

    @property
    def n_sweeps(self) -> int:
        """How many sweeps each chain made, warmup included."""
        return next((x.shape[1] for x in self.stats.values()), 0)

    def flat(self, name: str) -> Array:
        """All chains end to end: (chain, draw, ...) -> (chain * draw, ...)."""
        if name not in self.draws:
            raise ParameterError(f"no draws of {name!r}; this posterior has {sorted(self.draws)}")
        x = self.draws[name]
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])

    def summary(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Moments and diagnostics as a table, one row for each entry of each quantity.

        Parameters
        ----------
        names : iterable of str, optional
            Which quantities; by default all but integer arrays such as labels.

        Returns
        -------
        dict of str to array of shape (rows,)
            Columns ``name``, ``mean``, ``sd``, ``mcse``, ``ess_bulk``, ``ess_tail``, ``rhat``.
        """
        parts = summarise(self, names)
        labels = [label for name in parts for label in _entries(name, self.draws[name].shape[2:])]
        table: dict[str, Array] = {"name": np.array(labels, np.str_)}
        for field in Summary._fields:
            columns = [np.ravel(getattr(part, field)) for part in parts.values()]
            table[field] = np.concatenate(columns) if columns else np.empty(0)
        return table

    def to_arviz(self) -> Any:
        """The same as ArviZ data: InferenceData before ArviZ 1, a DataTree since.

        Measurements become ``sample_stats`` where there is one for each draw; warmup stays behind.
        """
        groups = {"posterior": dict(self.draws)}
        if stats := self._stats_of_draws():
            groups["sample_stats"] = stats
        return _arviz_from(groups, {**self.attrs, "status": str(self.status)})

    def _stats_of_draws(self) -> dict[str, Array]:
        """Measurements of the sweeps whose draws were kept; empty when they do not line up."""
        thin = self.attrs.get("thin", 1)
        if not isinstance(thin, int) or thin < 1:
            return {}
        kept = {ARVIZ_NAMES.get(name, name): x[:, self.warmup + thin - 1 :: thin] for name, x in self.stats.items()}
        return kept if all(x.shape[1] == self.n_draws for x in kept.values()) else {}

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {x.shape[2:] or 'scalar'}" for name, x in self.draws.items()) or "none"
        size = f"{self.n_chains} chain(s) of {self.n_draws} draws after {self.warmup} warmup sweeps"
        return f"Posterior: {size}. Draws: {shapes}. Stats: {', '.join(self.stats) or 'none'}. Status {self.status}"

    def _repr_html_(self) -> str:
        rows = [(name, str(x.shape[2:] or "scalar"), str(x.dtype)) for name, x in self.draws.items()]
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        title = f"<b>Posterior</b>: {self.n_chains} chain(s) of {self.n_draws} draws"
        head = "<tr><th>draws</th><th>shape</th><th>dtype</th></tr>"
        return f"<div>{title}<pre>{escape(str(self.status))}</pre><table>{head}{cells}</table></div>"


def _check_arrays(what: str, group: Mapping[str, Array]) -> None:
    """Every entry is a plain array, and the first axes agree."""
    for name, x in group.items():
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "biuf" or x.ndim < 2:
            kind = f"{x.dtype} array of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
            raise ParameterError(
                f"{what}[{name!r}] must be a real array of shape (chain, draw or sweep, ...), got {kind}"
            )
    shapes = {name: x.shape[:2] for name, x in group.items()}
    if len(set(shapes.values())) > 1:
        raise ParameterError(f"{what} must agree on the first two axes, got {shapes}")


def _entries(name: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{name}[{','.join(map(str, i))}]" if shape else name for i in np.ndindex(*shape)]


def _arviz_from(groups: dict[str, dict[str, Array]], attrs: Mapping[str, JSON]) -> Any:
    """The one place that knows ArviZ: keyword groups before version 1, a mapping of groups since."""
    with warnings.catch_warnings():  # ArviZ 0.23 announces ArviZ 1 when imported
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz
        except ImportError as error:
            raise need("arviz", "plot", "Posterior.to_arviz") from error
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="More chains|Found chain dimension", category=UserWarning)
        modern = int(arviz.__version__.split(".")[0]) >= 1
        data = arviz.from_dict(groups) if modern else arviz.from_dict(**groups)
    plain = {name: x if isinstance(x, str | int | float) else json.dumps(x) for name, x in attrs.items()}
    data["posterior"].attrs.update({name: int(x) if isinstance(x, bool) else x for name, x in plain.items()})
    return data
