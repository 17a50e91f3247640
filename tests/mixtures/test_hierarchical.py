"""The estimator: recovery, agreement of methods, dendrograms, prediction, more rows, errors, files, scikit-learn."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.cluster.hierarchy import dendrogram, fcluster, is_monotonic, is_valid_linkage
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_estimator

from weald import _tree, load, save
from weald.exceptions import DataError, ParameterError
from weald.families import DiagonalGaussian
from weald.mixtures import hierarchical
from weald.mixtures.hierarchical import BayesianHierarchicalClustering
from weald.partitions import NormalisedGeneralisedGamma


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """Insertion is what is tested, so that few rows may be merged before it begins."""
    monkeypatch.setattr(hierarchical, "SAMPLE", 25)
    home = "weald.mixtures.hierarchical:BayesianHierarchicalClustering"
    monkeypatch.setitem(_tree.REGISTRY, "BayesianHierarchicalClustering", home)


def blobs(n=120, seed=0, apart=8.0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, size=n)
    return rng.normal(size=(n, 2)) + apart * np.array([[0, 0], [1, 0], [0, 1]])[z], z


def is_tree(model, n):
    Z = model.linkage_
    assert Z.shape == (n - 1, 4)
    assert is_valid_linkage(Z)
    assert is_monotonic(Z)
    assert Z[-1, 3] == n
    assert model.merge_probability_.shape == (n - 1,)
    assert ((model.merge_probability_ >= 0) & (model.merge_probability_ <= 1)).all()
    assert model.labels_.shape == (n,)
    assert adjusted_rand_score(fcluster(Z, math.log(2), "distance"), model.labels_) == 1.0
    assert model.n_clusters_ == model.labels_.max() + 1
    return True


@pytest.mark.parametrize("prior", ["dp", "nggp", "nig"])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
@pytest.mark.parametrize("method", ["greedy", "incremental"])
def test_separated_blobs_are_found_by_either_method(method, covariance, prior):
    X, z = blobs()
    model = BayesianHierarchicalClustering(covariance=covariance, prior=prior, method=method, random_state=1).fit(X)
    assert is_tree(model, len(X))
    assert adjusted_rand_score(z, model.labels_) == 1.0
    assert model.method_ == method
    assert (model.merge_probability_[-2:] < 1e-6).all()  # three clusters: two mergers too many
    assert (model.merge_probability_[:-2] > 0.5).mean() > 0.9


def test_auto_goes_by_the_number_of_rows(monkeypatch):
    X, _ = blobs(60)
    assert BayesianHierarchicalClustering().fit(X).method_ == "greedy"
    monkeypatch.setattr(hierarchical, "AUTO_GREEDY", 50)
    assert BayesianHierarchicalClustering().fit(X).method_ == "incremental"


def test_the_seed_decides_the_order_of_insertion_and_nothing_else():
    X, _ = blobs(90, apart=3.0)
    one, same, other = (
        BayesianHierarchicalClustering(method="incremental", random_state=seed).fit(X) for seed in (0, 0, 3)
    )
    assert np.array_equal(one.linkage_, same.linkage_)
    assert not np.array_equal(one.linkage_, other.linkage_)
    greedy = [BayesianHierarchicalClustering(random_state=seed).fit(X).linkage_ for seed in (0, 3)]
    assert np.array_equal(*greedy)


def test_one_cluster_stays_one():
    X = np.random.default_rng(0).normal(size=(80, 2))
    model = BayesianHierarchicalClustering(method="greedy").fit(X)
    assert model.n_clusters_ == 1
    assert model.linkage_[-1, 2] <= math.log(2)


def test_scipy_draws_the_tree():
    X, _ = blobs(40)
    model = BayesianHierarchicalClustering().fit(X)
    drawn = dendrogram(model.linkage_, no_plot=True, color_threshold=math.log(2))
    assert sorted(drawn["leaves"]) == list(range(40))
    colours = np.array(drawn["leaves_color_list"])[np.argsort(drawn["leaves"])]
    assert adjusted_rand_score(colours, model.labels_) == 1.0


def test_units_of_the_columns_change_the_evidence_by_the_jacobian_only():
    X, _ = blobs(50)
    model, scaled = (BayesianHierarchicalClustering(method="greedy").fit(data) for data in (X, X * [10.0, 1e-3] + 5.0))
    assert scaled.merge_probability_ == pytest.approx(model.merge_probability_, abs=1e-8)
    assert scaled.log_evidence_ == pytest.approx(model.log_evidence_ - 50 * math.log(1e-2), abs=1e-6)


def test_a_larger_concentration_leaves_more_clusters():
    X, _ = blobs(80, apart=2.5)
    counts = [BayesianHierarchicalClustering(concentration=a).fit(X).n_clusters_ for a in (1e-6, 1.0, 1e8)]
    assert counts[0] < counts[2]
    assert counts == sorted(counts)


def test_the_reference_value_of_u():
    X, _ = blobs(40)
    model = BayesianHierarchicalClustering(prior="nggp", concentration=2.0, discount=0.25).fit(X)
    assert isinstance(model.prior_, NormalisedGeneralisedGamma)
    assert math.exp(model.prior_.log_u) == pytest.approx(40 / 0.5)
    assert BayesianHierarchicalClustering(prior="nig", discount=0.1).fit(X).prior_.discount == 0.5


def test_prediction_takes_the_cluster_with_the_largest_weight():
    X, _ = blobs(100)
    model = BayesianHierarchicalClustering().fit(X)
    assert np.array_equal(model.predict(X), model.labels_)
    new, truth = blobs(200, seed=9)
    assert adjusted_rand_score(truth, model.predict(new)) == 1.0
    family, S = model._components.family, model._components.S
    T, sizes = family.sufficient(new), np.bincount(model.labels_)
    log_gain = family.log_marginal(S + T[:, None]) - family.log_marginal(S) + np.log(sizes)  # kappa(k+1)/kappa(k) = k
    assert np.array_equal(model.predict(new), log_gain.argmax(axis=1))
    assert model.predict_proba(new).sum(axis=1) == pytest.approx(1.0)
    exact = np.logaddexp.reduce(log_gain, axis=1) - math.log(100) + family.log_base(new)
    assert model.score_samples(new) == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("method", ["greedy", "incremental"])
@pytest.mark.parametrize("prior", ["dp", "nig"])
def test_more_rows_grow_the_tree(method, prior):
    X, z = blobs(150)
    model = BayesianHierarchicalClustering(method=method, prior=prior, random_state=0).partial_fit(X[:60])
    before = model.log_evidence_
    for a, b in ((60, 61), (61, 100), (100, 150)):
        assert model.partial_fit(X[a:b]) is model
        assert is_tree(model, b)
    assert adjusted_rand_score(z, model.labels_) > 0.98
    assert model.log_evidence_ < before
    assert len(model._X) == 150
    family = model._components.family
    rebuilt = BayesianHierarchicalClustering(family=family, prior=prior, method="greedy").fit(X)
    assert np.array_equal(model.labels_, rebuilt.labels_)
    assert model.log_evidence_ == pytest.approx(rebuilt.log_evidence_, abs=3.0)


def test_more_rows_may_be_a_new_cluster():
    X, z = blobs(90)
    model = BayesianHierarchicalClustering().fit(X[z < 2]).partial_fit(X[z == 2])
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(np.concatenate([z[z < 2], z[z == 2]]), model.labels_) == 1.0


@pytest.mark.parametrize("method", ["greedy", "incremental"])
def test_missing_cells_and_their_late_arrival(method):
    X, z = blobs(90)
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = BayesianHierarchicalClustering(covariance="diag", method=method, random_state=0).fit(holes)
    assert is_tree(model, 90)
    assert adjusted_rand_score(z, model.labels_) > 0.8
    late = BayesianHierarchicalClustering(covariance="diag", method=method, random_state=0).fit(X[:50])
    late.partial_fit(holes[50:])
    assert is_tree(late, 90)
    assert adjusted_rand_score(z, late.labels_) > 0.85
    assert late.predict(holes[50:]).shape == (40,)


@pytest.mark.parametrize("method", ["greedy", "incremental"])
def test_tables_of_mixed_columns(method):
    rng = np.random.default_rng(2)
    z = rng.integers(0, 2, size=80)
    table = pd.DataFrame(
        {
            "height": rng.normal(6.0 * z),
            "visits": rng.poisson(3.0 + 20.0 * z),
            "colour": np.where(rng.random(80) < 0.9, np.array(["red", "blue"])[z], "green"),
            "member": rng.random(80) < 0.2 + 0.6 * z,
        }
    )
    model = BayesianHierarchicalClustering(family="mixed", method=method, random_state=0).fit(table)
    assert is_tree(model, 80)
    assert adjusted_rand_score(z, model.labels_) > 0.9
    assert np.array_equal(model.predict(table[:5]), model.labels_[:5])
    assert list(model.feature_names_in_) == list(table)


@pytest.mark.parametrize("method", ["greedy", "incremental"])
def test_sparse_counts_are_dense_counts(method):
    rng = np.random.default_rng(3)
    z = rng.integers(0, 3, size=70)
    X = np.stack([rng.multinomial(60, p) for p in rng.dirichlet(np.full(20, 0.3), size=3)[z]]).astype(float)
    dense, thin = (
        BayesianHierarchicalClustering(family="multinomial", method=method, random_state=0).fit(data)
        for data in (X, sparse.csr_array(X))
    )
    assert adjusted_rand_score(z, dense.labels_) == 1.0
    assert thin.log_evidence_ == pytest.approx(dense.log_evidence_, abs=1e-7)
    assert np.array_equal(thin.labels_, dense.labels_)
    assert is_tree(thin.partial_fit(sparse.csr_array(X[:9])).partial_fit(X[9:12]), 82)
    assert is_tree(dense.partial_fit(sparse.csr_array(X[:12])), 82)
    assert thin.log_evidence_ == pytest.approx(dense.log_evidence_, abs=5.0)


@pytest.mark.parametrize("method", ["greedy", "incremental"])
@pytest.mark.parametrize("X", [np.zeros((30, 2)), np.repeat(np.eye(3), 10, axis=0), np.array([[0.0], [1.0]])])
def test_constant_columns_duplicates_and_two_rows(X, method):
    model = BayesianHierarchicalClustering(method=method, random_state=0).fit(X)
    assert is_tree(model, len(X))
    assert math.isfinite(model.log_evidence_)


def test_nobody_s_data_change_and_later_changes_do_not_matter():
    X, _ = blobs(40)
    kept = X.copy()
    model = BayesianHierarchicalClustering(method="incremental", random_state=0).fit(X).partial_fit(X[:3])
    assert np.array_equal(X, kept)
    other = BayesianHierarchicalClustering(method="incremental", random_state=0).fit(X)
    X[:] = 0.0
    assert np.array_equal(other.partial_fit(kept[:3]).linkage_, model.linkage_)


BAD = {
    "method": ({"method": "slow"}, ParameterError, "method"),
    "prior": ({"prior": "pitman-yor"}, ParameterError, "prior"),
    "prior mapping": ({"prior": {"kappa": 1.0}}, ParameterError, "prior"),
    "concentration": ({"concentration": -1.0}, ParameterError, "concentration"),
    "discount": ({"prior": "nggp", "discount": 1.0}, ParameterError, "discount"),
    "family_prior": ({"family_prior": 3}, ParameterError, "family_prior"),
    "hyperparameter": ({"family_prior": {"kapa": 1.0}}, ParameterError, "kapa"),
    "tied": ({"covariance": "tied"}, ParameterError, "share"),
    "random_state": ({"random_state": -1}, ParameterError, "random_state"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_parameters_are_named(name):
    params, error, word = BAD[name]
    with pytest.raises(error, match=word):
        BayesianHierarchicalClustering(**params).fit(blobs(20)[0])


def test_one_row_is_refused_and_so_are_too_many_for_greedy(monkeypatch):
    with pytest.raises(DataError, match="at least two rows"):
        BayesianHierarchicalClustering().fit(np.zeros((1, 2)))
    monkeypatch.setattr(hierarchical, "MOST_GREEDY", 30)
    with pytest.raises(ParameterError, match="incremental"):
        BayesianHierarchicalClustering(method="greedy").fit(np.zeros((31, 2)))


def test_too_many_clusters_say_what_to_do(monkeypatch):
    monkeypatch.setattr(hierarchical, "MOST_GREEDY", 30)
    X, _ = blobs(60)
    with pytest.raises(DataError, match="more than 30 clusters"):
        BayesianHierarchicalClustering(method="incremental", concentration=1e9, random_state=0).fit(X)


def test_a_family_of_one_s_own_and_hyperparameters_by_name():
    X, z = blobs(60)
    family = DiagonalGaussian.from_data(X, 3, kappa=0.05)
    given = BayesianHierarchicalClustering(family=family).fit(X)
    assert adjusted_rand_score(z, given.labels_) == 1.0
    named = BayesianHierarchicalClustering(covariance="diag", family_prior={"kappa": 0.05}).fit(X)
    assert named._components.family.kappa == 0.05


@pytest.mark.parametrize("prior", ["dp", "nig"])
def test_files_keep_the_tree(prior, tmp_path):
    X, _ = blobs(50)
    model = BayesianHierarchicalClustering(prior=prior, random_state=0).fit(X[:40])
    save(model, tmp_path / "tree.weald")
    again = load(tmp_path / "tree.weald")
    for name in ("linkage_", "labels_", "merge_probability_"):
        assert np.array_equal(getattr(again, name), getattr(model, name))
    assert again.log_evidence_ == model.log_evidence_
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.partial_fit(X[40:]).linkage_, model.partial_fit(X[40:]).linkage_)


def spoil_nodes(model):
    model.linkage_[3, 0] = 999


def spoil_evidence(model):
    model._log_m = model._log_m[:-1]


def spoil_rows(model):
    model._X = model._X[:-1]


@pytest.mark.parametrize("spoil", [spoil_nodes, spoil_evidence, spoil_rows])
def test_spoilt_arrays_are_refused_before_compiled_code_sees_them(spoil):
    X, _ = blobs(40)
    model = BayesianHierarchicalClustering().fit(X)
    spoil(model)
    with pytest.raises(DataError, match="do not fit together"):
        model.partial_fit(X[:2])


@pytest.mark.parametrize("method", ["greedy", "incremental"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_check_estimator(method, covariance):
    results = check_estimator(
        BayesianHierarchicalClustering(method=method, covariance=covariance), on_fail=None, on_skip=None
    )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{check}: {type(e).__name__}: {str(e)[:300]}" for check, e in failed.items())
    assert sum(r["status"] == "passed" for r in results) > 30


def test_clone_and_fit_predict():
    X, _ = blobs(40)
    model = BayesianHierarchicalClustering(random_state=0)
    assert np.array_equal(model.fit_predict(X), model.labels_)
    assert not hasattr(clone(model), "labels_")
