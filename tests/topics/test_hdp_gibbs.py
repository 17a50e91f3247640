"""The sampler of the HDP against enumeration, its tables, its concentrations, and bugs to be rejected."""

from dataclasses import replace

import numpy as np
import pytest
from franchise import ALPHA, DOCS, ETA, GAMMA, TABLES, WORDS, Franchise, corpus_of

from weald._random import key_from
from weald.inference.run import run
from weald.testing.invariance import BUDGET, chi_square, exact_start, joint
from weald.topics import hdp_gibbs as module
from weald.topics.hdp_gibbs import HDPKernel, HDPState, Prior, collected, n_covering, tables
from weald.topics.sweeps import Swept

FRANCHISE = Franchise()


def test_the_franchise_is_a_law():
    assert np.exp(FRANCHISE.log_prior).sum() == pytest.approx(1.0)


def invariance(n, rng, n_moves=0, steps=1):
    kernel = replace(FRANCHISE.kernel, n_moves=n_moves)

    def step(state, rng):
        for _ in range(steps):
            state, _ = kernel.step(rng, state)
        return state

    return exact_start(FRANCHISE.log_p, FRANCHISE.start, step, FRANCHISE.locate, n=n, rng=rng)


@pytest.mark.parametrize("n_moves", [0, 2])
def test_a_step_leaves_the_posterior_invariant(n_moves):
    assert invariance(6_000, np.random.default_rng(n_moves), n_moves) > BUDGET


@pytest.mark.parametrize("dense", [0, 100])
def test_sparse_and_dense_sweeps(dense, monkeypatch):
    monkeypatch.setattr(module, "DENSE", dense)
    assert invariance(3_000, np.random.default_rng(7), steps=2) > BUDGET


def test_a_forgotten_stick_is_rejected(monkeypatch):
    honest = module.sweep
    monkeypatch.setattr(module, "sweep", lambda *args, **options: honest(*args, **{**options, "gamma": 1e-12}))
    assert invariance(6_000, np.random.default_rng(0), steps=2) < BUDGET


def test_weights_of_topics_without_tokens_are_given_back(monkeypatch):
    """Bug: what dies keeps its weight to itself."""
    honest = module.settled

    def lossy(state, board, swept):
        after = honest(state, board, swept)
        return replace(after, beta=np.append(after.beta[:-1], 1e-9))

    monkeypatch.setattr(module, "settled", lossy)
    monkeypatch.setattr(HDPKernel, "_concentrations", lambda self, state, *others: state)
    assert invariance(6_000, np.random.default_rng(0), steps=2) < BUDGET


def swept_of(guests, a):
    """One topic, a document for each number of guests."""
    reached = np.array([(np.array(guests) > i).sum() for i in range(max(guests))])
    n_k, none = np.array([sum(guests), 0]), np.zeros(0)
    starts = np.array([0, reached.size, reached.size])
    return Swept(none, n_k, np.array([a, 1.0]), 1, starts, reached, none, 0, 0)


def printed(swept, rng):
    """Bug: every table is as attractive as the whole restaurant, as (34) is printed."""
    m = np.zeros(swept.n_k.size, np.int64)
    for k in np.flatnonzero(swept.n_k):
        reached = swept.reached[swept.starts[k] : swept.starts[k + 1]]
        guests = np.repeat(np.arange(1, reached.size + 1), reached - np.append(reached[1:], 0))
        for n in guests:
            t = 0
            for i in range(n):
                t += rng.random() < swept.alpha[k] / (swept.alpha[k] + i * t)
            m[k] += t
    return m


def law_of_tables(n, a):
    p = np.array([TABLES[n].get(t, 0) * a**t for t in range(4)])
    return p / p.sum()


def test_tables_have_the_law_of_antoniak():
    rng, guests, a = np.random.default_rng(0), (3, 1, 2), 0.7
    wanted = np.array([1.0])
    for n in guests:
        wanted = np.convolve(wanted, law_of_tables(n, a))
    drawn = {draw: [draw(swept_of(guests, a), rng)[0] for _ in range(3_000)] for draw in (tables, printed)}
    fits = {draw: chi_square(np.bincount(m, minlength=wanted.size), wanted) for draw, m in drawn.items()}
    assert fits[tables] > BUDGET
    assert fits[printed] < BUDGET


PRIOR = Prior((4.0, 3.0), (4.0, 3.0), (4.0, 5.0))
D, LENGTH, V = 4, 5, 3


