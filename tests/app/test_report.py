"""The report is one file, escapes everything, loads nothing, and says what was found."""

from __future__ import annotations

import copy
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from page import Page, words

from weald import consensus
from weald.app.cluster import cluster
from weald.app.prepare import Settings
from weald.app.readers import write_table
from weald.app.report import render, view
from weald.exceptions import MissingExtraError, Status, Verdict


@pytest.fixture(scope="module")
def run(blobs, tmp_path_factory):
    return cluster(blobs, tmp_path_factory.mktemp("report"), Settings(k=3, id="who", label="truth", n_init=1))


@pytest.fixture(scope="module")
def hostile(customers, tmp_path_factory):
    settings = Settings(k=3, id="<id>", label="<kind>", n_init=1)
    return cluster(customers, tmp_path_factory.mktemp("hostile"), settings)


@pytest.fixture(scope="module")
def hostile_free(customers, tmp_path_factory):
    settings = Settings(id="<id>", label="<kind>", inference="vb")
    return cluster(customers, tmp_path_factory.mktemp("hostile"), settings)


def test_every_section_is_there_and_true(run):
    html = (run.out / "report.html").read_text()
    text = words(html)
    sizes = np.bincount(run.labels)
    assert f"3 clusters in 240 rows, from {sizes.min()} to {sizes.max()} rows each" in text
    for heading in (
        "Clusters",
        "Map",
        "What sets them apart",
        "How sure",
        "Against truth",
        "Convergence",
        "How it was made",
    ):
        assert heading in text
    assert "Adjusted Rand index 1.000" in text
    assert run.command in text
    assert "none: columns as they came" in text
    doubtful = int(np.argmin(run.proba.max(axis=1)))
    assert f"p{doubtful:03d}" in text
    assert html.count("<svg") == 4


def test_without_k_the_report_tells_what_is_uncertain(free):
    html = (free.out / "report.html").read_text()
    text = words(html)
    assert f"{free.found} in 240 rows" in text
    for heading in ("How many clusters?", "Who goes together", "What is uncertain", "Clusters that may be one"):
        assert heading in text
    low, high = free.model.n_components_interval_
    assert f"With 95 % probability there are {low} to {high} clusters" in text
    assert f"within a distance of {free.model.partition_ball_.radius:.2f}" in text
    assert "Dirichlet process" in text
    assert "(chosen for 240 rows of a compiled family)" in text
    assert "4, each 30 sweeps of warmup and 30 draws" in text
    assert html.count("<svg") == 7
    page = Page(html)
    assert page.open == []
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert render(free) == html


def test_with_k_nothing_is_said_of_the_number(run):
    text = words((run.out / "report.html").read_text())
    assert "95 % interval" not in text
    assert "How many clusters?" not in text


def test_doubts_are_the_largest_ones(free):
    """Draws by hand: clusters 1 and 2 are one in a quarter, 0 is two in a quarter, and one row leaves it in half."""
    labels = free.labels
    Z = np.tile(labels, (4, 1))
    Z[0][labels == 2] = 1
    row = int(np.flatnonzero(labels == 0)[0])
    Z[:2, row] = 1
    Z[3, np.flatnonzero(labels == 0)[40:]] = 7
    told, text = _with_draws(free, Z)
    [(g, h, share), *_] = told["merged"]
    assert (g, h) == (1, 2)
    assert share == pytest.approx(0.25)
    assert [k for k, _ in told["split"]] == [0]
    first = told["rows"][0]
    assert (first["row"], first["id"], first["cluster"], first["other"]) == (row, f"p{row:03d}", 0, 1)
    assert first["own"] == pytest.approx((1 + 39 / (np.sum(labels == 0) - 1)) / 4)
    assert first["with_other"] == pytest.approx(0.5)
    assert (told["ball"]["fewest"], told["ball"]["greatest"]) == (2, 4)
    assert told["likeliest"] == (3, "50 %")
    assert "fewer clusters than most draws" not in text
    ragged = np.tile(labels, (4, 1))
    ragged[np.arange(4), [0, 5, 9, 13]] = 9
    assert "fewer clusters than most draws" in _with_draws(free, ragged)[1]
    sure, _ = _with_draws(free, np.tile(labels, (4, 1)))
    assert (sure["merged"], sure["split"], sure["rows"]) == ([], [], [])


