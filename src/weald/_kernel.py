"""The one decorator of compiled code, and the vectorised exponential that kernels share.

A kernel takes arrays only, is serial, and releases the GIL; one layer of threads stands above it
(`weald.engine`). Kernels are cached on disk, and compiled on their first call, never at import.

``NUMBA_DISABLE_JIT=1`` runs them as plain Python, for a debugger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

FASTMATH = {"reassoc", "contract"}


def kernel(function: F) -> F:
    """Compile on first call: cached, GIL released, IEEE except for reassociation and contraction."""
    compiled: F = numba.njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")(function)
    return compiled


def inline(function: F) -> F:
    """A kernel that is pasted into its caller: no reassociation, so bit tricks stay as written."""
    compiled: F = numba.njit(inline="always", error_model="numpy")(function)
    return compiled
