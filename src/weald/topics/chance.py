"""Random numbers for tokens, and sticks that break.

A sweep visits every token once, and a token needs one uniform number: hash(key of the sweep, token), the finaliser of
splitmix64 (Steele, Lea, Flood 2014) over a Weyl sequence. It is a fifth of the cost of Philox, and as independent of
threads and order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64

from weald._kernel import inline

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@inline
def hashed(key: Any, t: Any) -> Any:
    """One float64 in [0, 1) keyed by (key, t): the finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    x = uint64(key) + uint64(t) * _GOLDEN
    x = (x ^ (x >> uint64(30))) * _MIX_1
    x = (x ^ (x >> uint64(27))) * _MIX_2
    return ((x ^ (x >> uint64(31))) >> uint64(11)) * (1.0 / 9007199254740992.0)


@inline
def break_stick(alpha: Any, k: Any, u: Any, gamma: Any) -> Any:
    """Cut the weight of topic k in two: k keeps a share from Beta(1, gamma), k + 1 gets the rest."""
    rest = (1.0 - u) ** (1.0 / gamma)
    alpha[k + 1] = alpha[k] * rest
    alpha[k] *= 1.0 - rest
