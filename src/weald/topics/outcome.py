"""What inference of a topic model hands to its estimator, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weald._typing import JSON, Array, FloatArray
from weald.exceptions import Status
from weald.topics.fold_in import Topics


@dataclass(frozen=True, eq=False)
class Learnt:
    """Topics, how they were found, and whether to trust them.

    Parameters
    ----------
    topics : Topics
        Posterior means: words of topics, and the prior of proportions.
    sizes : (K,) array
        Expected number of tokens of each topic.
    draws, stats : mapping of str to array of shape (chain, draw or sweep, ...)
        As in `weald.Posterior`.
    status : Status
        The verdict.
    warmup, thin : int
        As in `weald.Posterior`.
    attrs : mapping of str to JSON
        What was chosen, and why.
    state : object
        What learning more documents needs: arrays.
    """

    topics: Topics
    sizes: FloatArray
    draws: Mapping[str, Array]
    stats: Mapping[str, Array]
    status: Status
    warmup: int = 0
    thin: int = 1
    attrs: Mapping[str, JSON] = field(default_factory=dict)
    state: Any = None
