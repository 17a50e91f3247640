import numpy as np
import pytest
from scipy.stats import kstest

from weald._kernel import kernel
from weald._random import key_from, philox, step_rng, sweep_key, uniform
from weald.exceptions import ParameterError


@kernel
def fill_uniform(key, first, stream, out):
    for i in range(out.shape[0]):
        out[i] = uniform(key, first + i, stream)


@kernel
def _philox(counter, key, out):
    out[0], out[1], out[2], out[3] = philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x00000000, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (0xFFFFFFFF, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ],
)
def test_philox_known_answers(word, expected):
    """The published known-answer vectors of Philox4x32-10 for all-zero and all-one counters and keys."""
    out = np.empty(4, np.uint32)
    _philox(np.full(4, word, np.uint32), np.full(2, word, np.uint32), out)
    assert [int(v) for v in out] == expected


def test_uniforms_do_not_depend_on_blocks():
    whole, parts = np.empty(10_000), np.empty(10_000)
    key = key_from(3)
    fill_uniform(key, 0, 0, whole)
    for start in (7_000, 0, 3_000):
        stop = {7_000: 10_000, 0: 3_000, 3_000: 7_000}[start]
        fill_uniform(key, start, 0, parts[start:stop])
    assert np.array_equal(whole, parts)


def test_uniforms_are_uniform_and_streams_differ():
    a, b = np.empty(50_000), np.empty(50_000)
    fill_uniform(np.uint64(1), 0, 0, a)
    fill_uniform(np.uint64(1), 0, 1, b)
    assert kstest(a, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02
    assert a.min() >= 0.0
    assert a.max() < 1.0


def test_rows_beyond_32_bits_have_their_own_numbers():
    low, high = np.empty(4), np.empty(4)
    fill_uniform(np.uint64(1), 0, 0, low)
    fill_uniform(np.uint64(1), 2**32, 0, high)
    assert not np.any(low == high)


def test_keys():
    assert key_from(0) == key_from(0) != key_from(1)
    assert key_from(None) != key_from(None)
    assert key_from(np.random.default_rng(0)) == key_from(np.random.default_rng(0))
    assert key_from(np.random.RandomState(0)) == key_from(np.random.RandomState(0))
    for wrong in (-1, "seed", 1.5):
        with pytest.raises(ParameterError, match="random_state"):
            key_from(wrong)


def test_step_generators_differ_by_chain_and_sweep():
    key = key_from(0)
    draws = {step_rng(key, chain=c, sweep=s).random() for c in range(3) for s in range(3)}
    assert len(draws) == 9
    assert sweep_key(step_rng(key, chain=0, sweep=1)) == sweep_key(step_rng(key, chain=0, sweep=1))
