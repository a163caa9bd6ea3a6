"""What AdaPub is for one stream, and what its groups cost.

`python -m benchmarks.adapub [--runs 4]`. AdaPub (“Adaptive Differentially Private Data Stream
Publishing in Spatio-temporal Monitoring of IoT”) releases many streams at once, with ε for any w
steps. As two public reimplementations have it (the paper was not at hand), it groups streams whose
last counts were near each other (DimParti), gives every count noise of scale w/ε_p, closes a
stream's group of steps when Σ |x − mean| plus noise of scale 2w/ε_c reaches a public limit
(AdaCluster), and publishes the median of the group so far. The limit is max(1, e²/ε), with e from a
controller that sees relative differences of what was released; ε_p and ε_c are 4/5 and 1/5 of ε.

**What its groups cost.** A count is part of all later tests of its group, and the limit has no
noise of its own. So each of these tests tells of the count anew, 2·(1 − 1/n)·ε_c/2w at most in a
group of n: ε_c holds for groups of up to w steps, and any group may be longer. `loss` is exact, for
a group that stays open: all counts 0, or the first one 1.

**Mended** as in PeGaSus, the limit has noise, too, and every test twice of it (`methods.pegasus`;
the argument holds for a limit that follows what was released). Then, for one stream, it is
`pegasus(medians=True, unit=Window(w))` with a limit of its own. Its mean errors are below, over
those of plain noise of scale w/ε, beside `pegasus` with fixed limits; and its largest limit, in
scales of the noise of a test.
"""

from __future__ import annotations

import argparse
import math
from bisect import insort
from fractions import Fraction

import numpy as np

from benchmarks.pegasus_setting import Floats, grouped, plain, smoothed
from benchmarks.pegasus_streams import Ints, names, stream

_WINDOW, _LENGTH = 60, 1 << 13
EPSILONS = Fraction(1), Fraction(10), Fraction(100)
_OPEN, _SHARE = (0.9, 0.1), 0.2  # weights of the controller: of now, and of the group so far


def loss(count: int, epsilon: float, window: int, limit: float = 1.0) -> float:
    """Of `count` tests that a group passes, where the first value is 1 and not 0."""
    scale = 2 * window / (_SHARE * epsilon)

    def passes(deviation: float) -> float:
        distance = (limit - deviation) / scale
        tail = 0.5 * math.exp(-abs(distance))
        return 1 - tail if distance > 0 else tail

    return sum(math.log(passes(0) / passes(2 - 2 / size)) for size in range(2, count + 2))


def mended(values: Ints, epsilon: float, seed: int) -> tuple[Floats, float]:
    """AdaPub for one stream, with noise in the limit, too; and the largest limit that it had."""
    random = np.random.default_rng((seed, 60))
    perturber, tests = (1 - _SHARE) * epsilon / _WINDOW, _SHARE * epsilon / _WINDOW
    noisy = (values + random.laplace(0, 1 / perturber, values.size)).tolist()
    noise = random.laplace(0, 8 / tests, values.size).tolist()
    limits = random.laplace(0, 4 / tests, values.size).tolist()
    members, known, published = list[int](), list[float](), [noisy[0]]
    errors = own = most = 0.0
    for at, (value, number) in enumerate(zip(values.tolist(), noisy, strict=True)):
        error = abs(published[-1] - number) / max(number, 1.0)
        mean = errors / len(members) if members else 0.0
        limit = max(1.0, (_OPEN[0] * error + _OPEN[1] * mean) ** 2 / epsilon)
        most = max(most, limit)
        joined = [*members, value]
        middle = sum(joined) / len(joined)
        deviation = sum(abs(one - middle) for one in joined)
        if not members:
            own = limits[at]
        closes = bool(members) and deviation + noise[at] >= limit + own
        if closes or not members:
            members, known, errors = [], [], 0.0
        members.append(value)
        insort(known, number)
        errors += error
        half, odd = divmod(len(known), 2)
        published.append(known[half] if odd else (known[half - 1] + known[half]) / 2)
        if closes:
            members, known = [], []
    return np.array(published[1:]), most


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    print(f"w = {_WINDOW}, ε = 1: ε_c = {_SHARE:g} for any w steps\n")
    print("| open for | loss |\n|---|---|")
    for count in (_WINDOW // 2, _WINDOW, 2 * _WINDOW, 10 * _WINDOW):
        print(f"| {count} steps | {loss(count, 1.0, _WINDOW):.3g} |")
    print("\n| stream | ε | AdaPub, mended | `pegasus`, limit 0.01 | 5 | 40 | largest limit |")
    print("|---" * 7 + "|")
    for name in names():
        for epsilon in EPSILONS:
            rows = []
            for seed in range(options.runs):
                values, event = stream(name, seed)[:_LENGTH], epsilon / _WINDOW
                base = np.abs(plain(values, event, seed) - values).mean()
                own, most = mended(values, float(epsilon), seed)
                others = [
                    smoothed(*grouped(values, event, limit, seed))["median"]
                    for limit in (Fraction(1, 100), Fraction(5), Fraction(40))
                ]
                errors = [np.abs(one - values).mean() / base for one in (own, *others)]
                rows.append((*errors, most * float(_SHARE * epsilon) / (8 * _WINDOW)))
            means = " | ".join(f"{one:.3g}" for one in np.mean(rows, axis=0))
            print(f"| {name} | {float(epsilon):g} | {means} |", flush=True)


if __name__ == "__main__":
    main()