def _with_draws(run, Z):
    """What the report says of a run whose draws were Z: figures and words."""
    model = copy.copy(run.model)
    n_clusters = Z.max(axis=1) + 1
    model.posterior_ = replace(
        run.model.posterior_, draws={"z": Z[None], "n_clusters": n_clusters[None]}, stats={}, warmup=0
    )
    model.uncertainty_ = consensus.uncertainty(Z, run.labels)
    model.n_components_interval_ = consensus.n_clusters_interval(Z)
    shown = replace(run, model=model)
    return view(shown)["doubts"], words(render(shown))


def test_report_is_reproducible(run):
    assert render(run) == (run.out / "report.html").read_text()


@pytest.mark.parametrize("which", ["hostile", "hostile_free"])
def test_hostile_names_cells_and_ids_are_only_text(which, request):
    html = (request.getfixturevalue(which).out / "report.html").read_text()
    page = Page(html)
    assert page.open == []
    assert not {"script", "img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "<script" not in html
    assert "<img" not in html
    assert "<b onclick" not in html
    text = words(html)
    for name in (
        "<script>alert(1)</script>",
        "$a_{b} \\frac",
        '<b onclick="x">',
        "<img src=x onerror=alert(",
        "<kind>",
        "<i>0</i>",
    ):
        assert name in text


def test_an_unescaped_template_would_be_caught(hostile):
    """The injected bug: with escaping off, the checks above must fail."""
    import jinja2

    from weald.app import report

    folder = report.Path(report.__file__).parent / "templates"
    pages = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=False)
    pages.filters |= {"number": report.number, "percent": report.percent}
    assert "<script>alert(1)" in pages.get_template("report.html.j2").render(view(hostile))


@pytest.mark.parametrize("which", ["run", "hostile", "free"])
def test_nothing_is_fetched_and_nothing_runs(which, request):
    html = (request.getfixturevalue(which).out / "report.html").read_text()
    page = Page(html)
    assert "default-src 'none'" in html
    for tag, name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "action", "data", "poster"):
            assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value[:80])
    assert not re.search(r"url\((?!#)|@import", html)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_pictures_take_the_colour_of_the_text(run):
    html = (run.out / "report.html").read_text()
    assert "#0b0c0d" not in html
    assert html.count("currentColor") > 20


def test_caution_and_advice_are_shown(run):
    status = Status(Verdict.CAUTION, "stopped early", ("raise <max_iter>",), {"rise_per_row": 0.5})
    model = type("Model", (), {**vars(run.model), "status_": status, "get_params": run.model.get_params})()
    text = words(render(replace(run, model=model)))
    assert "Use with caution. Stopped early." in text
    assert "raise <max_iter>" in text
    assert "rise per row 0.5" in text


def test_many_clusters_empty_clusters_and_one_cluster(tmp_path):
    rng = np.random.default_rng(0)
    write_table(tmp_path / "t.npz", {"a": rng.normal(size=200), "b": rng.normal(size=200)})
    many = cluster(tmp_path / "t.npz", tmp_path / "many", Settings(k=40, covariance="diag", n_init=1))
    text = words((many.out / "report.html").read_text())
    assert "The 24 largest are shown" in text
    empty = replace(many, proba=np.pad(many.proba, ((0, 0), (0, 2))))
    assert re.search(r"Of the 42 asked for, \d+ stayed empty", words(render(empty)))
    one = cluster(tmp_path / "t.npz", tmp_path / "one", Settings(k=1, columns=("a",)))
    assert "One cluster in 200 rows" in words((one.out / "report.html").read_text())


def test_labels_with_holes_are_left_out(run):
    given = run.given.copy()
    given[:10] = None
    assert view(replace(run, given=given))["against"]["n_unknown"] == 10
    assert view(replace(run, given=np.full(240, None, object)))["against"] is None


@pytest.mark.parametrize(("module", "extra"), [("matplotlib", "plot"), ("jinja2", "app")])
def test_missing_extras_stop_before_the_fit(blobs, tmp_path, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"the HTML report needs {module}.*weald\[{extra}\]"):
        cluster(blobs, tmp_path / "run", Settings(k=2))
    assert not (tmp_path / "run").exists()
