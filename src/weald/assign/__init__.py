"""The E-step, interchangeable: one file for each kernel of contract C."""

from weald.assign.base import AbstractAssignment, Assignment, Part, Rows, Soft, expect_all, sample_all
from weald.assign.canopy1 import CanopyAssignment
from weald.assign.exact import ExactAssignment
from weald.assign.groups import GroupsAssignment
from weald.assign.lists import ListsAssignment
from weald.exceptions import ParameterError

ASSIGNMENTS: dict[str, type[AbstractAssignment]] = {
    "canopy1": CanopyAssignment,
    "exact": ExactAssignment,
    "groups": GroupsAssignment,
    "lists": ListsAssignment,
}

__all__ = [
    "ASSIGNMENTS", "AbstractAssignment", "Assignment", "CanopyAssignment", "ExactAssignment", "GroupsAssignment",
    "ListsAssignment", "Part", "Rows", "Soft", "assignment_from_name", "expect_all", "sample_all",
]  # fmt: skip


MANY = 300  # components from which lists reach the quality of exact assignment sooner


def assignment_from_name(name: str, n_components: int, *, draws: bool, strict: bool) -> AbstractAssignment:
    """The kernel called `name`; ``"auto"`` takes the one that reaches a given quality first.

    Parameters
    ----------
    name : str
        ``"auto"`` or a name in `ASSIGNMENTS`.
    n_components : int
        K.
    draws : bool
        Labels will be drawn, not averaged.
    strict : bool
        Chains will be judged by their likelihood, and must not depend on what was remembered of past draws.
    """
    if name == "auto":
        return ListsAssignment() if draws and not strict and n_components > MANY else ExactAssignment()
    if name not in ASSIGNMENTS:
        raise ParameterError(f"assign must be 'auto' or one of {sorted(ASSIGNMENTS)}, got {name!r}")
    chosen = ASSIGNMENTS[name]()
    if strict and chosen.period > 1:
        raise ParameterError(
            f"gibbs needs assign='exact': {name!r} only estimates the likelihood that chains are judged by"
        )
    return chosen
