"""Topic models: documents as mixtures of topics, with a given (`LDA`) or unknown (`HDP`) number of them, or with a response
that topics must explain (`SupervisedLDA`).
"""

from weald.topics.corpus import Corpus
from weald.topics.fold_in import Topics

__all__ = ["Corpus", "Topics"]
