from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from weald.exceptions import MissingExtraError, ParameterError, Status, Verdict
from weald.posterior import Posterior

C, D, WARMUP = 2, 30, 10


def make(thin: int = 1, **changes) -> Posterior:
    rng = np.random.default_rng(0)
    parts = {
        "draws": {"alpha": rng.random((C, D)), "w": rng.random((C, D, 2, 3)), "z": rng.integers(0, 3, (C, D, 7))},
        "stats": {"lp": rng.random((C, WARMUP + thin * D)), "log_likelihood": rng.random((C, WARMUP + thin * D))},
        "status": Status(Verdict.CAUTION, "R-hat is 1.2 <b>", ("run longer",)),
        "attrs": {"seed": 3, "thin": thin, "versions": {"numpy": "2"}, "flag": True, "nothing": None},
        "warmup": WARMUP,
    }
    return Posterior(**{**parts, **changes})


def test_sizes_and_flat():
    p = make()
    assert (p.n_chains, p.n_draws, p.n_sweeps) == (C, D, WARMUP + D)
    assert p.flat("w").shape == (C * D, 2, 3)
    np.testing.assert_array_equal(p.flat("w")[D + 4], p.draws["w"][1, 4])
    with pytest.raises(ParameterError, match=r"beta.*alpha"):
        p.flat("beta")


def test_empty():
    p = Posterior({}, {}, Status(), {})
    assert (p.n_chains, p.n_draws, p.n_sweeps) == (0, 0, 0)
    assert "none" in repr(p)
    assert p.summary()["mean"].shape == (0,)
    only_stats = Posterior({}, {"lp": np.zeros((3, 8))}, Status(), {}, warmup=8)
    assert (only_stats.n_chains, only_stats.n_draws) == (3, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": {"a": np.zeros(4)}}, r"draws\['a'\].*shape \(4,\)"),
        ({"draws": {"a": [[1.0]]}}, r"draws\['a'\].*list"),
        ({"draws": {"a": np.full((2, 3), None)}}, r"draws\['a'\].*object"),
        ({"draws": {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}}, "agree on the first two"),
        ({"stats": {"lp": np.zeros((C, 40, 2))}}, r"\(chain, sweep\)"),
        ({"stats": {"lp": np.zeros((C, 40)), "n": np.zeros((C, 41))}}, "agree on the first two"),
        ({"stats": {"lp": np.zeros((C + 1, 40))}}, "same number of chains"),
        ({"warmup": -1}, "warmup"),
        ({"warmup": 41}, "warmup.*40"),
        ({"warmup": 1.5}, "warmup"),
    ],
)
def test_wrong_parts(changes, message):
    with pytest.raises(ParameterError, match=message):
        make(**changes)


def test_summary_table():
    p = make()
    table = p.summary()
    names = ["alpha"] + [f"w[{i},{j}]" for i in range(2) for j in range(3)]
    assert list(table) == ["name", "mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert table["name"].tolist() == names
    np.testing.assert_allclose(table["mean"][1:], p.draws["w"].mean((0, 1)).ravel())
    assert all(column.shape == (7,) for column in table.values())
    assert p.summary(["z"])["name"].tolist() == [f"z[{i}]" for i in range(7)]


def test_to_arviz():
    pytest.importorskip("pandas")
    p = make()
    data = p.to_arviz()
    for name, x in p.draws.items():
        np.testing.assert_array_equal(data["posterior"][name].values, x)
    assert data["posterior"]["w"].dims[:2] == ("chain", "draw")
    np.testing.assert_array_equal(data["sample_stats"]["lp"].values, p.stats["lp"][:, WARMUP:])
    np.testing.assert_array_equal(
        data["sample_stats"]["log_likelihood_sum"].values, p.stats["log_likelihood"][:, WARMUP:]
    )
    attrs = data["posterior"].attrs
    assert attrs["seed"] == 3
    assert attrs["versions"] == '{"numpy": "2"}'
    assert attrs["status"] == str(p.status)
    assert all(isinstance(attrs[name], str | int | float) for name in (*p.attrs, "status"))


def test_to_arviz_survives_netcdf(tmp_path):
    data = make().to_arviz()
    pytest.importorskip("h5netcdf")
    data.to_netcdf(str(tmp_path / "a.nc"), engine="h5netcdf")


def test_thinned_stats_line_up():
    p = make(thin=3)
    lp = p.to_arviz()["sample_stats"]["lp"].values
    np.testing.assert_array_equal(lp, p.stats["lp"][:, WARMUP + 2 :: 3])


@pytest.mark.parametrize(
    "changes",
    [
        {"warmup": WARMUP - 1},
        {"attrs": {"thin": 2}},
        {"attrs": {"thin": 0}},
        {"attrs": {"thin": "x"}},
        {"stats": {}, "warmup": 0},
    ],
)
def test_stats_that_do_not_line_up_are_left_out(changes):
    data = make(**changes).to_arviz()
    assert "sample_stats" not in (data.groups() if callable(data.groups) else data.children)


def test_more_chains_than_draws_is_no_warning():
    Posterior({"a": np.zeros((9, 2))}, {}, Status(), {}).to_arviz()


def test_modern_arviz_gets_one_mapping(monkeypatch):
    seen = {}

    def from_dict(groups):
        seen.update(groups)
        return {name: SimpleNamespace(attrs={}) for name in groups}

    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__="1.2.0", from_dict=from_dict))
    data = make().to_arviz()
    assert set(seen) == {"posterior", "sample_stats"}
    assert data["posterior"].attrs["seed"] == 3


def test_missing_arviz_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'weald\[plot\]'"):
        make().to_arviz()


def test_shown_to_people():
    p = make()
    assert "2 chain(s) of 30 draws" in repr(p)
    assert "run longer" in repr(p)
    html = p._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<td>w</td><td>(2, 3)</td><td>float64</td>" in html
    evil = Posterior({"<script>": np.zeros((1, 1))}, {}, Status(), {})
    assert "<script>" not in evil._repr_html_()
