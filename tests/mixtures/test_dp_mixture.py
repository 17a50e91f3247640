"""DPMixture as its users meet it: recovery, uncertainty, prediction, text, trouble."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import weald
from weald.assign import Rows
from weald.datasets import make_blobs_overlapping
from weald.engine import Threads
from weald.exceptions import DataError, ParameterError, StatusWarning
from weald.families import DiagonalGaussian, FullGaussian
from weald.mixtures.base_measure import firm
from weald.mixtures.dp_mixture import DPMixture
from weald.mixtures.partition_starts import from_some
from weald.partitions import DirichletProcess, MixtureOfFiniteMixtures

SAMPLERS = ("collapsed", "tree-guided", "parallel", "vb")
QUICK = {"draws": 60, "warmup": 60, "chains": 2, "random_state": 0}


def blobs(n=60, apart=8.0, seed=2):
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1, 2], n)
    return rng.normal(size=(3 * n, 2)) + apart * np.array([[0, 0], [1, 0], [0, 1]])[z], z


def quick(X, **options):
    """A fit too short to be trusted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        return DPMixture(**{**QUICK, **options}).fit(X)


@pytest.fixture(scope="module")
def fitted():
    X, z = blobs()
    return quick(X), X, z


@pytest.mark.parametrize("inference", SAMPLERS)
def test_every_sampler_finds_three_clusters(inference):
    X, z = blobs()
    model = quick(X, inference=inference)
    assert model.n_components_ == 3
    assert adjusted_rand_score(z, model.labels_) > 0.98
    assert model.n_components_interval_[0] <= 3 <= model.n_components_interval_[1]
    assert model.posterior_.attrs["inference"] == inference


@pytest.mark.parametrize("prior", ["dp", "pitman-yor", "nggp", "nig", "mfm", MixtureOfFiniteMixtures(1.0, 2.0)])
def test_every_prior(prior):
    X, z = blobs(30)
    model = quick(X, prior=prior)
    assert adjusted_rand_score(z, model.labels_) > 0.95
    assert np.isfinite(model.score_samples(X)).all()


def test_what_is_learnt_fits_together(fitted):
    model, X, _ = fitted
    values, p = model.n_components_posterior_
    assert p.sum() == pytest.approx(1.0)
    assert values[np.argmax(p)] == 3
    assert model.posterior_.draws["z"].shape == (2, 60, 180)
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.means_.shape == (3, 2)
    np.testing.assert_array_equal(model.partition_, model.labels_)
    np.testing.assert_allclose(model.means_[0], X[model.labels_ == 0].mean(axis=0), atol=0.3)
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    assert model.uncertainty_.min() >= 0
    assert model.uncertainty_.max() <= 1
    ball = model.partition_ball_
    assert ball.radius >= 0
    assert ball.upper.max() <= ball.lower.max()


def test_co_clustering_of_some_rows(fitted):
    model, _, z = fitted
    P = model.co_clustering_([0, 1, 70, 150])
    np.testing.assert_array_equal(np.diag(P), 1.0)
    assert P[0, 1] > 0.9
    assert P[0, 2] < 0.1
    assert model.co_clustering_().shape == (z.size, z.size)
    with pytest.raises(ParameterError, match="choose at most"):
        model.co_clustering_(np.zeros(5_001, int))
    for rows in ([180], [-1], [0.5], [], [[0, 1]]):
        with pytest.raises(ParameterError, match="0 to 179"):
            model.co_clustering_(rows)


def test_prediction_of_new_rows(fitted):
    model, _, _ = fitted
    new, z = blobs(200, seed=1)
    p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert adjusted_rand_score(z, model.predict(new)) > 0.97
    far = np.array([[60.0, -60.0]])
    assert model.novelty(far)[0] > 0.5 > model.novelty(new).max()
    assert model.score_samples(far)[0] < model.score_samples(new).min()
    assert model.score(new) == pytest.approx(model.score_samples(new).mean())


def test_density_is_close_to_the_truth(fitted):
    model, _, _ = fitted
    new, _ = blobs(2_000, seed=4)
    centres = 8.0 * np.array([[0, 0], [1, 0], [0, 1]])
    truth = np.logaddexp.reduce([-0.5 * ((new - c) ** 2).sum(axis=1) for c in centres]) - np.log(3 * 2 * np.pi)
    assert truth.mean() - model.score(new) < 0.1


