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

from weald import consensus, plot
from weald._typing import Array, FloatArray, IntArray
from weald.app import doubts
from weald.app.profiles import Trait, describe, design, leading, number, percent, traits
from weald.exceptions import need
from weald.mixtures.outcome import for_consensus

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
MAX_CARDS, MAX_TRAITS, MAX_ROWS, MAX_CLASSES, MAX_PAIRED = 24, 6, 10, 30, 300
METHODS = {
    "em": "EM", "sem": "stochastic EM", "gibbs": "Gibbs sampling", "vb": "variational Bayes",
    "collapsed": "collapsed Gibbs sampling with split-merge moves", "tree-guided": "tree-guided split-merge moves",
    "parallel": "parallel Gibbs sampling with split-merge moves",
}  # fmt: skip
PRIORS = {
    "dp": "Dirichlet process", "pitman-yor": "Pitman-Yor process", "nggp": "normalised generalised gamma process",
    "nig": "normalised inverse Gaussian process", "mfm": "mixture of finite mixtures",
}  # fmt: skip


def check_extras() -> None:
    """Raise the error that says what to install, before any work is done."""
    for module, extra in (("jinja2", "app"), ("matplotlib", "plot")):
        try:
            __import__(module)
        except ImportError as error:
            raise need(module, extra, "the HTML report") from error


def render(run: Run) -> str:
    """The report as HTML."""
    return page("report.html.j2", view(run))


def page(template: str, shown: dict[str, Any]) -> str:
    """A page of a template, escaped."""
    check_extras()
    import jinja2

    folder = Path(__file__).parent / "templates"
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    pages.filters |= {"number": number, "percent": percent}
    return str(pages.get_template(template).render(shown))


def view(run: Run) -> dict[str, Any]:
    """What the template shows, section by section."""
    n_clusters = run.proba.shape[1]
    labels, certainty = run.labels, run.certainty
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
        "heat": _heat(found, shown) if len(found) > 1 else None,
        "certainty": _certainty(run, certainty),
        "against": against,
        "doubts": _doubts(run, labels) if run.settings.k is None else None,
        "traces": _traces(run),
        "figures": {name.replace("_", " "): number(value) for name, value in run.status.figures.items()},
        "how": _how(run),
    }


def _headline(run: Run, sizes: IntArray, certainty: FloatArray, against: dict[str, Any] | None) -> str:
    full = sizes[sizes > 0]
    text = f"{run.found} in {run.table.n_rows:,} rows"
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
    table = run.assigned
    doubtful = np.argsort(certainty, kind="stable")[:MAX_ROWS]
    strange = np.argsort(run.log_density, kind="stable")[:MAX_ROWS]
    return {
        "figure": svg(
            lambda ax: plot.plot_certainty(certainty[:, None], ax), HALF, 2.6, "certainty of the assignments"
        ),
        "shares": [(level, percent(float((certainty >= level).mean()))) for level in (0.5, 0.9, 0.95, 0.99)],
        "doubtful": [_row(run, table, int(i)) for i in doubtful if run.settings.k not in (None, 1)],
        "strange": [_row(run, table, int(i)) for i in strange],
    }


def _row(run: Run, table: dict[str, Array], i: int) -> dict[str, Any]:
    return {"row": i, "id": _id(run, i), **{name: cells[i].item() for name, cells in table.items()}}


def _id(run: Run, i: int) -> str | None:
    return None if run.ids is None else "-" if run.ids[i] is None else str(run.ids[i])


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


def _doubts(run: Run, labels: IntArray) -> dict[str, Any]:
    """What is unsure where the number of clusters is: how many, who goes with whom, and how far it may be off."""
    model, Z = run.model, for_consensus(run.model.posterior_.flat("z"))
    shown = doubts.spread(labels, model.uncertainty_, MAX_PAIRED)
    P, paired = doubts.together(Z, labels), model.co_clustering_(shown)
    values, probability = consensus.n_clusters_posterior(Z)
    ball, best = model.partition_ball_, int(np.argmax(probability))
    draw = lambda ax: plot.plot_co_clustering(paired, labels[shown], ax)  # noqa: E731
    return {
        "n_clusters": svg(lambda ax: plot.plot_n_clusters(model, ax), HALF, 2.9, "number of clusters"),
        "n_found": model.n_components_,
        "interval": model.n_components_interval_,
        "likeliest": (int(values[best]), percent(float(probability[best]))),
        "n_draws": int(np.prod(model.posterior_.draws["z"].shape[:2])),
        "together": svg(draw, FULL, 7.4, "rows that go together"),
        "n_shown": len(shown),
        "merged": doubts.merged(P, MAX_ROWS),
        "split": doubts.split(P, MAX_ROWS),
        "rows": _unsure_rows(run, labels, Z),
        "ball": {
            "radius": ball.radius,
            "most": float(np.log(len(labels))),
            "fewest": int(ball.upper.max()) + 1,
            "greatest": int(ball.lower.max()) + 1,
        },
        "colours": plot.palette(run.proba.shape[1]),
    }


def _unsure_rows(run: Run, labels: IntArray, Z: IntArray) -> list[dict[str, Any]]:
    """The rows whose place is least sure, and the other cluster that they are with most."""
    unsure = run.model.uncertainty_
    rows = np.argsort(-unsure, kind="stable")[:MAX_ROWS]
    near = doubts.with_clusters(Z, labels, rows)
    near[np.arange(len(rows)), labels[rows]] = -1.0
    columns: dict[str, Array] = {"cluster": labels[rows], "own": 1 - unsure[rows], "other": near.argmax(axis=1)}
    columns["with_other"] = np.maximum(near.max(axis=1), 0.0)
    return [
        {"row": int(i), "id": _id(run, int(i)), **{name: cells[j].item() for name, cells in columns.items()}}
        for j, i in enumerate(rows)
        if unsure[i] >= doubts.WORTH_SAYING
    ]


def _traces(run: Run) -> list[Any]:
    """One picture for each measurement that tells whether the fit has settled."""
    posterior = run.model.posterior_
    first = next((name for name in ("log_joint", "objective", "log_likelihood") if name in posterior.stats), None)
    names = [name for name in (first, "n_clusters") if name and name in posterior.stats]

    def picture(name: str) -> Any:
        return svg(lambda ax: plot.plot_trace(posterior, name, ax), HALF, 2.6, f"trace of {name}")

    return [picture(name) for name in names]


def _how(run: Run) -> dict[str, Any]:
    from weald.app.runs import versions

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
            **_method(run),
            "scaling": words[asked.scale],
            **_length(run),
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


def _method(run: Run) -> dict[str, str]:
    """How it was fitted, and under which prior where the number of clusters is unknown."""
    if run.settings.k is not None:
        return {"inference": METHODS[run.model.inference]}
    chosen, _, why = str(run.model.posterior_.attrs["inference"]).removeprefix("auto: ").partition(", for ")
    method = METHODS[chosen] + (f" (chosen for {why})" if why else "")
    return {"prior": PRIORS[run.settings.prior or "dp"], "inference": method}


def _length(run: Run) -> dict[str, str]:
    params, posterior = run.model.get_params(deep=False), run.model.posterior_
    if "log_joint" in posterior.stats or params["inference"] == "gibbs":
        kept = f"{posterior.warmup:,} sweeps of warmup and {posterior.n_draws:,} draws"
        return {"chains": f"{posterior.n_chains}, each {kept}"}
    if run.settings.k is None:
        return {"draws": f"{posterior.n_draws:,} of the labels, from the approximation"}
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
