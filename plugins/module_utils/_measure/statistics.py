# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles and errors that more than one measurement needs. Pure."""

from __future__ import annotations

import functools
import math
from typing import Callable, Tuple


def beta_tail(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by Lentz's continued fraction (Press et al., Numerical Recipes, 6.4)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_tail(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for turn in range(1, 400):
        for step in (
            turn * (b - turn) * x / ((a + 2 * turn - 1) * (a + 2 * turn)),
            -(a + turn) * (a + b + turn) * x / ((a + 2 * turn) * (a + 2 * turn + 1)),
        ):
            d = 1 / _away(1 + step * d, tiny)
            c = _away(1 + step / c, tiny)
            fraction *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * fraction / a


def _away(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


@functools.lru_cache(maxsize=None)
def t_quantile(tail: float, freedom: float) -> float:
    """The t that a Student variable of so many degrees of freedom exceeds with probability *tail*, 0 < tail < 1/2."""
    low, high = 0.0, 1.0
    while beta_tail(freedom / 2, 0.5, freedom / (freedom + high * high)) / 2 > tail:
        high *= 2
        if high > 1e12:
            return high
    for _turn in range(200):
        middle = (low + high) / 2
        if beta_tail(freedom / 2, 0.5, freedom / (freedom + middle * middle)) / 2 > tail:
            low = middle
        else:
            high = middle
    return high


def poisson_bounds(events: int, tail: float) -> Tuple[float, float]:
    """The means between which that of a Poisson variable lies of which so many events were seen, each bound with an error of *tail*.

    Exact (Garwood 1936, Biometrika 28): the mean with which so many or more, so many or fewer come with probability *tail*.
    """
    low = 0.0 if events == 0 else _solve(lambda mean: 1 - poisson_tail(events - 1, mean) - tail, float(events))
    return low, _solve(lambda mean: tail - poisson_tail(events, mean), events + 10 * math.sqrt(events + 1) - 2 * math.log(tail))


def poisson_tail(events: int, mean: float) -> float:
    """The probability of so many events or fewer."""
    if mean <= 0:
        return 1.0
    return min(math.fsum(math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) for count in range(events + 1)), 1.0)


def _solve(rising: Callable[[float], float], high: float) -> float:
    """Where a rising function is 0, between 0 and *high*."""
    low = 0.0
    for _turn in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def spent(error: float, look: int) -> float:
    """The error that the interval of this look (1, 2, …) may have; over all looks that ever come it sums to *error*."""
    return error / (look * (look + 1))
