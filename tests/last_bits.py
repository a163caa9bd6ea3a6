"""Another processor, without having one: `pytest -p tests.last_bits`.

numpy has several codes for one function and takes the fastest that the processor can run; C's
mathematical library has too. They agree but for the last bit. Here every third result of such a
function is moved to the next float, above or below, as its bits decide. What is released must not
change, and no test may compare such results bit for bit.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

# What processors differ in. Not sqrt, nor + − × ÷, which IEEE 754 prescribes to the last bit.
DIFFERING = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power",
    "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "arctanh", "cbrt", "logaddexp",
)  # fmt: skip


def elsewhere(exact: np.ufunc) -> Any:
    """The function as another processor has it."""

    @functools.wraps(exact)
    def moved(*arguments: Any, out: Any = None, **options: Any) -> Any:
        result = exact(*arguments, out=out, **options)
        if getattr(result, "dtype", None) != np.float64:
            return result  # objects and whole numbers are exact
        bits = np.asarray(result).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)
        towards = np.where(bits % 6 == 0, np.inf, np.where(bits % 6 == 3, -np.inf, result))
        # 0, 1 and infinity are limits that every library meets.
        plain = np.isfinite(result) & (result != 0) & (result != 1)
        changed = np.where(plain, np.nextafter(result, towards), result)
        if out is None:
            return changed if isinstance(result, np.ndarray) else np.float64(changed)
        result[...] = changed
        return result

    for method in ("reduce", "accumulate", "outer", "at", "reduceat"):
        setattr(moved, method, getattr(exact, method))
    return moved


for name in DIFFERING:
    setattr(np, name, elsewhere(getattr(np, name)))
