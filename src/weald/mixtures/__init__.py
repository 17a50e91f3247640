"""Mixtures: finite ones by EM, SEM, Gibbs and VB; naive Bayes is a mixture with known labels."""

from weald.mixtures.mixture import Mixture
from weald.mixtures.naive_bayes import NaiveBayes

__all__ = ["Mixture", "NaiveBayes"]
