"""Bad input: each has a clear error, or the right answer."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from weald import Mixture, NaiveBayes
from weald.exceptions import DataError, DataWarning, ParameterError, StatusWarning, WealdError

COVARIANCES = ("full", "diag", "spherical", "tied")
Z = np.repeat([0, 1], 60)


def blobs(seed=0):
    return np.random.default_rng(seed).normal(size=(120, 2)) + np.where(Z == 0, -4.0, 4.0)[:, None]


def found(labels):
    return adjusted_rand_score(Z, labels) == 1.0


def mixture(**parameters):
    return Mixture(**{"n_components": 2, "random_state": 0, **parameters})


DATA_ERRORS = {
    "no rows": (np.empty((0, 2)), {}, "0 sample"),
    "no columns": (np.empty((5, 0)), {}, "0 feature"),
    "no rows, mixed": (np.empty((0, 2)), {"family": "mixed"}, "empty"),
    "no rows, mixed frame": (pd.DataFrame({"a": []}), {"family": "mixed"}, "empty"),
    "no columns, mixed frame": (pd.DataFrame(index=range(5)), {"family": "mixed"}, "empty"),
    "one dimension": (np.zeros(5), {}, "2D array"),
    "one dimension, mixed": (np.zeros(5), {"family": "mixed"}, "1 dimension"),
    "three dimensions": (np.zeros((3, 3, 3)), {}, "dim 3"),
    "more components than rows": (blobs()[:3], {"n_components": 5}, "n_components=5.*3.*fewer"),
    "nan": (pd.DataFrame({"u": [1, np.nan, 3], "v": [1, 2, 3.0]}), {}, "NaN.*'u'.*row 1.*diag"),
    "nan, no names": (np.array([[1, 2], [3, np.nan], [5, 6]]), {}, "NaN.*column 1, row 1"),
    "nan in counts": (np.array([[1, 2], [3, np.nan], [5, 6]]), {"family": "multinomial"}, "NaN.*column 1"),
    "infinity": (pd.DataFrame({"u": [1, 2, 3], "v": [1, -np.inf, 3.0]}), {}, "infinity.*'v'.*row 1"),
    "infinity, diag": (np.array([[1, np.inf], [2, 3]]), {"covariance": "diag"}, "infinity.*column 1"),
    "infinity, mixed": (pd.DataFrame({"v": [1, np.inf, 3.0]}), {"family": "mixed"}, "infinity.*'v'"),
    "infinity in csr": (sp.csr_array([[1.0, np.inf], [2, 3]]), {"family": "multinomial"}, "infinity"),
    "text": (pd.DataFrame({"u": ["a", "b", "c"], "v": [1, 2, 3]}), {}, "'a'.*mixed"),
    "text array": (np.array([["a", "b"], ["c", "d"]]), {}, "string.*mixed"),
    "complex": (blobs() + 1j, {}, "[Cc]omplex"),
    "nothing": (None, {}, "2D array"),
    "dates": (pd.DataFrame({"t": pd.date_range("2020", periods=4), "v": np.arange(4.0)}), {}, "'t' holds dates"),
    "dates alone": (pd.DataFrame({"t": pd.date_range("2020", periods=4)}), {}, "'t' holds dates"),
    "binary that is not": (pd.DataFrame({"u": [0, 1, 0], "v": [0, 1, 2]}), {"family": "bernoulli"}, "(1|'v').*0 and 1"),
    "counts below zero": (pd.DataFrame({"u": [0, 1, 0], "v": [0, 1, -2]}), {"family": "poisson"}, "(1|'v').*counts"),
    "counts below zero, multinomial": (np.array([[0, 1], [0, -2]]), {"family": "multinomial"}, "column 1.*counts"),
    "fractional counts": (np.array([[0.5, 1], [0, 2]]), {"family": "poisson"}, "column 0.*counts"),
    "fractional csr": (sp.csr_array([[1.0, 0.5], [2, 3]]), {"family": "multinomial"}, "column 1.*counts"),
    "csr, mixed": (sp.csr_array([[1.0, 0.5], [2, 3]]), {"family": "mixed"}, "sparse"),
    "no file": ("/no/such/file.csv", {}, "no file"),
    "unknown format": ("/etc/hostname", {}, "format"),
}  # fmt: skip


@pytest.mark.parametrize("case", DATA_ERRORS)
def test_data_errors_name_what_is_wrong(case):
    X, parameters, message = DATA_ERRORS[case]
    with pytest.raises(DataError, match=f"(?s){message}"):
        mixture(**parameters).fit(X)


@pytest.mark.parametrize(
    "column",
    [
        pd.date_range("2020", periods=4),
        pd.date_range("2020", periods=4, tz="UTC"),
        pd.timedelta_range("1h", periods=4),
        [datetime.date(2020, 1, i + 1) for i in range(4)],
    ],
    ids=["naive", "zoned", "spans", "objects"],
)
@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_dates_are_refused_by_name(column, table):
    frame = {"when": list(column) if table is not pd.DataFrame else column, "v": np.arange(4.0)}
    with pytest.raises(DataError, match="'when' holds dates"):
        mixture(family="mixed").fit(table(frame))


@pytest.mark.parametrize("cut", [0, 7, 40, 200, -1])
@pytest.mark.parametrize("suffix", ["parquet", "npy", "npz"])
def test_half_written_files(tmp_path, suffix, cut):
    path = tmp_path / f"x.{suffix}"
    X = blobs()
    if suffix == "parquet":
        pd.DataFrame(X, columns=["a", "b"]).to_parquet(path)
    else:
        (np.save if suffix == "npy" else np.savez)(path, X)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"x\." + suffix):
        mixture().fit(path)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises((DataError, OSError)):
        mixture().fit(tmp_path)


def test_csv_with_text_and_ragged_rows(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError):
        mixture().fit(path)
    path.write_text("a,b\n1,x\n3,y\n")
    with pytest.raises(DataError, match="mixed"):
        mixture().fit(path)


PARAMETERS = {
    "n_components": ([0, -1, 2.0, "3", None, True], "positive int"),
    "family": (["gausian", 3, None], "gaussian.*poisson"),
    "covariance": (["ful", None, 1], "diag.*full.*spherical.*tied"),
    "inference": (["EM", None, "nuts"], "em.*gibbs.*sem.*vb"),
    "assign": (["fast", None], "auto.*exact"),
    "init": (["kmeans", None], "kmeans.*random-points.*random"),
    "max_iter": ([0, 1.5, "9", None], "positive int"),
    "tol": ([-1.0, np.nan, "x", None], ">= 0|non-negative|positive"),
    "n_init": ([0, 1.5], "positive int"),
    "weight_concentration": ([-1.0, np.nan, np.inf, "a"], ">= 0|positive"),
    "draws": ([0, 1.5], "positive int"),
    "warmup": ([-1, 1.5], "non-negative int"),
    "chains": ([0, 1.5], "positive int"),
    "n_jobs": ([0, -2, 1.5, "all"], "positive int"),
    "random_state": ([-1, "x", 0.5], "non-negative int"),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (values, _) in PARAMETERS.items() for value in values]
)
def test_wrong_parameters_are_named_with_what_is_valid(name, value):
    with pytest.raises(ParameterError, match=f"(?s){name}.*({PARAMETERS[name][1]})"):
        mixture(**{name: value}).fit(blobs())


@pytest.mark.parametrize("prior", [{"kapa": 1}, {"kappa": -1}, {"kappa": "x"}, {"psi": [1.0, 2.0, 3.0]}, 3, ["kappa"]])
def test_wrong_priors(prior):
    with pytest.raises(ParameterError, match=r"kappa|psi|prior"):
        mixture(prior=prior).fit(blobs())


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("inference", "em", "map.*posterior"),
        ("max_iter", 0, "positive int"),
        ("tol", -1.0, ">= 0"),
        ("weight_concentration", -1.0, ">= 0"),
        ("weight_concentration", "a", ">= 0"),
        ("family", "gauss", "gaussian"),
        ("n_jobs", 0, "positive int"),
        ("prior", {"kapa": 1}, "kappa"),
    ],
)
def test_wrong_parameters_of_naive_bayes(name, value, valid):
    with pytest.raises(ParameterError, match=f"(?s){name}.*{valid}"):
        NaiveBayes(**{name: value}).fit(blobs(), Z)


def test_numpy_integers_are_integers():
    mix = mixture(n_components=np.int64(2), n_jobs=np.int64(1), max_iter=np.int32(100)).fit(blobs())
    assert found(mix.labels_)


WEIGHTS = {
    "short": (np.ones(5), r"\(120,\)"),
    "negative": (-np.ones(120), "non-negative"),
    "nan": (np.full(120, np.nan), "finite"),
    "infinite": (np.full(120, np.inf), "finite"),
    "all zero": (np.zeros(120), "zero"),
    "text": (["a"] * 120, "number"),
    "matrix": (np.ones((120, 2)), r"\(120,\)"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(case):
    weight, message = WEIGHTS[case]
    with pytest.raises(DataError, match=f"sample_weight.*{message}"):
        mixture().fit(blobs(), sample_weight=weight)
    with pytest.raises(DataError, match=f"sample_weight.*{message}"):
        NaiveBayes().fit(blobs(), Z, sample_weight=weight)


def test_gibbs_refuses_weights():
    with pytest.raises(ParameterError, match=r"gibbs.*weight"):
        mixture(inference="gibbs").fit(blobs(), sample_weight=np.ones(120))


def test_more_components_than_rows_with_weight():
    weight = np.r_[np.ones(3), np.zeros(117)]
    with pytest.raises(DataError, match=r"n_components=5.*3"):
        mixture(n_components=5).fit(blobs(), sample_weight=weight)


def test_more_components_than_rows_of_the_first_batch():
    with pytest.raises(DataError, match=r"n_components=5.*3"):
        mixture(n_components=5).partial_fit(blobs()[:3])


# What has an answer


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("inference", ["em", "sem", "vb"])
@pytest.mark.parametrize("offset", [0.0, 1e8, -1e12])
def test_huge_offsets(covariance, inference, offset):
    X = blobs() / 4 + offset
    mix = mixture(covariance=covariance, inference=inference).fit(X)
    assert found(mix.labels_)
    centres = np.array([X[k == Z].mean(0) for k in range(2)])
    order = np.argsort(mix.means_[:, 0])
    assert np.abs((mix.means_[order] - offset) - (centres - offset)).max() < 0.05


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_units_do_not_matter(covariance, unit):
    plain = mixture(covariance=covariance).fit(blobs())
    scaled = mixture(covariance=covariance).fit(blobs() * unit)
    assert np.array_equal(plain.labels_, scaled.labels_)
    np.testing.assert_allclose(scaled.means_ / unit, plain.means_, rtol=1e-6)
    np.testing.assert_allclose(scaled.predict_proba(blobs() * unit), plain.predict_proba(blobs()), atol=1e-8)
    jacobian = 2 * np.log(unit)
    np.testing.assert_allclose(scaled.score_samples(blobs() * unit) + jacobian, plain.score_samples(blobs()), atol=1e-6)
    assert scaled.status_.ok


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_columns_of_wildly_different_units(covariance):
    if covariance == "spherical":
        pytest.skip("one variance for all columns: units matter by definition")
    unit = np.array([1e-200, 1e200])
    assert found(mixture(covariance=covariance).fit(blobs() * unit).labels_)


@pytest.mark.parametrize("inference", ["em", "sem", "vb", "gibbs"])
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_constant_column(inference, covariance, offset):
    X = np.column_stack([blobs(), np.full(120, 7.0 + offset)])
    mix = mixture(covariance=covariance, inference=inference, draws=100, warmup=50, chains=1)
    mix = quiet_fit(mix, X)
    assert found(mix.labels_)
    np.testing.assert_allclose(mix.means_[:, 2], 7.0 + offset, atol=0.5)
    assert np.isfinite(mix.score_samples(X)).all()


def quiet_fit(mix, X, **kwargs):
    """Fit; a short chain may be cautious, nothing else is allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        return mix.fit(X, **kwargs)


