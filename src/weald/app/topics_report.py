"""The report of a run of topics: their words, sizes, places, documents and times, and whether to believe them.

As in `weald.app.report`, words come from `view`, pictures are inline, everything from the data is escaped, nothing
runs and nothing is fetched.

    html = render(run)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weald import plot
from weald._canvas import FAINT
from weald._typing import IntArray
from weald.app.profiles import number
from weald.app.report import FULL, HALF, page, svg
from weald.app.runs import versions
from weald.app.topic_tables import n_words, word_table
from weald.plot_topics import MAX_PERIODS, MAX_RIDGES

if TYPE_CHECKING:
    from weald.app.topics import TopicRun

MAX_CARDS, MAX_ROWS = 60, 10
TYPICAL, FEW_WORDS = 3, 30  # documents shown of a topic; the words that make half of a document's weight
PERIODS = (("Y", 6), ("M", 6), ("D", 0))  # unit of time, and how many there must be
UNITS = {"Y": "year", "M": "month", "D": "day"}
METHODS = {
    "gibbs": "collapsed Gibbs sampling",
    "online-vb": "online variational Bayes",
    "em": "EM",
    "vb": "batch variational Bayes",
    "svi": "stochastic variational inference",
}
TRACES = ("log_joint", "lp", "log_likelihood", "elbo", "bound", "objective", "perplexity")


def render(run: TopicRun) -> str:
    """The report as HTML."""
    return page("topics.html.j2", view(run))


def view(run: TopicRun) -> dict[str, Any]:
    """What the template shows, section by section."""
    colours = plot.palette(run.n_topics)
    return {
        "run": run,
        "title": Path(run.source).name if run.source != "-" else "standard input",
        "headline": _headline(run),
        "tiles": _tiles(run),
        "topics": _topics(run, colours),
        "n_cards": MAX_CARDS,
        "id_name": run.counted.id,
        "number_of_topics": _number(run) if run.settings.k is None else None,
        "map": _map(run),
        "times": _times(run),
        "fitness": _fitness(run),
        "strange": _strange(run),
        "colours": colours,
        "traces": _traces(run),
        "figures": {name.replace("_", " "): number(value) for name, value in run.status.figures.items()},
        "how": _how(run),
    }


def _headline(run: TopicRun) -> str:
    text = f"{run.found} in {run.counted.n_documents:,} documents"
    if run.fitness.perplexity is None:
        return f"{text}. They are too few to hold some out, so nothing says how well the topics predict."
    assert run.fitness.unigram is not None
    return (
        f"{text}; a new document's words are as hard to guess as one of {run.fitness.perplexity:,.0f} equally "
        f"likely words, against {run.fitness.unigram:,.0f} without topics."
    )


def _tiles(run: TopicRun) -> list[tuple[str, str]]:
    return [
        (f"{run.counted.n_documents:,}", "documents"),
        (f"{int(n_words(run.counted.X).sum()):,}", "words counted"),
        (f"{len(run.counted.vocabulary.words):,}", "different words"),
        (f"{run.n_topics:,}", "topics"),
        (f"{run.seconds:.1f} s", "to fit"),
    ]


def _topics(run: TopicRun, colours: list[str]) -> list[dict[str, Any]]:
    """Topics, largest first, each with its words and the documents that show it best."""
    n, vocabulary = run.settings.words, run.counted.vocabulary.words
    table = word_table(run.model, vocabulary, n)
    apart = run.model.topics_(n, vocabulary, by="lift")
    sizes, leading = run.model.topic_sizes_, np.bincount(run.leading, minlength=run.n_topics)
    typical = _typical(run)
    found = []
    for k in range(run.n_topics):
        mine = table["topic"] == k
        words = zip(table["word"][mine], table["probability"][mine], table["lift"][mine], strict=True)
        first = float(table["probability"][mine].max())
        rows = [{"word": w, "width": float(100 * p / first), "p": float(p), "lift": float(u)} for w, p, u in words]
        found.append(
            {
                "k": k,
                "colour": colours[k],
                "share": float(sizes[k]),
                "width": float(100 * sizes[k] / sizes.max()),
                "n_documents": int(leading[k]),
                "coherence": float(run.fitness.coherence[k]),
                "words": rows,
                "apart": [word for word in apart[k] if word not in set(table["word"][mine])],
                "documents": [_document(run, int(d), float(run.proportions[d, k])) for d in typical[k]],
            }
        )  # fmt: skip
    return found


def _typical(run: TopicRun) -> list[IntArray]:
    """For each topic the documents with the largest shares of it, short ones weighing less."""
    n = n_words(run.counted.X)
    weight = n / (n + FEW_WORDS)
    best = [np.argsort(-weight * column, kind="stable")[:TYPICAL] for column in run.proportions.T]
    return [rows[(run.leading[rows] == k) & (n[rows] > 0)] for k, rows in enumerate(best)]


def _document(run: TopicRun, row: int, share: float) -> dict[str, Any]:
    counted = run.counted
    id = None if counted.ids is None or counted.ids[row] is None else str(counted.ids[row])
    date = None if counted.dates is None or np.isnat(counted.dates[row]) else str(counted.dates[row])[:10]
    return {"row": row, "id": id, "date": date, "share": share, "excerpt": counted.excerpts[row]}


def _map(run: TopicRun) -> Any:
    """Topics on a plane; nothing where there are fewer than three."""
    if run.n_topics < 3:
        return None
    words = run.counted.vocabulary.words
    return svg(lambda ax: plot.plot_topic_map(run.model, words, ax=ax).set_xlabel(""), FULL, 6.0, "map of the topics")


def _times(run: TopicRun) -> dict[str, Any] | None:
    """Topics over time, by the coarsest unit that gives some periods; documents without words say nothing."""
    dates = run.counted.dates
    if dates is None or np.isnat(dates).all():
        return None
    dated = ~np.isnat(dates) & (n_words(run.counted.X) > 0)
    for unit, least in PERIODS:
        periods = dates[dated].astype(f"datetime64[{unit}]")
        if int((periods.max() - periods.min()).astype(np.int64)) >= least - 1:
            break
    n, words = min(run.n_topics, MAX_RIDGES), run.counted.vocabulary.words

    def draw(ax: Any) -> None:
        plot.plot_topics_over_time(run.proportions[dated], periods.astype("datetime64[s]"), run.model, words, ax=ax)

    return {
        "unit": UNITS[unit],
        "spans": len(np.unique(periods)) > MAX_PERIODS,
        "n_missing": int(np.isnat(dates).sum()),
        "n_hidden": run.n_topics - n,
        "figure": svg(draw, FULL, 0.36 * n + 1.0, "topics over time") if len(np.unique(periods)) > 1 else None,
    }


def _fitness(run: TopicRun) -> dict[str, Any]:
    coherence = run.fitness.coherence
    best = np.argsort(-coherence, kind="stable")
    return {
        "n_held_out": run.fitness.n_held_out,
        "perplexity": run.fitness.perplexity,
        "unigram": run.fitness.unigram,
        "coherence": float(np.nanmean(coherence)) if np.isfinite(coherence).any() else None,
        "most": [int(k) for k in best[:3]],
        "least": [int(k) for k in best[::-1][:3]],
    }


def _strange(run: TopicRun) -> list[dict[str, Any]]:
    """Documents whose words the topics explain worst; short ones are left to chance."""
    n = n_words(run.counted.X)
    able = np.flatnonzero((n >= min(FEW_WORDS, np.median(n[n > 0]))) & np.isfinite(run.log_probability))
    rows = able[np.argsort(run.log_probability[able], kind="stable")[:MAX_ROWS]]
    return [
        _document(run, int(d), float(run.proportions[d].max()))
        | {"topic": int(run.leading[d]), "log_probability": float(run.log_probability[d])}
        for d in rows
    ]


def _number(run: TopicRun) -> dict[str, Any]:
    """How many topics: with sampling, what the draws say."""
    interval = run.interval
    if interval is None:
        return {"n": run.n_topics, "interval": None, "figure": None}
    low, high = interval
    values, probability = run.model.n_topics_posterior_

    def draw(ax: Any) -> None:
        inside = (values >= low) & (values <= high)
        ax.bar(values, probability, width=0.8, color=np.where(inside, plot.COLOURS[0], FAINT))
        ax.set(xlabel="number of topics", ylabel="share of draws", xlim=(values[0] - 1.4, values[-1] + 1.4))
        ax.xaxis.get_major_locator().set_params(integer=True)

    return {"n": run.n_topics, "interval": interval, "figure": svg(draw, HALF, 2.6, "number of topics")}


def _traces(run: TopicRun) -> list[tuple[str, Any]]:
    """One picture for each measurement that tells whether the fit has settled, with its name."""
    posterior = run.model.posterior_
    names = [name for name in TRACES if name in posterior.stats][:1]
    names += [name for name in ("n_topics",) if name in posterior.stats]

    def picture(name: str) -> Any:
        def draw(ax: Any) -> None:
            from matplotlib.ticker import EngFormatter

            plot.plot_trace(posterior, name, ax).xaxis.get_major_locator().set_params(integer=True)
            if not name.startswith("n_"):
                ax.yaxis.set_major_formatter(EngFormatter())

        return svg(draw, HALF, 2.6, f"trace of {name}")

    return [(name.removeprefix("n_").replace("_", " "), picture(name)) for name in names]


def _how(run: TopicRun) -> dict[str, Any]:
    asked, posterior = run.settings, run.model.posterior_
    low, high = asked.pruning.limits(run.counted.n_documents)
    parameters: dict[str, Any] = {
        "model": "hierarchical Dirichlet process" if asked.k is None else "latent Dirichlet allocation",
        "inference": METHODS[run.model.inference],
        "words": f"lower case, two letters or more, in at least {low:.6g} and at most {high:.6g} documents",
        "stop words": asked.stop_words,
        "prior of proportions": f"Dirichlet, parameters from {number(float(run.model.alpha_.min()))} to "
        f"{number(float(run.model.alpha_.max()))}",
        "sweeps": f"{posterior.n_chains} x {posterior.n_sweeps:,}",
        "held out": f"{run.fitness.n_held_out:,} documents",
        "seed": asked.seed,
    }
    return {"parameters": parameters, "versions": versions(), "command": run.command, "python": run.python}