def test_simulated_rows_look_like_the_data(fitted):
    model, X, _ = fitted
    simulated, z = model.sample(3_000)
    assert simulated.shape == (3_000, 2)
    assert set(np.unique(z)) <= {-1, 0, 1, 2}
    np.testing.assert_allclose(simulated.mean(axis=0), X.mean(axis=0), atol=0.4)


def test_more_rows(fitted):
    X, _z = blobs(40)
    model = quick(X)
    before = model.score(X)
    more, _ = blobs(20, seed=3)
    model.partial_fit(more)
    assert model.labels_.shape == (60,)
    assert model.n_components_ == 3
    assert model.score(X) == pytest.approx(before, abs=0.2)
    there = np.random.default_rng(0).normal(40, 1, (30, 2))
    model.partial_fit(there)
    assert model.n_components_ == 4
    assert (model.predict(there) == 3).all()
    assert quick(X).partial_fit(X[:1]).labels_.shape == (1,)


def test_the_first_batch_is_a_fit():
    X, z = blobs(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        model = DPMixture(**QUICK).partial_fit(X)
    assert adjusted_rand_score(z, model.labels_) > 0.95


def test_tables_of_every_kind():
    X, _z = blobs(20)
    reference = quick(X).labels_
    for table in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        model = quick(table)
        np.testing.assert_array_equal(model.labels_, reference)
        assert list(model.feature_names_in_) == ["a", "b"]


def test_mixed_columns_and_missing_cells():
    X, z = blobs(40)
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "colour": np.array(["red", "green", "blue"])[z]})
    table.loc[::7, "x"] = np.nan
    model = quick(table, family="mixed", inference="parallel")
    assert adjusted_rand_score(z, model.labels_) > 0.95
    assert np.isfinite(model.score_samples(table)).all()


def test_documents():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(50, 0.1), 4)
    z = np.repeat(np.arange(4), 40)
    counts = sparse.csr_array(np.array([rng.multinomial(60, topics[k]) for k in z]), dtype=np.float64)
    for inference in ("collapsed", "parallel"):
        model = quick(counts, family="multinomial", inference=inference)
        assert adjusted_rand_score(z, model.labels_) > 0.95
        np.testing.assert_allclose(model.predict_proba(counts[:5]).sum(axis=1), 1.0)


@pytest.mark.parametrize("family", ["multinomial", "categorical", "bernoulli"])
def test_sparse_priors_have_parameters_too(family):
    X = np.random.default_rng(0).integers(0, 2, (30, 4)).astype(float)
    prior = {"alpha": 0.1, "beta": 0.1} if family == "bernoulli" else {"concentration": 0.1}
    model = quick(X, family=family, family_prior=prior, draws=5, warmup=5)
    assert all(np.isfinite(value).all() for value in model.parameters_.values())


@pytest.mark.parametrize("assign", ["exact", "canopy1", "canopy2", "tree", "groups", "pruned"])
def test_labels_by_every_memoryless_kernel(assign):
    X, z = blobs(40)
    model = quick(X, inference="parallel", assign=assign, draws=20, warmup=10, chains=1)
    assert adjusted_rand_score(z, model.labels_) > 0.95


def test_the_same_seed_gives_the_same_fit_whatever_the_threads():
    X, _ = blobs(40)
    for inference in ("collapsed", "parallel"):
        one, two = quick(X, inference=inference, n_jobs=1), quick(X, inference=inference, n_jobs=2)
        np.testing.assert_array_equal(one.posterior_.draws["z"], two.posterior_.draws["z"])
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_file_round_trip(fitted, tmp_path):
    model, X, _ = fitted
    weald.save(model, tmp_path / "model.weald")
    again = weald.load(tmp_path / "model.weald")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.co_clustering_([1, 2, 100]), model.co_clustering_([1, 2, 100]))
    again.partial_fit(X[:3])


