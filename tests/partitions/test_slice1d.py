"""The slice sampler leaves its density invariant, from independent exact starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from weald.exceptions import ParameterError
from weald.partitions import slice_sample


def two_humps(x):
    return np.logaddexp(math.log(0.3) - 0.5 * (x + 3) ** 2, math.log(0.7) - 2.0 * (x - 2) ** 2 + math.log(2.0))


def draw_two_humps(rng):
    return rng.normal(-3, 1) if rng.random() < 0.3 else rng.normal(2, 0.5)


def cdf_two_humps(x):
    return 0.3 * stats.norm.cdf(x, -3, 1) + 0.7 * stats.norm.cdf(x, 2, 0.5)


CASES = {  # log density, exact draw, cdf, options
    "normal": (lambda x: -0.5 * x * x, lambda rng: rng.normal(), stats.norm.cdf, {}),
    "two humps": (two_humps, draw_two_humps, cdf_two_humps, {}),
    "two humps, few steps": (two_humps, draw_two_humps, cdf_two_humps, {"width": 0.7, "max_steps": 4}),
    "bounded": (
        lambda x: math.log(x * x * (1 - x)) if 0 < x < 1 else math.nan,
        lambda rng: rng.beta(3, 2),
        stats.beta(3, 2).cdf,
        {"width": 0.4, "lower": 1e-300, "upper": 1 - 1e-16},
    ),
}


def p_value(name, wrong=0.0):
    log_density, draw, cdf, options = CASES[name]
    rng, found = np.random.default_rng(4), []
    for _ in range(2000):
        x = draw(rng)
        for _ in range(3):
            x = slice_sample(lambda x: log_density(x) + wrong * x, x, rng, **options)
        found.append(x)
    return stats.kstest(found, cdf).pvalue


@pytest.mark.parametrize("name", CASES)
def test_invariance(name):
    assert p_value(name) > 1e-5
    assert p_value(name, wrong=2.0 if name == "bounded" else 0.5) < 1e-8


def test_bad_start_is_refused():
    with pytest.raises(ParameterError, match="start where the density"):
        slice_sample(lambda x: -math.inf, 0.0, np.random.default_rng(0))
