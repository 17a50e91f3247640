"""What the documentation shows is true: Python blocks, doctests, gallery scripts, shell commands, support tables."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import runpy
import shlex
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

import weald

mpl.use("Agg")
ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
PAGES = [page for page in PAGES if "/_build/" not in page and "/gallery/" not in page]
MODULES = [module.name for module in pkgutil.walk_packages(weald.__path__, "weald.")]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """Fenced blocks of a page, with the line on which each begins."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


def commands(page: str, program: str) -> list[list[str]]:
    """Arguments of every shell command that calls `program`."""
    lines = [line for _, block in blocks(page, "console") for line in block.splitlines()]
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]
    return [call[1:] for call in words if call[0] == program]


def rows(header: str) -> list[list[str]]:
    """Cells of the README's table that has this text in its header."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|") and header in line)
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 2 : end]]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for line, source in blocks(page, "python"):
        exec(compile("\n" * line + source, str(ROOT / page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples in {name} fail"


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_and_draw(script, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.close("all")
    runpy.run_path(str(script), run_name="__main__")
    assert plt.get_fignums()
    plt.close("all")


def test_readme_figure(tmp_path):
    import matplotlib.pyplot as plt

    with plt.rc_context():
        draw = runpy.run_path(str(ROOT / "examples" / "readme_figure.py"))["draw"]
        draw(tmp_path / "readme.png")
    plt.close("all")
    assert (tmp_path / "readme.png").stat().st_size > 10_000
    assert (ROOT / "docs" / "_static" / "readme.png").stat().st_size < 150_000


def test_readme_shows_the_figure_and_short_code():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = blocks("README.md", "python")[0][1]
    assert "](docs/_static/readme.png)" in text.split("```python")[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = {call[0] for page in PAGES for call in commands(page, "make")}
    assert {"demo", "test"} <= wanted
    assert not [target for target in wanted if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def test_readme_shell_commands_work(tmp_path, monkeypatch):
    from weald.app.commands import app
    from weald.app.readers import write_table

    monkeypatch.chdir(tmp_path)
    X = weald.datasets.make_blobs_overlapping(400, 3, 8, separation=8.0, rng=0).X
    write_table("data.parquet", dict(zip("abc", X.T, strict=True)))
    write_table("new.csv", dict(zip("abc", X[:20].T, strict=True)))
    texts = ["tea with milk and sugar", "milk in the tea", "a car on the road", "a fast car, a wet road"] * 10
    Path("corpus.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts), encoding="utf-8")
    for arguments in commands("README.md", "weald"):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"weald {' '.join(arguments)}: {result.output}"
    assert Path("run/report.html").exists()
    assert Path("labels.parquet").exists()
    assert Path("topics/report.html").exists()


@pytest.mark.parametrize("page", PAGES)
def test_options_of_shell_commands_exist(page):
    from weald.app.commands import app

    for name, *arguments in (call for call in commands(page, "weald") if not call[0].startswith("-")):
        shown = CliRunner().invoke(app, [name, "--help"]).output
        options = [word for word in arguments if word.startswith("-") and word != "-"]
        assert not [option for option in options if option not in shown], f"{page}: weald {name}"


def counts(family: str) -> np.ndarray:
    X = np.random.default_rng(0).poisson(1.5, (40, 4)).astype(float)
    return np.minimum(X, 1.0) if family == "bernoulli" else X


def works(call) -> str:
    """Yes, or no where weald refuses: any other error is a bug."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weald.exceptions.StatusWarning)
            call()
    except (weald.exceptions.WealdError, TypeError, AttributeError):
        return "no"
    return "yes"


def mixture(family: str, covariance: str, inference: str = "em") -> weald.Mixture:
    options = {"max_iter": 3, "tol": 1e9, "draws": 4, "warmup": 2, "chains": 2, "random_state": 0}
    return weald.Mixture(2, family=family, covariance=covariance, inference=inference, **options)


def partitions(family: str, covariance: str, inference: str = "collapsed") -> weald.DPMixture:
    options = {"draws": 4, "warmup": 2, "chains": 2, "random_state": 0}
    return weald.DPMixture(family=family, covariance=covariance, inference=inference, **options)