@pytest.mark.parametrize("inference", ["em", "sem", "vb", "gibbs"])
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("rows", [1, 2, 20])
def test_all_rows_alike(inference, covariance, rows):
    K = min(rows, 3)
    X = np.full((rows, 2), 3.5)
    mix = quiet_fit(
        mixture(n_components=K, covariance=covariance, inference=inference, draws=20, warmup=5, chains=2), X
    )
    assert np.isfinite(mix.score_samples(X)).all()
    assert np.isfinite(mix.predict_proba(X)).all()
    np.testing.assert_allclose(mix.weights_ @ mix.means_, 3.5, atol=1.0)


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "multinomial", "categorical"])
@pytest.mark.parametrize("inference", ["em", "sem", "vb", "gibbs"])
def test_one_row_of_every_family(family, inference):
    X = np.array([[1.0, 0.0, 1.0]])
    mix = quiet_fit(mixture(n_components=1, family=family, inference=inference, draws=20, warmup=5, chains=1), X)
    assert np.isfinite(mix.score_samples(X)).all()
    np.testing.assert_allclose(mix.predict_proba(X), 1.0)


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "multinomial", "categorical"])
def test_columns_of_zeros(family):
    X = np.zeros((30, 3))
    mix = quiet_fit(mixture(family=family), X)
    assert np.isfinite(mix.score_samples(X)).all()


