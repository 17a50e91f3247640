"""Topic models: every document is a mixture of topics.

`LDA` has a given number of topics, `HDP` finds it, `SupervisedLDA` learns topics that explain a response.
"""

from weald.topics.corpus import Corpus
from weald.topics.fold_in import Topics
from weald.topics.hdp import HDP
from weald.topics.lda import LDA
from weald.topics.slda import SupervisedLDA

__all__ = ["HDP", "LDA", "Corpus", "SupervisedLDA", "Topics"]
