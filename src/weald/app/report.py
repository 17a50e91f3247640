"""The report of a run: one HTML file with its pictures inside, no script, nothing fetched.

Words and tables come from `view` (plain data, one key for each section of the template), pictures from `weald.plot`
as inline SVG whose ink is the colour of the text, so that the page reads on light, dark and paper. Everything that
comes from the data is escaped: by jinja2 in the page, by matplotlib in the pictures; a content security policy
forbids scripts and requests besides.

    html = render(run)
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weald import plot
from weald._typing import Array, FloatArray, IntArray
from weald.app.profiles import Trait, describe, design, leading, number, percent, traits
from weald.exceptions import need

if TYPE_CHECKING:
    from weald.app.cluster import Run
    from weald.app.prepare import Features

INK = "#0b0c0d"  # stands for the colour of the text until the picture is in the page
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "weald", "font.size": 9.5, "axes.labelsize": 9.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none", "text.parse_math": False,
}  # fmt: skip
FULL, HALF = 9.6, 4.6  # inches of pictures; the same letters in both
MAX_CARDS, MAX_TRAITS, MAX_ROWS, MAX_CLASSES = 24, 6, 10, 30


def check_extras() -> None:
    """Raise the error that says what to install, before any work is done."""
    for module, extra in (("jinja2", "app"), ("matplotlib", "plot")):
        try:
            __import__(module)
        except ImportError as error:
            raise need(module, extra, "the HTML report") from error


def render(run: Run) -> str:
    """The report as HTML."""
    check_extras()
    import jinja2

    folder = Path(__file__).parent / "templates"
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.filters |= {"number": number, "percent": percent}
    return str(pages.get_template("report.html.j2").render(view(run)))


def view(run: Run) -> dict[str, Any]:
    """What the template shows, section by section."""
    n_clusters = run.proba.shape[1]
    labels, certainty = run.labels, run.proba.max(axis=1)
    sizes = np.bincount(labels, minlength=n_clusters)
    order = np.argsort(-sizes, kind="stable")
    found = traits(run.table, labels, n_clusters)
    against = _comparison(run, labels, order)
    shown = [int(k) for k in order[:MAX_CARDS] if sizes[k]]
    return {
        "run": run,
        "title": Path(run.source).name if run.source != "-" else "standard input",
        "headline": _headline(run, sizes, certainty, against),
        "tiles": _tiles(run, sizes, certainty),
        "clusters": [_cluster(k, sizes, labels, certainty, found, n_clusters) for k in shown],
        "n_hidden": int((sizes > 0).sum()) - len(shown),
        "map": _map(run, labels),
        "heat": _heat(found, shown),
        "certainty": _certainty(run, certainty),
        "against": against,
        "trace": _trace(run),
        "figures": {name.replace("_", " "): number(value) for name, value in run.status.figures.items()},
        "how": _how(run),
    }


def _headline(run: Run, sizes: IntArray, certainty: FloatArray, against: dict[str, Any] | None) -> str:
    full = sizes[sizes > 0]
    groups = "One cluster" if len(full) == 1 else f"{len(full):,} clusters"
    text = f"{groups} in {run.table.n_rows:,} rows"
    text += f", from {full.min():,} to {full.max():,} rows each" if len(full) > 1 else ""
    text += f"; {percent(float((certainty >= 0.9).mean()))} of rows are assigned with at least 90 % probability."
    if len(full) < len(sizes):
        text += f" Of the {len(sizes)} asked for, {len(sizes) - len(full)} stayed empty."
    if against:
        text += f" Agreement with {run.settings.label}: adjusted Rand index {against['rand']:.2f}."
    return text


def _tiles(run: Run, sizes: IntArray, certainty: FloatArray) -> list[tuple[str, str]]:
    return [
        (f"{run.table.n_rows:,}", "rows"),
        (f"{len(run.table.names):,}", "columns used"),
        (f"{int((sizes > 0).sum()):,}", "clusters"),
        (percent(float(certainty.mean())), "mean certainty"),
        (f"{run.seconds:.1f} s", "to fit"),
    ]


def _cluster(
    k: int, sizes: IntArray, labels: IntArray, certainty: FloatArray, found: list[Trait], n_clusters: int
) -> dict[str, Any]:
    rows = []
    for trait in leading(found, k, MAX_TRAITS):
        inside, outside = trait.values(k)
        d = float(trait.difference[k])
        rows.append(
            {"name": trait.name, "d": d, "width": min(abs(d) / 2, 1) * 50, "inside": inside, "outside": outside}
        )
    return {
        "k": k,
        "colour": plot.palette(n_clusters)[k],
        "n": int(sizes[k]),
        "share": float(sizes[k] / sizes.sum()),
        "width": float(100 * sizes[k] / sizes.max()),
        "certainty": float(certainty[labels == k].mean()),
        "words": describe(found, k),
        "traits": rows,
    }


def _map(run: Run, labels: IntArray) -> Any:
    """Rows on a plane; numbers in the units of the model, so that its ellipses fit."""
    names, X, proba, model = list(run.features.names), run.X, run.proba, run.model
    if not isinstance(X, np.ndarray):
        rows = np.random.default_rng(0).permutation(run.table.n_rows)[: plot.MAX_ROWS]
        names, X = design(run.table, rows)
        proba, labels, model = proba[rows], labels[rows], None
    return svg(lambda ax: plot.plot_clusters(X, labels, proba, model, ax, names), FULL, 5.6, "map of the rows")


def _heat(found: list[Trait], shown: list[int]) -> Any:
    D = np.stack([trait.difference[shown] for trait in found], axis=1)
    width = FULL if len(found) > 4 else HALF
    names = [trait.name for trait in found]
    return svg(lambda ax: plot.plot_differences(D, names, ax, shown), width, 1.5 + 0.34 * len(shown), "profiles")


def _certainty(run: Run, certainty: FloatArray) -> dict[str, Any]:
    from weald.app.cluster import assignments

    table = assignments(run.proba, run.log_density)
    doubtful = np.argsort(certainty, kind="stable")[:MAX_ROWS]
    strange = np.argsort(run.log_density, kind="stable")[:MAX_ROWS]
    return {
        "figure": svg(lambda ax: plot.plot_certainty(run.proba, ax), HALF, 2.6, "certainty of the assignments"),
        "shares": [(level, percent(float((certainty >= level).mean()))) for level in (0.5, 0.9, 0.95, 0.99)],
        "doubtful": [_row(run, table, int(i)) for i in doubtful if run.proba.shape[1] > 1],
        "strange": [_row(run, table, int(i)) for i in strange],
    }


def _row(run: Run, table: dict[str, Array], i: int) -> dict[str, Any]:
    given = None if run.ids is None else "-" if run.ids[i] is None else str(run.ids[i])
    return {"row": i, "id": given, **{name: cells[i].item() for name, cells in table.items()}}


def _comparison(run: Run, labels: IntArray, order: IntArray) -> dict[str, Any] | None:
    """Clusters against the label column; rows without a label take no part."""
    if run.given is None:
        return None
    from sklearn.metrics import adjusted_rand_score

    from weald.metrics import purity

    known = np.array([cell is not None and cell == cell for cell in run.given.tolist()])
    if not known.any():
        return None
    classes, codes = np.unique(run.given[known].astype(str), return_inverse=True)
    counts = np.zeros((len(classes), len(order)), np.int64)
    np.add.at(counts, (codes, labels[known]), 1)
    columns = sorted((int(k) for k in order if counts[:, k].any()), key=lambda k: int(counts[:, k].argmax()))
    rows = [(name, counts[c, columns].tolist()) for c, name in enumerate(classes)]
    return {
        "name": run.settings.label,
        "columns": columns[:MAX_CLASSES],
        "rows": [(name, [(n, n / max(sum(ns), 1)) for n in ns[:MAX_CLASSES]]) for name, ns in rows[:MAX_CLASSES]],
        "n_hidden": max(len(classes) - MAX_CLASSES, 0),
        "n_unknown": int((~known).sum()),
        "rand": float(adjusted_rand_score(codes, labels[known])),
        "purity": purity(codes, labels[known]),
    }


def _trace(run: Run) -> Any:
    stats = run.model.posterior_.stats
    name = "objective" if "objective" in stats else "log_likelihood"
    if name not in stats:
        return ""
    return svg(lambda ax: plot.plot_trace(run.model.posterior_, name, ax), HALF, 2.6, "convergence")


def _how(run: Run) -> dict[str, Any]:
    from weald.app.cluster import versions

    words = {
        "none": "none: columns as they came",
        "standard": "standard: each number column less its mean, divided by its standard deviation",
        "robust": "robust: each number column less its median, divided by its interquartile range / 1.349",
    }
    asked = run.settings
    return {
        "parameters": {
            "family": run.features.family + (" (chosen from the columns)" if asked.family == "auto" else ""),
            "covariance": asked.covariance if run.features.family in ("gaussian", "mixed") else "-",
            "inference": {"em": "EM", "sem": "stochastic EM", "gibbs": "Gibbs sampling", "vb": "variational Bayes"}[
                asked.inference
            ],
            "scaling": words[asked.scale],
            **_length(run.model.get_params(deep=False), asked.inference),
            "seed": asked.seed,
            **_by_kind(run.features),
        },
        "versions": versions(),
        "command": run.command,
        "python": run.python,
    }


def _by_kind(features: Features) -> dict[str, str]:
    words = {"float": "numbers", "count": "counts", "bool": "true or false", "text": "categories"}
    pairs = list(zip(features.names, features.kinds, strict=True))
    return {
        word: ", ".join(name for name, of in pairs if of == kind)
        for kind, word in words.items()
        if kind in features.kinds
    }


def _length(params: dict[str, Any], inference: str) -> dict[str, str]:
    if inference == "gibbs":
        return {"chains": f"{params['chains']}, each {params['warmup']} sweeps of warmup and {params['draws']} draws"}
    return {"starts": f"{params['n_init']}, the best kept; at most {params['max_iter']} sweeps each"}


def svg(draw: Callable[[Any], Any], width: float, height: float, caption: str) -> Any:
    """One picture as markup: `draw` is given Axes of width x height inches."""
    import matplotlib
    from markupsafe import Markup
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", dpi=170, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    prefix = re.sub(r"\W+", "-", caption)
    text = re.sub(r'((?: id="|href="#|url\(#))', rf"\g<1>{prefix}-", text)
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{caption}" ', 1))