@pytest.mark.parametrize("cells", rows("missing cells"), ids=lambda cells: cells[0].replace("`", ""))
def test_support_of_families(cells):
    family, covariance = [*re.findall(r"`(\w+)`", cells[0]), "diag"][:2]
    X, y = counts(family), np.arange(40) % 2
    hole = X.copy()
    hole[3, 1] = np.nan

    def fit_mixtures():
        for inference in ("em", "sem", "gibbs", "vb"):
            assert mixture(family, covariance, inference).fit(X).predict_proba(X).shape == (40, 2)

    def fit_partitions():
        for inference in ("collapsed", "tree-guided", "parallel", "vb"):
            model = partitions(family, covariance, inference).fit(X)
            assert model.predict_proba(X).shape == (40, model.n_components_)

    def fit_classifiers():
        for inference in ("map", "posterior"):
            assert weald.NaiveBayes(family, inference=inference).fit(X, y).predict(X).shape == (40,)

    naive = "no" if family == "gaussian" and covariance != weald.NaiveBayes.covariance else works(fit_classifiers)
    found = [
        works(fit_mixtures),
        works(fit_partitions),
        naive,
        works(lambda: mixture(family, covariance).fit(sparse.csr_array(X)).predict(sparse.csr_array(X))),
        works(lambda: mixture(family, covariance).fit(hole).predict(hole)),
    ]
    assert found == cells[1:]
    if found[1] == "yes":  # what holds for one mixture holds for the other
        assert works(lambda: partitions(family, covariance).fit(sparse.csr_array(X)).predict(X)) == cells[4]
        assert works(lambda: partitions(family, covariance).fit(hole).predict(hole)) == cells[5]


@pytest.mark.parametrize("cells", rows("sample_weight"), ids=lambda cells: " ".join(cells[:2]).replace("`", ""))
def test_support_of_estimators(cells, tmp_path):
    estimator, inference = (cell.strip("`") for cell in cells[:2])
    X, y, weight = counts("poisson"), np.arange(40) % 2, np.linspace(0.5, 2.0, 40)
    path = tmp_path / "model.weald"
    makers = {
        "Mixture": lambda: mixture("poisson", "diag", inference),
        "DPMixture": lambda: partitions("poisson", "diag", inference),
        "BayesianHierarchicalClustering": lambda: weald.BayesianHierarchicalClustering(
            family="poisson", method=inference, random_state=0
        ),
        "NaiveBayes": lambda: weald.NaiveBayes("poisson", inference=inference),
    }
    new = makers[estimator]

    def batches():
        model = new().partial_fit(X, y, classes=[0, 1]) if estimator == "NaiveBayes" else new().partial_fit(X, y)
        model.partial_fit(X, y)

    def resume():
        new().fit(X, y, callbacks=[weald.Checkpoint(tmp_path / "ckpt", every=1)])
        new().fit(X, y, resume=tmp_path / "ckpt")

    def store():
        weald.save(new().fit(X, y), path)
        assert (weald.load(path).predict(X) >= 0).all()

    found = [works(lambda: new().fit(X, y, sample_weight=weight)), works(batches), works(resume), works(store)]
    assert found == cells[2:]


@pytest.mark.parametrize("cells", rows("fractional counts"), ids=lambda cells: " ".join(cells[:2]).replace("`", ""))
def test_support_of_topic_models(cells, tmp_path):
    name, inference = (cell.strip("`") for cell in cells[:2])
    data = weald.datasets.make_topics(40, 2, 12, 20, 0)
    X, path = data.X, tmp_path / "model.weald"
    y = data.truth["proportions"][:, 0]

    def new():
        few = {"max_iter": 4} if inference in ("online-vb", "vb", "em", "svi") else {"draws": 4, "warmup": 2}
        if name == "HDP":
            return weald.HDP(inference=inference, random_state=0, **few)
        if name == "SupervisedLDA":
            return weald.SupervisedLDA(2, random_state=0, **few)
        return weald.LDA(2, inference=inference, random_state=0, **few)

    def resume():
        new().fit(X, y, callbacks=[weald.Checkpoint(tmp_path / "ckpt", every=1)])
        new().fit(X, y, resume=tmp_path / "ckpt")

    def store():
        weald.save(new().fit(X, y), path)
        assert weald.load(path).transform(X).shape[0] == 40

    found = [
        works(lambda: new().fit(0.5 * X, y)),
        works(lambda: new().partial_fit(X).partial_fit(X)),
        works(resume),
        works(store),
    ]
    assert found == cells[2:]


def test_input_types_of_the_readme(tmp_path):
    import pandas as pd
    import polars as pl

    from weald.app.readers import write_table

    X = counts("poisson")
    frame = pd.DataFrame(X, columns=list("abcd"))
    files = [tmp_path / f"x.{suffix}" for suffix in ("csv", "tsv", "parquet", "npz")]
    for path in files:
        write_table(path, dict(zip("abcd", X.T, strict=True)))
    np.save(tmp_path / "x.npy", X)
    expected = mixture("poisson", "diag").fit(X).predict_proba(X)
    for table in (frame, pl.from_pandas(frame), *files, tmp_path / "x.npy"):
        np.testing.assert_allclose(mixture("poisson", "diag").fit(table).predict_proba(table), expected)
