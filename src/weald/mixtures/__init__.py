"""Mixtures: finite ones by EM, SEM, Gibbs and VB; nonparametric ones by draws of a partition, and their trees.

Naive Bayes is a mixture with known labels.
"""

from weald.mixtures.dp_mixture import DPMixture
from weald.mixtures.hierarchical import BayesianHierarchicalClustering
from weald.mixtures.mixture import Mixture
from weald.mixtures.naive_bayes import NaiveBayes

__all__ = ["BayesianHierarchicalClustering", "DPMixture", "Mixture", "NaiveBayes"]
