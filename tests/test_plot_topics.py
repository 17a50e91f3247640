"""Pictures of topics show the numbers they were given; nothing needs a display."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from weald import plot
from weald.exceptions import DataError, ParameterError
from weald.topics.vis import coordinates

matplotlib.use("Agg")
WORDS = ["tea", "milk", "cup", "car$", "road", "moon"]
PHI = np.array([[0.5, 0.2, 0.2, 0.05, 0.05, 0.0], [0.05, 0.1, 0.05, 0.5, 0.3, 0.0], [0.25, 0.0, 0.0, 0.0, 0.0, 0.75]])
MODEL = SimpleNamespace(components_=PHI, topic_sizes_=np.array([0.5, 0.4, 0.1]))


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_words_stand_on_bars_of_their_probability(ax):
    plot.plot_topic_words(MODEL, WORDS, 2, columns=2, ax=ax)
    shown = texts(ax)
    assert shown[:5] == ["topic 0   50%", "tea", "50%", "milk", "20%"]
    assert [text for text in shown if text in WORDS] == ["tea", "milk", "car$", "road", "moon", "tea"]
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, 0.88 * np.array([1, 0.4, 1, 0.6, 1, 1 / 3]))
    assert [bar.get_x() for bar in ax.patches] == [0, 0, 1, 1, 0, 0]
    rows = [bar.get_y() for bar in ax.patches]
    assert rows[0] == rows[2] < rows[1] == rows[3] < rows[4]


def test_words_by_lift_and_of_arrays(ax):
    plot.plot_topic_words(PHI, WORDS, 1, by="lift", ax=ax)
    assert [text for text in texts(ax) if text in WORDS] == ["tea", "car$", "moon"]
    assert "topic 0" in texts(ax)
    plot.plot_topic_words(PHI, ax=(other := Figure().subplots()))
    assert "5" in texts(other)


def test_areas_of_the_hinton_diagram_are_probabilities(ax):
    plot.plot_hinton(MODEL, WORDS, 2, ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["tea", "milk", "car$", "road", "moon"]
    [squares] = ax.collections
    areas = np.array([path.get_extents().width * path.get_extents().height for path in squares.get_paths()])
    shown = PHI[:, [0, 1, 3, 4, 5]].T.ravel()
    small = shown < np.quantile(PHI.max(axis=1), 0.9)
    np.testing.assert_allclose(areas[small] / areas[0], shown[small] / 0.5, atol=1e-9)
    assert areas[~small] == pytest.approx(0.92**2)
    centres = [path.get_extents().get_points().mean(axis=0) for path in squares.get_paths()]
    np.testing.assert_allclose(centres[:4], [[0, 0], [1, 0], [2, 0], [0, 1]], atol=1e-9)


def test_the_map_has_circles_of_the_size_of_topics(ax, caplog):
    plot.plot_topic_map(MODEL, WORDS, ax=ax)
    ax.figure.canvas.draw()
    assert not caplog.records
    np.testing.assert_allclose([circle.center for circle in ax.patches], coordinates(PHI))
    areas = np.array([circle.radius**2 for circle in ax.patches])
    np.testing.assert_allclose(areas / areas.sum(), MODEL.topic_sizes_)
    assert "0  tea, milk, cup" in texts(ax)
    assert {"0", "1", "2"} <= set(texts(ax))
    plain = plot.plot_topic_map(PHI, n_words=0, ax=Figure().subplots())
    assert sorted(texts(plain)) == ["0", "1", "2"]


def test_words_on_the_map_do_not_hide_each_other():
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(40, 0.2), size=25)
    ax = plot.plot_topic_map(
        phi, [f"somewhat{w}" for w in range(40)], ax=Figure((7, 5), layout="constrained").subplots()
    )
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts if "," in text.get_text()]
    assert len(boxes) > 5
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


@pytest.mark.parametrize("n_topics", [1, 2])
def test_few_topics_have_pictures(n_topics):
    for draw in (plot.plot_topic_words, plot.plot_hinton, plot.plot_topic_map):
        ax = draw(PHI[:n_topics], WORDS, ax=Figure(layout="constrained").subplots())
        ax.figure.draw_without_rendering()


THETA = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])


def heights(ax) -> np.ndarray:
    """Proportions that the ridges show, in units of the largest."""
    ridges = [line for line in ax.lines if len(line.get_xdata()) > 2 or line.get_marker() == "o"]
    return np.array([row - np.asarray(line.get_ydata()) for row, line in enumerate(ridges)]) / 0.92


@pytest.mark.parametrize(
    "dates",
    [
        [1999, 1999, 2001, 2001, np.nan],
        np.array(["1999-01-01", "1999-01-01", "2001-05-01", "2001-05-01", "NaT"], "datetime64[D]"),
        [datetime.date(1999, 1, 1)] * 2 + [datetime.date(2001, 5, 1)] * 2 + [None],
        [datetime.datetime(1999, 1, 1, 8)] * 2 + [datetime.datetime(2001, 5, 1, 8)] * 2 + [None],
    ],
    ids=["years", "datetime64", "dates", "datetimes"],
)
def test_ridges_are_means_of_periods(ax, dates):
    plot.plot_topics_over_time(THETA, dates, PHI[:2], WORDS, ax=ax)
    np.testing.assert_allclose(heights(ax), [[0.75, 0.0], [0.25, 1.0]])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0  tea, milk, cup", "1  car$, road, milk"]
    assert texts(ax) == ["75%", "100%"]
    ax.figure.draw_without_rendering()


def test_many_dates_are_put_into_periods(ax):
    theta = np.tile(THETA, (20, 1))
    plot.plot_topics_over_time(theta, np.r_[np.arange(99), 400.0], n_periods=4, ax=ax)
    shown = heights(ax)
    assert shown.shape == (2, 4)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [50, 150, 250, 350])
    assert np.isnan(shown[:, 1:3]).all()  # periods without documents are gaps
    np.testing.assert_allclose(shown[:, 0] / shown[:, 0].sum(), theta[:99].mean(axis=0))


def test_only_the_largest_topics_are_drawn(ax):
    theta = np.random.default_rng(0).dirichlet(np.arange(1.0, 41), size=50)
    plot.plot_topics_over_time(theta, np.arange(50) % 3, ax=ax)
    labels = [int(text.get_text()) for text in ax.get_yticklabels()]
    assert labels == sorted(np.argsort(-theta.mean(axis=0))[:24].tolist())


def test_dates_are_checked(ax):
    with pytest.raises(DataError, match="for each of the 5 documents, got shape"):
        plot.plot_topics_over_time(THETA, [1999, 2000], ax=ax)
    with pytest.raises(DataError, match="no document has a date"):
        plot.plot_topics_over_time(THETA, [None] * 5, ax=ax)


def test_bars_of_documents_are_their_mixtures(ax):
    theta = np.array([[0.2, 0.77, 0.03], [1.0, 0.0, 0.0]])
    plot.plot_mixtures(theta, ["a title$", "b" * 80], ax)
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(3, 2).T
    np.testing.assert_allclose(widths, theta)
    np.testing.assert_allclose(np.array([bar.get_x() for bar in ax.patches]).reshape(3, 2).T[0], [0, 0.2, 0.97])
    assert texts(ax) == ["0", "0", "1"]  # parts that are too narrow bear no number
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[0] == "a title$"
    assert len(labels[1]) == 40
    many = plot.plot_mixtures(np.full((99, 2), 0.5), ax=Figure().subplots())
    assert len(many.patches) == 120


def test_vocabulary_of_the_wrong_size_is_refused(ax):
    for draw in (plot.plot_topic_words, plot.plot_hinton, plot.plot_topic_map):
        with pytest.raises(ParameterError, match="words must name the 6 columns of the fit, got 2 names"):
            draw(MODEL, ["tea", "milk"], ax=ax)


def test_axes_are_made_when_none_are_given():
    from matplotlib import pyplot

    ax = plot.plot_hinton(MODEL)
    assert ax.figure is not None
    pyplot.close(ax.figure)
