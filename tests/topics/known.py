"""A topic model whose topics are given, to test what all topic models share."""

from __future__ import annotations

import numpy as np

from weald.topics import Topics
from weald.topics.base import AbstractTopicModel

PHI = np.array([[0.6, 0.3, 0.05, 0.05], [0.05, 0.05, 0.3, 0.6]])
WORDS = ["tea", "milk", "car", "road"]


class Known(AbstractTopicModel):
    def __init__(self, phi=PHI, alpha=0.1, whole=True, random_state=None, n_jobs=None):
        self.phi, self.alpha, self.whole = phi, alpha, whole
        self.random_state, self.n_jobs = random_state, n_jobs

    @property
    def _whole(self):
        return self.whole

    def fit(self, X, y=None):
        self._read(X, reset=True)
        K = len(self.phi)
        self._learnt(Topics(self.phi, np.full(K, self.alpha)), np.arange(1.0, K + 1))  # the last topic is the largest
        return self
