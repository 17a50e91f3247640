"""What can go wrong, in words that say what to do.

Errors are raised when weald cannot give an answer; a `Status` is returned with the answer when the answer
exists but may not be trusted. Every error derives from `WealdError`, and also from the built-in type that
scikit-learn users expect.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class WealdError(Exception):
    """Base of every error weald raises on purpose."""


class DataError(WealdError, ValueError):
    """The data cannot be used as they are."""


class ParameterError(WealdError, ValueError):
    """A parameter of an estimator or function is wrong."""


class PersistError(WealdError, ValueError):
    """A file cannot be read as a weald model or checkpoint."""


class MissingExtraError(WealdError, ImportError):
    """A feature needs an optional package; the message names the command that installs it."""


class DataWarning(UserWarning):
    """The data were used, but not quite as they came."""


class StatusWarning(UserWarning):
    """A fit ended with a `Status` other than ok."""


class Verdict(enum.Enum):
    """How far a result may be trusted."""

    OK = "ok"
    CAUTION = "caution"
    FAILED = "failed"


@dataclass(frozen=True)
class Status:
    """The verdict on a fit, its reason, and what to do about it.

    Parameters
    ----------
    verdict : Verdict
        ``OK``, ``CAUTION`` (usable, read the advice) or ``FAILED`` (do not use).
    message : str
        What happened, in one sentence.
    advice : tuple of str
        What to try, best first.
    figures : mapping of str to float
        The numbers behind the verdict.
    """

    verdict: Verdict = Verdict.OK
    message: str = "converged"
    advice: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True when nothing stands against the result."""
        return self.verdict is Verdict.OK

    def __str__(self) -> str:
        lines = [f"{self.verdict.value}: {self.message}"]
        lines += [f"  - {line}" for line in self.advice]
        return "\n".join(lines)


def need(module: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for a missing optional package."""
    return MissingExtraError(f"{purpose} needs {module}; install it with: pip install 'weald[{extra}]'")
