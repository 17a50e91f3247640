"""Recovery on real data (make test-slow), from a folder `shared/data` beside the checkout, where there is one."""

import csv
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

from weald import DPMixture, Mixture, NaiveBayes
from weald.metrics import purity

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="no shared/data beside the checkout"),
    pytest.mark.filterwarnings("ignore::weald.exceptions.StatusWarning"),
]


def columns(name, *wanted):
    with open(DATA / "classics" / name, newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([[float(row[column]) for column in wanted] for row in rows]), rows


def test_old_faithful_has_its_two_kinds_of_eruption():
    """Maximum likelihood of two full Gaussians (known from many textbooks), to within the prior."""
    X, _ = columns("faithful.csv", "eruptions", "waiting")
    mix = Mixture(2, n_init=5, tol=1e-8, max_iter=500, random_state=0).fit(X)
    short, long = np.argsort(mix.means_[:, 0])
    assert mix.means_[short] == pytest.approx([2.036, 54.48], rel=0.01)
    assert mix.means_[long] == pytest.approx([4.290, 79.97], rel=0.01)
    assert mix.weights_[short] == pytest.approx(0.356, abs=0.01)


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_iris_species(inference):
    names = ("Sepal.Length", "Sepal.Width", "Petal.Length", "Petal.Width")
    X, rows = columns("iris.csv", *names)
    mix = Mixture(3, inference=inference, n_init=20, random_state=0).fit(X)
    assert adjusted_rand_score([row["Species"] for row in rows], mix.labels_) > (0.85 if inference == "em" else 0.5)


@pytest.mark.parametrize(("family", "rival"), [("multinomial", MultinomialNB), ("bernoulli", BernoulliNB)])
def test_newsgroups_by_naive_bayes(family, rival):
    with np.load(DATA / "20news" / "20news_bow.npz", allow_pickle=False) as z:
        X = sp.csr_matrix(
            (z["data"].astype(float), z["indices"].astype(np.int32), z["indptr"]), shape=tuple(z["shape"])
        )
        y, train = z["y"], z["is_train"].astype(bool)
    if family == "bernoulli":
        X = (X > 0).astype(float)
    prior = {"concentration": 2.0} if family == "multinomial" else {"alpha": 2.0, "beta": 2.0}
    ours = NaiveBayes(family, prior=prior).fit(X[train], y[train])
    theirs = rival(alpha=1.0).fit(X[train], y[train])
    assert np.mean(ours.predict(X[~train]) == theirs.predict(X[~train])) > 0.999
    assert ours.score(X[~train], y[~train]) == pytest.approx(theirs.score(X[~train], y[~train]), abs=2e-3)


def test_digit_codes_in_a_hundred_clusters():
    with np.load(DATA / "mnist_code" / "mnist_code30.npz", allow_pickle=False) as z:
        X, y = z["train"].astype(np.float32), z["y_train"]
    mix = Mixture(100, covariance="full", inference="sem", max_iter=60, random_state=0).fit(X)
    assert purity(y, mix.labels_) > 0.9


def nips(n_documents, n_words):
    """Counts of some papers, without words that three papers in ten have, and the words."""
    with np.load(DATA / "nips_bow" / "nips.npz", allow_pickle=False) as z:
        X = sp.csr_array((z["data"].astype(float), z["indices"].astype(np.int32), z["indptr"]), shape=tuple(z["shape"]))
        vocabulary = z["vocab"]
    X = X[np.random.default_rng(0).permutation(X.shape[0])[:n_documents]]
    telling = np.flatnonzero((X > 0).sum(axis=0) < 0.3 * n_documents)
    kept = telling[np.argsort(-X[:, telling].sum(axis=0), kind="stable")[:n_words]]
    return X[:, kept], vocabulary[kept]


def test_papers_in_groups_by_subject():
    """Journal Figure 20: 300 papers, 5,000 words; groups such as neurons, speech, chips, reinforcement learning."""
    X, words = nips(300, 5_000)
    prior = {"concentration": 4.0}  # words of a group are smoothed: the larger, the fewer groups
    model = DPMixture(family="multinomial", family_prior=prior, draws=50, warmup=50, chains=2, random_state=0).fit(X)
    assert 5 <= model.n_components_ <= 25
    top = [set(words[np.argsort(-p)[:15]]) for p in model.probabilities_]
    subjects = ({"policy", "reinforcement"}, {"visual", "stimulus"}, {"chip", "analog"}, {"speech", "hmm"})
    homes = [[k for k, group in enumerate(top) if subject <= group] for subject in subjects]
    assert all(homes)
    assert len({home[0] for home in homes}) == len(subjects)
    assert min(np.bincount(model.labels_)[home[0]] for home in homes) >= 10
