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


def assignment_from_name(name: str) -> AbstractAssignment:
    """The kernel called `name`; ``"auto"`` takes the fastest that is exact for the problem: today, ``"exact"``."""
    if name == "auto":
        return ExactAssignment()
    if name not in ASSIGNMENTS:
        raise ParameterError(f"assign must be 'auto' or one of {sorted(ASSIGNMENTS)}, got {name!r}")
    return ASSIGNMENTS[name]()