@pytest.mark.parametrize("inference", ["collapsed", "parallel"])
def test_an_interrupted_fit_goes_on_exactly(tmp_path, inference):
    X, _ = blobs(30)
    path = tmp_path / "checkpoint.weald"
    whole = quick(X, inference=inference)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        model = DPMixture(**QUICK, inference=inference)
        model.fit(X, callbacks=[weald.Checkpoint(path, every=1), lambda event: event.chain == 1 and event.sweep == 75])
        resumed = DPMixture(**QUICK, inference=inference).fit(X, resume=path)
    np.testing.assert_array_equal(resumed.posterior_.draws["z"], whole.posterior_.draws["z"])


def test_long_chains_are_trusted_and_short_ones_are_not():
    X, _ = blobs(30, apart=30.0)
    assert (
        DPMixture(draws=600, warmup=200, chains=2, prior=DirichletProcess(shape=None), random_state=0).fit(X).status_.ok
    )
    with pytest.warns(StatusWarning, match="too few"):
        DPMixture(draws=2, warmup=0, chains=1, random_state=0).fit(X)


@pytest.mark.parametrize("inference", ["collapsed", "tree-guided", "parallel"])
def test_an_exploding_number_of_clusters_is_stopped_with_advice(inference):
    X, prior = np.random.default_rng(0).normal(size=(1_000, 2)), DirichletProcess(1e5, shape=None)
    with pytest.warns(StatusWarning, match="clusters: the run was stopped"):
        model = DPMixture(prior=prior, inference=inference, max_clusters=50, **QUICK).fit(X)
    assert model.status_.verdict.value == "failed"
    assert any("concentration" in line for line in model.status_.advice)
    assert model.labels_.shape == (1_000,)
    assert model.n_iter_ < 20


def test_one_row_and_equal_rows():
    assert quick(np.array([[1.0, 2.0]])).n_components_ == 1
    assert quick(np.ones((20, 2))).labels_.max() == 0


def test_what_auto_chooses():
    X, _ = blobs(20)
    assert quick(X, inference="auto").posterior_.attrs["inference"].startswith("auto: collapsed, for 60 rows")
    many = np.random.default_rng(0).normal(size=(10_001, 1))
    model = quick(many, inference="auto", draws=2, warmup=1, chains=1)
    assert model.posterior_.attrs["inference"].startswith("auto: parallel, for 10,001 rows")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inference": "gibbs"}, "inference must be"),
        ({"prior": "dirichlet"}, "prior must be one of"),
        ({"prior": 3}, "prior must be one of"),
        ({"covariance": "tied"}, "share parameters"),
        ({"family_prior": 3}, "family_prior must be a mapping"),
        ({"draws": 0}, "draws"),
        ({"chains": 0}, "chains"),
        ({"max_clusters": 0}, "max_clusters"),
        ({"assign": "lists", "inference": "parallel"}, "lists"),
        ({"assign": "exactly"}, "assign must be"),
        ({"inference": "vb", "prior": "mfm"}, "prior='dp'"),
    ],
)
def test_parameters_that_cannot_be(options, words):
    with pytest.raises(ParameterError, match=words):
        DPMixture(**{**QUICK, **options}).fit(blobs(10)[0])


def test_a_start_from_some_rows_finds_two_hundred_clusters():
    """In many columns a few large clusters are hardly ever split: it must not begin with these."""
    data = make_blobs_overlapping(12_000, 16, 200, separation=9.0, rng=0)
    rows = Rows(data.X, firm(DiagonalGaussian.from_data(data.X, 3), ()))
    z = from_some(rows, DirichletProcess(), Threads(1), np.random.default_rng(0))
    assert 180 <= np.unique(z).size <= 220
    assert adjusted_rand_score(data.z, z) > 0.9


def test_counts_below_zero():
    for X in (np.array([[0, 1], [2, -1]]), sparse.csr_array([[0.0, 1.0], [2.0, -1.0]])):
        with pytest.raises(DataError, match="column 1 holds values that are no counts"):
            DPMixture(family="poisson", **QUICK).fit(X)


def test_data_that_cannot_be():
    X, _ = blobs(10)
    with pytest.raises(DataError, match="NaN"):
        DPMixture(**QUICK).fit(np.where(X > 8, np.nan, X))
    with pytest.raises(ParameterError, match="reads 3 columns"):
        DPMixture(family=FullGaussian.from_data(np.eye(3)), **QUICK).fit(X)
