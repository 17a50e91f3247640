"""Pictures of topics: their words, a map, documents, time. Each returns matplotlib Axes.

    words       a table: top words of each topic on bars of their probability
    hinton      squares of area phi_kw: which words topics share (journal (003) Figure 24)
    map         classical scaling of Jensen-Shannon distances; circles of area proportional to the share of tokens
    over time   one ridge for each topic: mean proportion of the documents of each period, one scale for all
    mixtures    one bar for each document

A topic is told by its number and its words, never by its colour alone. All are reached from `weald.plot`.

    ax = plot.plot_topic_words(model, vectorizer.get_feature_names_out())
    ax = plot.plot_topic_map(model, words)
    ax = plot.plot_topics_over_time(model.transform(X), dates, model, words)
    ax = plot.plot_mixtures(model.transform(X[:10]), titles)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from weald._canvas import COLOURS, FAINT, axes_or_new, palette, short
from weald._typing import Array, FloatArray
from weald.exceptions import DataError, ParameterError

MAX_BARS, MAX_RIDGES, MAX_PERIODS = 60, 24, 24  # documents, topics, periods that a picture has room for
LETTER = 0.56  # width of a letter in units of its height, about


def plot_topic_words(
    model: Any,
    words: Sequence[str] | None = None,
    n_words: int = 8,
    *,
    by: Literal["probability", "lift"] = "probability",
    columns: int = 5,
    ax: Any = None,
) -> Any:
    """A table of the top words of each topic; bars are probabilities, each topic on its own scale.

    Parameters
    ----------
    model : fitted topic model, `Topics`, or (K, V) array
    words : sequence of V str, optional
        The vocabulary; by default the column names of the fit.
    n_words : int
        Words of each topic.
    by : str
        ``"probability"``, or ``"lift"``: words that set the topic apart.
    columns : int
        Topics side by side.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    from weald.topics.coherence import top_words

    phi, sizes, names = _read(model, words)
    top = top_words(phi, sizes, n_words, by=by)
    K, n = top.shape
    columns = min(columns, K)
    ax = axes_or_new(ax, (2.1 * columns, (0.23 * n + 0.45) * -(-K // columns)))
    shares = sizes / sizes.sum()
    for k, colour in enumerate(palette(K)):
        x, y = k % columns, (k // columns) * (n + 2.2)
        p = phi[k, top[k]]
        share = f"   {shares[k]:.0%}" if _has_sizes(model) else ""
        ax.text(x, y, f"topic {k}{share}", weight="bold", va="center")
        ax.plot([x, x + 0.88], [y + 0.62] * 2, color=colour, linewidth=1.6)
        ax.barh(y + 1.2 + np.arange(n), 0.88 * p / max(p.max(), 1e-300), 0.84, x, color=colour, alpha=0.28, linewidth=0)
        for i, w in enumerate(top[k]):
            place = {"va": "center", "fontsize": "small", "parse_math": False}
            ax.text(x + 0.02, y + 1.2 + i, short(names[w], 17), **place)
            ax.text(x + 0.88, y + 1.2 + i, _percent(p[i]), ha="right", alpha=0.65, **place)
    ax.set(xlim=(-0.02, columns - 0.06), ylim=((-(-K // columns)) * (n + 2.2) - 1, -0.8))
    ax.axis("off")
    return ax


def plot_hinton(model: Any, words: Sequence[str] | None = None, n_words: int = 3, ax: Any = None) -> Any:
    """Hinton diagram of words by topics: the area of a square is the probability of the word in the topic.

    The largest squares stand for the probability that nine in ten top words do not exceed, and for all above it.

    Parameters
    ----------
    model : fitted topic model, `Topics`, or (K, V) array
    words : sequence of V str, optional
        The vocabulary; by default the column names of the fit.
    n_words : int
        The top words of each topic are the rows, topic by topic, each word once.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    from weald.topics.coherence import top_words

    phi, sizes, names = _read(model, words)
    rows = list(dict.fromkeys(top_words(phi, sizes, n_words).ravel().tolist()))
    shown = phi[:, rows].T
    ax = axes_or_new(ax, (0.26 * len(phi) + 1.6, 0.2 * len(rows) + 0.6))
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    largest = max(float(np.quantile(phi.max(axis=1), 0.9)), 1e-300)
    sides = 0.92 * np.sqrt(np.minimum(shown / largest, 1))
    squares = [Rectangle((k - s / 2, i - s / 2), s, s) for (i, k), s in np.ndenumerate(sides)]
    for k in range(len(phi)):
        ax.axvline(k, color=FAINT, linewidth=0.5, alpha=0.35, zorder=0)
    ax.add_collection(PatchCollection(squares, facecolor=COLOURS[0], linewidth=0))
    ax.set(xlim=(-0.6, len(phi) - 0.4), ylim=(len(rows) - 0.4, -0.6), aspect="equal", xlabel="topic")
    ax.set_yticks(range(len(rows)), [short(names[w], 20) for w in rows], parse_math=False, fontsize="small")
    ax.set_xticks(range(len(phi)), [str(k) for k in range(len(phi))], fontsize="small")
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    return ax


def plot_topic_map(model: Any, words: Sequence[str] | None = None, n_words: int = 3, ax: Any = None) -> Any:
    """Topics on a plane, near each other where they use the same words; areas are shares of the tokens.

    Parameters
    ----------
    model : fitted topic model, `Topics`, or (K, V) array
    words : sequence of V str, optional
        The vocabulary; by default the column names of the fit.
    n_words : int
        Words beside each circle, where there is room; 0 for none.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    from matplotlib.patches import Circle

    from weald.topics.vis import coordinates

    ax = axes_or_new(ax, (7.2, 5.2))
    phi, sizes, names = _read(model, words)
    points, shares = coordinates(phi), sizes / sizes.sum()
    span = max(float(np.ptp(points, axis=0).max()), 0.1)
    radii = span * np.sqrt(0.09 * shares / np.pi)
    for k, colour in enumerate(palette(len(phi))):
        look = {"facecolor": (colour, 0.55), "edgecolor": colour, "linewidth": 1.2}
        ax.add_patch(Circle(tuple(points[k]), radii[k], zorder=2 - shares[k], **look))
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.autoscale_view()
    ax.axhline(0, color=FAINT, linewidth=0.5, alpha=0.5, zorder=0)
    ax.axvline(0, color=FAINT, linewidth=0.5, alpha=0.5, zorder=0)
    _name_circles(ax, points, radii, _labels(phi, sizes, names, n_words))
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel("near: the same words (Jensen-Shannon distance)   area: share of the tokens")
    ax.spines[:].set_visible(False)
    return ax


def plot_topics_over_time(
    theta: FloatArray,
    dates: Array,
    model: Any = None,
    words: Sequence[str] | None = None,
    *,
    n_periods: int = MAX_PERIODS,
    ax: Any = None,
) -> Any:
    """One ridge for each topic: its mean proportion in the documents of each period, all on one scale.

    Parameters
    ----------
    theta : (n, K) array
        Proportions of topics, as `transform` gives them.
    dates : (n,) array
        Dates or numbers, such as years; documents without one take no part.
    model : fitted topic model, `Topics`, or (K, V) array, optional
        Names topics by their top words.
    words : sequence of V str, optional
        The vocabulary; by default the column names of the fit.
    n_periods : int
        Periods of equal length; dates that are few enough are periods of their own.
    ax : Axes, optional
        Where to draw; the `MAX_RIDGES` largest topics are drawn.

    Returns
    -------
    Axes
    """
    theta = np.asarray(theta, np.float64)
    times, is_date = _times(dates, len(theta))
    seen = np.isfinite(times)
    if not seen.any():
        raise DataError("no document has a date")
    middle, share = _by_period(theta[seen], times[seen], n_periods)
    shown = np.sort(np.argsort(-theta[seen].mean(axis=0), kind="stable")[:MAX_RIDGES])
    ax = axes_or_new(ax, (7.2, 0.42 * len(shown) + 0.8))
    top = max(float(np.nanmax(share[:, shown])), 1e-12)
    for row, k in enumerate(shown):
        colour, height = palette(theta.shape[1])[k], row - 0.92 * share[:, k] / top
        ax.fill_between(middle, row, height, color=colour, alpha=0.35, linewidth=0)
        ax.plot(middle, height, color=colour, linewidth=1.4, marker="o" if len(middle) < 8 else None, markersize=3)
        ax.axhline(row, color=FAINT, linewidth=0.6)
        peak = int(np.nanargmax(share[:, k]))
        ax.annotate(
            _percent(share[peak, k]), (middle[peak], height[peak]), (0, 1.5), textcoords="offset points",
            ha="center", va="bottom", fontsize="x-small",
        )  # fmt: skip
    labels = [str(k) for k in range(theta.shape[1])] if model is None else _labels(*_read(model, words), 3)
    ax.set_yticks(range(len(shown)), [labels[k] for k in shown], parse_math=False, fontsize="small")
    ax.set_ylim(len(shown) - 0.85, -1.25)
    ax.margins(x=0.03)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "right", "top"]].set_visible(False)
    if is_date:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=8)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    elif (times[seen] == np.round(times[seen])).all():
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    return ax


def plot_mixtures(theta: FloatArray, names: Sequence[str] | None = None, ax: Any = None) -> Any:
    """One bar for each document, cut into its topics; parts that are wide enough bear the number of the topic.

    Parameters
    ----------
    theta : (n, K) array
        Proportions of topics; the first `MAX_BARS` documents are drawn.
    names : sequence of n str, optional
        Names of documents, such as titles.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    from matplotlib.colors import to_rgb

    theta = np.asarray(theta, np.float64)[:MAX_BARS]
    n, K = theta.shape
    names = [str(i) for i in range(n)] if names is None else [short(str(name), 40) for name in names[:n]]
    ax = axes_or_new(ax, (7.2, 0.26 * n + 0.7))
    ends = np.cumsum(theta, axis=1)
    for k, colour in enumerate(palette(K)):
        ink = "black" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) > 0.55 else "white"
        ax.barh(range(n), theta[:, k], 0.82, ends[:, k] - theta[:, k], color=colour, edgecolor="white", linewidth=0.6)
        for i in np.flatnonzero(theta[:, k] > 0.04):
            place = {"ha": "center", "va": "center", "fontsize": "small", "color": ink}
            ax.text(ends[i, k] - theta[i, k] / 2, i, str(k), weight="bold", **place)
    ax.set_yticks(range(n), names, parse_math=False)
    ax.set(xlim=(0, 1), ylim=(n - 0.4, -0.6), xlabel="proportion of topics")
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "right", "top"]].set_visible(False)
    return ax


def _read(model: Any, words: Sequence[str] | None) -> tuple[FloatArray, FloatArray, Sequence[str]]:
    """Words of topics (K, V), sizes (K,) and names of words (V)."""
    from weald.topics.matching import words_of

    phi = words_of(model)
    sizes = np.asarray(model.topic_sizes_ if _has_sizes(model) else np.ones(len(phi)))
    if words is None:
        words = [str(name) for name in getattr(model, "feature_names_in_", range(phi.shape[1]))]
    if len(words) != phi.shape[1]:
        raise ParameterError(f"words must name the {phi.shape[1]} columns of the fit, got {len(words)} names")
    return phi, sizes, words


def _has_sizes(model: Any) -> bool:
    return hasattr(model, "topic_sizes_")


def _labels(phi: FloatArray, sizes: FloatArray, names: Sequence[str], n_words: int) -> list[str]:
    """Number and top words of each topic."""
    from weald.topics.coherence import top_words

    if not n_words:
        return [str(k) for k in range(len(phi))]
    top = top_words(phi, sizes, n_words)
    return [f"{k}  " + ", ".join(short(names[w], 16) for w in row) for k, row in enumerate(top)]


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _name_circles(ax: Any, points: FloatArray, radii: FloatArray, labels: list[str]) -> None:
    """Numbers in circles, and words beside them where they hide nothing; large circles choose first."""
    from matplotlib.font_manager import FontProperties

    ax.apply_aspect()
    per_unit = ax.transData.transform((1, 0))[0] - ax.transData.transform((0, 0))[0]
    letter = FontProperties(size="small").get_size_in_points() * ax.figure.dpi / 72 / per_unit  # in units of the data
    taken = [(*(point - 0.8 * r), *(point + 0.8 * r)) for point, r in zip(points, radii, strict=True)]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    for k in np.argsort(-radii, kind="stable"):
        (x, y), r, width, height = points[k], radii[k], LETTER * letter * len(labels[k]), 1.3 * letter
        ax.text(x, y, str(k), weight="bold", fontsize="small", ha="center", va="center", zorder=4)
        for dx, dy in ((0, -1), (0, 1), (1, 0), (-1, 0)) if labels[k] != str(k) else ():
            at, above = x + dx * (r + 0.4 * letter), y + dy * (r + 0.6 * height)
            box = (at - (1 - dx) / 2 * width, above - height / 2, at + (1 + dx) / 2 * width, above + height / 2)
            inside = box[0] > left and box[2] < right and box[1] > low and box[3] < high
            if inside and not any(_meet(box, other) for j, other in enumerate(taken) if j != k):
                side = {-1: "right", 0: "center", 1: "left"}[dx]
                ax.text(at, above, labels[k], fontsize="small", ha=side, va="center", parse_math=False, zorder=3)
                taken.append(box)
                break


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Whether two boxes (left, low, right, high) overlap."""
    return bool(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def _times(dates: Array, n: int) -> tuple[FloatArray, bool]:
    """Numbers (n,), days since 1970 for dates, NaN where there is none; and whether they are dates."""
    values = np.asarray(dates)
    if values.dtype.kind == "O":
        gone = [value is None or value != value for value in values]
        present = np.array([value for value, missing in zip(values, gone, strict=True) if not missing])
        known = present.astype("datetime64[s]" if present.dtype.kind in "OMU" else np.float64)
        values = np.full(len(gone), np.datetime64("NaT", "s") if known.dtype.kind == "M" else np.nan)
        values[~np.array(gone)] = known
    if values.shape != (n,):
        raise DataError(f"dates must hold one date or number for each of the {n} documents, got shape {values.shape}")
    if values.dtype.kind == "M":
        days = values.astype("datetime64[s]").astype(np.float64) / 86_400
        return np.where(np.isnat(values), np.nan, days), True
    return values.astype(np.float64), False


def _by_period(theta: FloatArray, times: FloatArray, n_periods: int) -> tuple[FloatArray, FloatArray]:
    """Middles of periods (m,) and mean proportions (m, K) of their documents; NaN where there are none."""
    middle = np.unique(times)
    if len(middle) <= n_periods:
        period = np.searchsorted(middle, times)
    else:
        edges = np.linspace(times.min(), times.max(), n_periods + 1)
        middle, period = (
            (edges[1:] + edges[:-1]) / 2,
            np.clip(np.searchsorted(edges, times, "right") - 1, 0, n_periods - 1),
        )
    total = np.zeros((len(middle), theta.shape[1]))
    np.add.at(total, period, theta)
    with np.errstate(invalid="ignore"):
        return middle, total / np.bincount(period, minlength=len(middle))[:, None]
