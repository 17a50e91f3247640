"""Randomness that does not depend on threads, blocks or workers.

Outside kernels there is one `numpy.random.Generator` for each (seed, chain, sweep), so that a resumed fit needs no
stored generator state. Inside: Philox4x32-10 (Salmon et al., SC 2011), a pure function of a key drawn afresh from
that generator each sweep and of the row, so a row draws the same number wherever it is processed.

    >>> key = key_from(0)
    >>> bool(step_rng(key, chain=0, sweep=7).random() == step_rng(key, chain=0, sweep=7).random())
    True
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint32, uint64

from weald._kernel import inline
from weald._typing import RandomState
from weald.exceptions import ParameterError

_MUL_0, _MUL_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


@inline
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Ten Philox rounds: counter (c0..c3) and key (k0, k1), all uint32, to four uint32."""
    for _ in range(10):
        p0 = _MUL_0 * uint64(c0)
        p1 = _MUL_1 * uint64(c2)
        c0 = uint32(uint32(p1 >> uint64(32)) ^ c1 ^ k0)
        c2 = uint32(uint32(p0 >> uint64(32)) ^ c3 ^ k1)
        c1 = uint32(p1)
        c3 = uint32(p0)
        k0 = uint32(k0 + _WEYL_0)
        k1 = uint32(k1 + _WEYL_1)
    return c0, c1, c2, c3


@inline
def bits(key: Any, row: Any, stream: Any) -> Any:
    """64 random bits keyed by (key, row, stream)."""
    high = uint64(row) >> uint64(32)
    r0, r1, _, _ = philox(
        uint32(row), uint32(high), uint32(stream), uint32(0), uint32(key), uint32(uint64(key) >> uint64(32))
    )
    return (uint64(r0) << uint64(32)) | uint64(r1)


@inline
def uniform(key: Any, row: Any, stream: Any) -> Any:
    """One float64 in [0, 1) with 53 random bits, keyed by (key, row, stream)."""
    return (bits(key, row, stream) >> uint64(11)) * (1.0 / 9007199254740992.0)


def key_from(random_state: RandomState) -> np.uint64:
    """A 64-bit key from a seed, a Generator, a RandomState, or None (fresh entropy)."""
    if random_state is None:
        words = np.random.SeedSequence().generate_state(2)
    elif isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=2, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(0, 2**32, size=2, dtype=np.uint32)
    elif isinstance(random_state, int | np.integer) and random_state >= 0:
        words = np.random.SeedSequence(int(random_state)).generate_state(2)
    else:
        raise ParameterError(
            f"random_state must be a non-negative int, a numpy Generator, a RandomState or None, got {random_state!r}"
        )
    return np.uint64(int(words[0]) | int(words[1]) << 32)


def step_rng(key: np.uint64, *, chain: int, sweep: int) -> np.random.Generator:
    """The generator of one step of one chain."""
    return np.random.Generator(np.random.Philox(key=int(key), counter=[0, 0, sweep, chain]))


def sweep_key(rng: np.random.Generator) -> np.uint64:
    """A fresh key for the kernels of one sweep."""
    return np.uint64(rng.integers(0, 2**64, dtype=np.uint64))
