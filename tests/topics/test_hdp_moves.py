"""Splits and mergers of topics against enumeration, bugs to be rejected, and what they find."""

import numpy as np
import pytest
from franchise import ALPHA, ETA, GAMMA, Franchise

from weald._random import key_from
from weald.datasets import make_topics
from weald.inference.run import run
from weald.testing.invariance import BUDGET, exact_start
from weald.topics import hdp_moves as module
from weald.topics.corpus import Corpus
from weald.topics.hdp_gibbs import HDPKernel
from weald.topics.hdp_moves import MERGED, SPLIT, Board, Layout, allocate, shares

FRANCHISE = Franchise()
LAYOUT = Layout.of(FRANCHISE.corpus)


def board_of(state):
    return Board(LAYOUT, state.z.copy(), state.beta.copy(), ALPHA, GAMMA, ETA)


def invariance(n, rng, tally=None):
    def step(state, rng):
        board = board_of(state)
        for _ in range(3):
            done = board.move(rng)
            if tally is not None:
                tally[done] += 1
        return FRANCHISE.state(board.z, board.beta)

    return exact_start(FRANCHISE.log_p, FRANCHISE.start, step, FRANCHISE.locate, n=n, rng=rng)


def test_moves_leave_the_posterior_invariant():
    tally = np.zeros(3, np.int64)
    assert invariance(6_000, np.random.default_rng(0), tally) > BUDGET
    assert tally[[SPLIT, MERGED]].min() > 500


def without_reverse(*args):
    _, log_two, log_one = allocate(*args)
    return 0.0, log_two, log_one


BUGS = {
    "the tokens' proposal is forgotten": ("allocate", without_reverse),
    "the choice of the pair is forgotten": (Board, "_log_pick", lambda *args: 0.0),
    "the density of the shares is forgotten": ("LONGEST", None),
}


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_rejected(bug, monkeypatch):
    *where, what = BUGS[bug]
    if what is None:
        honest = Board._judge
        spread = lambda self, *args, **how: (honest(self, *args, **how)[0] - np.log(5.0), honest(self, *args, **how)[1])  # noqa: E731
        monkeypatch.setattr(Board, "_judge", spread)
    elif isinstance(where[0], str):
        monkeypatch.setattr(module, where[0], what)
    else:
        monkeypatch.setattr(*where, what)
    assert invariance(4_000, np.random.default_rng(0)) < BUDGET


def test_boards_keep_their_books():
    rng = np.random.default_rng(0)
    sim = make_topics(40, 3, 30, 20, rng)
    X = sim.X.tocsr()
    layout = Layout.of(Corpus(X.indptr, X.indices.astype(np.int32), X.data, 30))
    z = rng.integers(0, 4, 800).astype(np.uint16)
    board = Board(layout, z, np.full(5, 0.2), 1.0, 1.0, 0.5)
    done = [board.move(rng) for _ in range(300)]
    assert {SPLIT, MERGED} <= set(done)
    fresh = Board(layout, board.z, board.beta, 1.0, 1.0, 0.5)
    for one, other in zip(board.members, fresh.members, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(board.n_kw, fresh.n_kw)
    np.testing.assert_allclose(board.roots, fresh.roots)
    assert board.beta.sum() == pytest.approx(1.0)
    assert board.origin.size == board.n_topics


def test_allocation_is_the_law_it_says():
    """Log q of drawn sides, summed over all of them, is one; the priors telescope."""
    words, docs, members = np.array([0, 1, 0], np.int32), np.array([0, 0, 1], np.int32), np.arange(3)
    phi, r, total = np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0.3, 0.9, 0.5]), 0.0
    for code in range(8):
        sides = np.array([code >> i & 1 for i in range(3)], np.int8)
        log_q, log_two, log_one = allocate(members, docs, words, sides, r, 0.4, 0.9, phi, True, np.uint64(0))
        total += np.exp(log_q)
        assert log_one == pytest.approx(np.log(1.3 * 2.3 * 1.3))
        assert log_two <= log_one
    assert total == pytest.approx(1.0)


def corpus_with_topics(k, seed, n=300):
    X = make_topics(n, k, 200, 60, seed).X.tocsr()
    return Corpus(X.indptr, X.indices.astype(np.int32), X.data, 200)


def test_a_start_from_one_topic_finds_the_others():
    (chain,) = run(HDPKernel(corpus_with_topics(8, 0), warmup=60), key=key_from(0), sweeps=60)
    assert 7 <= chain.stats["n_topics"][-1] <= 9


def test_without_moves_it_does_not():
    (chain,) = run(HDPKernel(corpus_with_topics(8, 0), n_moves=0), key=key_from(0), sweeps=60)
    assert chain.stats["n_topics"][-1] < 7


def test_twins_are_fused():
    corpus, rng = corpus_with_topics(2, 1), np.random.default_rng(0)
    layout = Layout.of(corpus)
    z = rng.integers(0, 2, int(corpus.n_tokens)).astype(np.uint16)
    board = Board(layout, z, np.array([0.5, 0.4, 0.1]), 1.0, 1.0, 0.1)
    assert board.fuse() == 1
    assert board.n_topics == 1
    assert board.origin.tolist() == [-1]
    assert shares(board.n_kw, 0.1).sum() == pytest.approx(1.0)