def from_prior(rng):
    """Concentrations, and a franchise by its seating rules."""
    alpha, gamma, eta = (rng.gamma(shape) / rate for shape, rate in PRIOR)
    z, dishes = np.empty(D * LENGTH, np.int64), []
    for d in range(D):
        seats = []  # (dish, guests) of each table
        for i in range(LENGTH):
            p = np.array([n for _, n in seats] + [alpha]) / (i + alpha)
            t = rng.choice(p.size, p=p)
            if t == len(seats):
                q = np.array([*dishes, gamma]) / (sum(dishes) + gamma)
                k = rng.choice(q.size, p=q)
                dishes = [*dishes, 0] if k == len(dishes) else dishes
                dishes[k] += 1
                seats.append([k, 0])
            seats[t][1] += 1
            z[d * LENGTH + i] = seats[t][0]
    beta = rng.dirichlet(np.append(dishes, gamma))
    return {"alpha": alpha, "gamma": gamma, "eta": eta, "z": z, "beta": beta}


def words_of(theta, rng):
    phi = rng.dirichlet(np.full(V, theta["eta"]), size=theta["z"].max() + 1)
    return np.array([rng.choice(V, p=phi[k] / phi[k].sum()) for k in theta["z"]])


def one_step(theta, words, rng):
    docs = np.repeat(np.arange(D), LENGTH)
    order = np.lexsort((docs, words))
    K = theta["beta"].size - 1
    kernel = HDPKernel(corpus_of(docs, words, D, V), PRIOR, n_moves=2)
    state = HDPState(
        theta["z"][order].astype(np.uint16), theta["beta"], theta["alpha"], theta["gamma"], theta["eta"], 0,
        np.zeros(K, np.int64), np.zeros((K, V + 2)),
    )  # fmt: skip
    after, _ = kernel.step(rng, state)
    z = np.empty_like(theta["z"])
    z[order] = after.z
    return {"alpha": after.alpha, "gamma": after.gamma, "eta": after.eta, "z": z, "beta": after.beta}


def measured(theta, words):
    z, K = theta["z"], theta["z"].max() + 1
    n_kw, n_dk = np.zeros((K, V)), np.zeros((D, K))
    np.add.at(n_kw, (z, words), 1)
    np.add.at(n_dk, (np.repeat(np.arange(D), LENGTH), z), 1)
    return {
        "alpha": theta["alpha"],
        "gamma": theta["gamma"],
        "eta": theta["eta"],
        "K": float(K),
        "rest": theta["beta"][-1],
        "purity": float((n_kw**2).sum()),
        "mixing": float((n_dk**2).sum()),
        "eta * purity": theta["eta"] * float((n_kw**2).sum()),
        "alpha * mixing": theta["alpha"] * float((n_dk**2).sum()),
    }


def worst(n=700, seed=0):
    p = joint(from_prior, words_of, one_step, measured, n=n, rng=np.random.default_rng(seed))
    return min(p.values())


def test_concentrations_and_all():
    assert worst() > BUDGET


def test_a_wrong_likelihood_of_alpha_is_rejected(monkeypatch):
    """Bug: the lengths of the documents are left out."""
    monkeypatch.setattr(HDPKernel, "_log_tables", lambda self, n_tables: lambda a: n_tables * np.log(a))
    assert worst() < BUDGET


def test_chains_add_up():
    corpus = corpus_of(DOCS, WORDS, 2, 3)
    (chain,) = run(HDPKernel(corpus, warmup=5), key=key_from(0), sweeps=12, warmup=5, thin=1, collect=collected(3))
    state = chain.state
    assert (chain.draws["sizes"].sum(axis=1) == 6).all()
    assert (chain.draws["n_topics"] <= chain.draws["n_occupied"]).all()
    assert state.lives.max() <= 7
    assert state.beta.sum() == pytest.approx(1.0)
    alive = state.lives > 0
    np.testing.assert_allclose(state.sums[alive, :3].sum(axis=1), state.lives[alive])


@pytest.mark.parametrize(
    ("sizes", "wanted"), [([6], 1), ([99, 1], 1), ([98, 1, 1], 2), ([5, 5, 0], 2), ([1] * 200, 198)]
)
def test_topics_that_count(sizes, wanted):
    assert n_covering(np.array(sizes)) == wanted


def test_settings_of_the_enumeration():
    assert (FRANCHISE.kernel.alpha, FRANCHISE.kernel.gamma, FRANCHISE.kernel.eta) == (ALPHA, GAMMA, ETA)
