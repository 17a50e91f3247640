"""From file to folder and back: labels, model, record, prediction by name, and resumption."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import weald
from weald.app import runs as module
from weald.app.cluster import assignments, cluster
from weald.app.demo import demo
from weald.app.predict import predict
from weald.app.prepare import Settings
from weald.app.readers import read_table, write_table
from weald.exceptions import DataError, ParameterError, PersistError

SETTINGS = Settings(k=3, id="who", label="truth", n_init=2)


@pytest.fixture(scope="module")
def run(blobs, tmp_path_factory):
    return cluster(blobs, tmp_path_factory.mktemp("run") / "out", SETTINGS)


def test_assignments_by_hand():
    proba = np.array([[0.2, 0.7, 0.1], [0.5, 0.0, 0.5]])
    columns = assignments(proba, np.array([-1.0, -2.0]))
    assert columns["cluster"].tolist() == [1, 0]
    assert columns["second_cluster"].tolist() == [0, 2]
    assert columns["second_probability"].tolist() == [0.2, 0.5]
    alone = assignments(np.ones((2, 1)), np.zeros(2))
    assert alone["second_cluster"].tolist() == [-1, -1]
    assert alone["second_probability"].tolist() == [0, 0]


def test_folder_holds_labels_probabilities_model_report_and_record(run, blobs):
    assert {path.name for path in run.out.iterdir()} == {
        "labels.parquet", "probabilities.parquet", "model.weald", "report.html", "run.json",
    }  # fmt: skip
    labels, data = read_table(run.out / "labels.parquet"), read_table(blobs)
    expected = "row who truth cluster probability second_cluster second_probability log_density"
    assert labels.names == tuple(expected.split())
    np.testing.assert_array_equal(labels.columns["who"], data.columns["who"])
    assert adjusted_rand_score(labels.columns["truth"], labels.columns["cluster"]) > 0.97
    probabilities = read_table(run.out / "probabilities.parquet", columns=["p0", "p1", "p2"]).numeric()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), labels.columns["cluster"])
    model = weald.load(run.out / "model.weald")
    np.testing.assert_allclose(model.predict_proba(run.X), probabilities)
    np.testing.assert_allclose(model.score_samples(run.X), labels.columns["log_density"])


def test_record_tells_what_was_done(run):
    record = json.loads((run.out / "run.json").read_text())
    assert record["settings"]["k"] == 3
    assert record["features"]["names"] == ["x0", "x1", "x2"]
    assert record["versions"]["weald"] == weald.__version__
    assert len(record["source"]["sha256"]) == 64
    assert shlex.split(record["command"])[:4] == ["weald", "cluster", run.source, "--k"]


def test_python_lines_repeat_the_run(run, tmp_path):
    scope = {}
    exec(run.python.replace(str(run.out), str(tmp_path / "again")), scope)
    np.testing.assert_array_equal(scope["run"].proba, run.proba)


def test_scaling_round_trips_through_predict_by_name(blobs, tmp_path):
    first = cluster(blobs, tmp_path / "run", Settings(k=3, scale="robust", exclude=("truth",), id="who", n_init=1))
    assert first.features.spread[0] != 1
    data = read_table(blobs)
    shuffled = {name: data.columns[name] for name in ("x2", "who", "x0", "x1")}
    write_table(tmp_path / "new.csv", {**shuffled, "extra": np.zeros(240)})
    columns = predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "labels.csv")
    np.testing.assert_allclose(columns["log_density"], first.log_density, rtol=1e-9)
    np.testing.assert_array_equal(read_table(tmp_path / "labels.csv").columns["cluster"], first.labels)
    assert "who" in columns


def test_log_density_is_in_the_units_of_the_file(blobs, tmp_path):
    plain, scaled = (
        cluster(blobs, tmp_path / scale, Settings(k=3, scale=scale, exclude=("truth", "who")))
        for scale in ("none", "standard")
    )
    np.testing.assert_allclose(scaled.log_density, plain.log_density, atol=1e-6)


def test_mixed_columns_fit_report_and_predict(customers, tmp_path):
    settings = Settings(k=3, id="<id>", label="<kind>", n_init=2)
    run = cluster(customers, tmp_path / "run", settings, labels_format="csv")
    assert run.features.family == "mixed"
    assert any("misses" in note for note in run.notes)
    columns = predict(tmp_path / "run", customers, tmp_path / "labels.npz")
    np.testing.assert_array_equal(columns["cluster"], run.labels)


@pytest.mark.parametrize("inference", ["sem", "gibbs", "vb"])
def test_every_inference_runs(blobs, tmp_path, inference):
    settings = Settings(k=3, columns=("x0", "x1"), covariance="diag", inference=inference, max_iter=30, n_init=1)
    run = cluster(blobs, tmp_path, settings)
    assert run.proba.shape == (240, 3)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_kept_columns_never_collide_with_ours(tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "cluster": np.arange(40),
        "p0": np.repeat([0, 1], 20),
        "a": rng.normal(size=40),
        "b": rng.normal(size=40),
    }
    write_table(tmp_path / "t.csv", columns)
    run = cluster(tmp_path / "t.csv", tmp_path / "run", Settings(k=1, id="cluster", label="p0"))
    labels = read_table(run.out / "labels.parquet")
    assert labels.columns["cluster"].max() == 0
    np.testing.assert_array_equal(labels.columns["input_cluster"], np.arange(40))
    assert {"p0", "input_cluster"} <= set(read_table(run.out / "probabilities.parquet").names)


def test_resumed_run_equals_the_uninterrupted_one(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", 1e-9)
    settings = Settings(k=3, covariance="diag", exclude=("who", "truth"), inference="gibbs", max_iter=20)
    whole = cluster(blobs, tmp_path / "whole", settings)

    def stop(event):
        if event.chain == 1 and event.sweep == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster(blobs, tmp_path / "part", settings, callbacks=[stop])
    assert [path.name for path in (tmp_path / "part").iterdir()] == ["checkpoint.weald"]
    sweeps = []
    resumed = cluster(blobs, tmp_path / "part", settings, callbacks=[lambda event: sweeps.append(event)], resume=True)
    assert len(sweeps) < 4 * 20
    np.testing.assert_array_equal(resumed.proba, whole.proba)
    assert not (tmp_path / "part" / "checkpoint.weald").exists()


def test_without_k_labels_are_the_point_estimate_with_its_uncertainty(free):
    labels = read_table(free.out / "labels.parquet")
    expected = "row who truth cluster probability second_cluster second_probability log_density uncertainty"
    assert labels.names == tuple(expected.split())
    assert adjusted_rand_score(labels.columns["truth"], labels.columns["cluster"]) == 1
    model = weald.load(free.out / "model.weald")
    np.testing.assert_array_equal(labels.columns["cluster"], model.labels_)
    np.testing.assert_array_equal(labels.columns["uncertainty"], model.uncertainty_)
    np.testing.assert_allclose(labels.columns["probability"], free.proba[np.arange(240), model.labels_])
    assert (labels.columns["second_cluster"] != labels.columns["cluster"]).all()
    assert free.found.startswith("3 clusters (95 % interval 3 to ")
    assert json.loads((free.out / "run.json").read_text())["settings"]["k"] is None


def test_without_k_predict_tells_how_new_a_row_is(free, blobs, tmp_path):
    known = predict(free.out, blobs, tmp_path / "known.csv")
    assert known["novelty"].max() < 0.2
    np.testing.assert_array_equal(known["cluster"], free.labels)
    np.testing.assert_allclose(known["probability"], free.certainty)
    write_table(tmp_path / "far.csv", {f"x{j}": np.array([1e3]) for j in range(3)})
    assert predict(free.out, tmp_path / "far.csv", tmp_path / "far.parquet")["novelty"][0] > 0.9
    assert read_table(tmp_path / "far.parquet").names[-1] == "novelty"


def test_with_k_there_is_no_novelty(run, blobs, tmp_path):
    assert "novelty" not in predict(run.out, blobs, tmp_path / "l.csv")


def test_resumed_run_without_k_equals_the_uninterrupted_one(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", 1e-9)
    settings = Settings(covariance="diag", exclude=("who", "truth"), max_iter=20)
    whole = cluster(blobs, tmp_path / "whole", settings)

    def stop(event):
        if event.chain == 1 and event.sweep == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster(blobs, tmp_path / "part", settings, callbacks=[stop])
    sweeps = []
    resumed = cluster(blobs, tmp_path / "part", settings, callbacks=[lambda event: sweeps.append(event)], resume=True)
    assert len(sweeps) < 4 * 20
    np.testing.assert_array_equal(resumed.model.posterior_.draws["z"], whole.model.posterior_.draws["z"])
    assert not (tmp_path / "part" / "checkpoint.weald").exists()


@pytest.mark.parametrize("inference", ["tree-guided", "vb"])
def test_every_inference_without_k_runs(blobs, tmp_path, inference):
    sweeps = None if inference == "vb" else 20
    run = cluster(
        blobs, tmp_path, Settings(covariance="diag", inference=inference, max_iter=sweeps, id="who", label="truth")
    )
    assert run.model.inference == inference
    assert "What is uncertain" in (tmp_path / "report.html").read_text()


def test_mixed_columns_with_holes_without_k(customers, tmp_path):
    run = cluster(customers, tmp_path / "run", Settings(id="<id>", label="<kind>", inference="vb"))
    assert run.features.family == "mixed"
    columns = predict(tmp_path / "run", customers, tmp_path / "labels.csv")
    np.testing.assert_allclose(columns["log_density"], run.log_density)
    assert columns["novelty"].min() >= 0
    assert columns["novelty"].max() <= 1


def test_a_wrong_call_leaves_an_earlier_run_alone(run, blobs, tmp_path):
    before = (run.out / "run.json").read_bytes()
    with pytest.raises(DataError, match="no column 'x9'"):
        cluster(blobs, run.out, Settings(k=3, columns=("x9",)))
    with pytest.raises(DataError, match="no column 'nobody'; "):
        cluster(blobs, run.out, Settings(k=3, id="nobody"))
    with pytest.raises(ParameterError, match="labels_format"):
        cluster(blobs, run.out, SETTINGS, labels_format="xlsx")
    assert (run.out / "run.json").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="is a file"):
        cluster(blobs, tmp_path / "file", SETTINGS)


def test_predict_refuses_folders_that_are_no_runs(run, blobs, tmp_path):
    with pytest.raises(PersistError, match=r"there is no run\.json"):
        predict(tmp_path, blobs, tmp_path / "l.csv")
    (tmp_path / "run.json").write_text('{"weald_run": 1, "features"')
    with pytest.raises(PersistError, match="is damaged"):
        predict(tmp_path, blobs, tmp_path / "l.csv")
    (tmp_path / "run.json").write_text('{"weald_run": 99}')
    with pytest.raises(PersistError, match="newer weald"):
        predict(tmp_path, blobs, tmp_path / "l.csv")
    (tmp_path / "new.csv").write_text("x0,x2\n1,2\n")
    with pytest.raises(DataError, match="no column 'x1'"):
        predict(run.out, tmp_path / "new.csv", tmp_path / "l.csv")
    assert not (tmp_path / "l.csv").exists()


def test_demo_recovers_the_cultivars(tmp_path):
    run = demo(tmp_path)
    assert run.table.n_rows == 178
    assert adjusted_rand_score(run.given, run.labels) > 0.85
    assert (tmp_path / "report.html").exists()