def test_as_many_components_as_rows():
    mix = quiet_fit(mixture(n_components=20), blobs()[50:70])
    assert np.isfinite(mix.score_samples(blobs())).all()


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_a_column_without_a_cell_and_a_row_without_a_cell(inference):
    X = np.column_stack([blobs(), np.full(120, np.nan)])
    X[5] = np.nan
    mix = mixture(covariance="diag", inference=inference).fit(X)
    assert adjusted_rand_score(np.delete(Z, 5), np.delete(mix.labels_, 5)) == 1.0
    np.testing.assert_allclose(mix.predict_proba([[np.nan] * 3])[0], mix.weights_, atol=1e-6)


def test_wrong_width_at_predict():
    for family in ("gaussian", "mixed"):
        with pytest.raises(WealdError, match=r"1 features.*2 features"):
            mixture(family=family).fit(blobs()).predict(blobs()[:, :1])
    with pytest.raises(DataError, match=r"1 features.*2 features"):
        NaiveBayes().fit(blobs(), Z).predict(blobs()[:, :1])


def test_unknown_column_at_predict():
    frame = pd.DataFrame(blobs(), columns=["a", "b"])
    for family in ("gaussian", "mixed"):
        mix = mixture(family=family).fit(frame)
        with pytest.raises(ValueError, match=r"(?s)unseen.*c"):
            mix.predict(frame.rename(columns={"b": "c"}))
        with pytest.raises(ValueError, match="order"):
            mix.predict(frame[["b", "a"]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_cells_at_predict(value):
    X = blobs()
    X[3, 1] = value
    with pytest.raises(DataError, match="column 1, row 3"):
        mixture().fit(blobs()).predict(X)


def test_unseen_levels_are_missing_cells():
    frame = pd.DataFrame({"u": np.where(Z == 0, "x", "y"), "v": blobs()[:, 0]})
    mix = mixture(family="mixed").fit(frame)
    new = pd.DataFrame({"u": ["w", None], "v": [-4.0, -4.0]})
    with pytest.warns(DataWarning, match="'u'.*'w'"):
        p = mix.predict_proba(new)
    np.testing.assert_allclose(p[0], p[1])
    with pytest.warns(DataWarning, match="'u'.*'w'"):
        NaiveBayes("categorical").fit(frame[["u"]], Z).predict(new[["u"]])


def test_not_fitted():
    for method in ("predict", "predict_proba", "score_samples", "score", "aic", "bic"):
        with pytest.raises(NotFittedError):
            getattr(mixture(), method)(blobs())
    with pytest.raises(NotFittedError):
        mixture().sample(3)
    for method in ("predict", "predict_proba", "predict_log_proba", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(NaiveBayes(), method)(blobs())


@pytest.mark.parametrize("n", [0, -3, 2.5, "3"])
def test_sample_sizes(n):
    with pytest.raises(ParameterError, match="n_samples"):
        mixture().fit(blobs()).sample(n)


def test_partial_fit_needs_em_or_vb():
    for inference in ("sem", "gibbs"):
        with pytest.raises(AttributeError, match="partial_fit"):
            mixture(inference=inference).partial_fit(blobs())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y"),
        (Z[:5], "5 labels for 120 rows"),
        (np.where(Z == 0, np.nan, 1.0), "NaN"),
        (np.linspace(0, 1, 120) + 0.1, "continuous"),
        (np.stack([Z, Z], axis=1), "1d"),
    ],
)
def test_wrong_classes(y, message):
    with pytest.raises(ValueError, match=message):
        NaiveBayes().fit(blobs(), y)


def test_wrong_classes_of_a_batch():
    with pytest.raises(ParameterError, match="classes"):
        NaiveBayes().partial_fit(blobs(), Z)
    with pytest.raises(DataError, match="5 labels for 120 rows"):
        NaiveBayes().partial_fit(blobs(), Z[:5], classes=[0, 1])
    with pytest.raises(DataError, match=r"classes \[0, 1\]"):
        NaiveBayes().partial_fit(blobs(), Z + 5, classes=[0, 1])


def test_one_class_only():
    nb = NaiveBayes().fit(blobs(), np.zeros(120))
    assert (nb.predict(blobs()) == 0).all()
    np.testing.assert_allclose(nb.predict_proba(blobs()), 1.0)


def test_nobody_changes_the_data():
    X = blobs()
    X.flags.writeable = False
    frame = pd.DataFrame({"u": np.where(Z == 0, "x", "y"), "v": X[:, 0], "n": Z})
    before = frame.copy()
    for inference in ("em", "sem", "vb", "gibbs"):
        quiet_fit(mixture(inference=inference, draws=5, warmup=5, chains=1), X)
    mixture(family="mixed").fit(frame).predict(frame)
    NaiveBayes("mixed").fit(frame, Z)
    pd.testing.assert_frame_equal(frame, before)
    counts = sp.csr_array(np.random.default_rng(0).poisson(1.0, (40, 6)).astype(float))
    copy = counts.copy()
    mixture(family="multinomial").fit(counts).predict(counts)
    assert (counts != copy).nnz == 0
