"""Runs of kernels (contract D), and generic samplers over a log density."""

from weald.inference.run import AbstractKernel, Chain, Snapshot, run

__all__ = ["AbstractKernel", "Chain", "Snapshot", "run"]
