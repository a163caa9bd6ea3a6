"""Search for confident wrong answers: random streams with settings that a user would type.

    python -m benchmarks.confident_wrong --seed 1 --releases 500

An answer is *wrong* if its interval misses the true sum by more than its half-width, or if its
error is above 30 % though the half-width is below 10 % of the estimate. Warnings and refusals are
counted apart. Nothing in the product is to be tuned on what this draws: mend a class, and look at
other seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

import tidegate as tg
from benchmarks.judged_answers import Ask, FloatArray, Found, Judged, judged

NEW_YEAR = np.datetime64("2024-01-01T00:00", "s")


def _drifting(random: Generator, n: int) -> FloatArray:
    return np.exp(np.linspace(0, random.uniform(-3, 3), n)) * random.gamma(2.0, 1.0, n)


def _two_scales(random: Generator, n: int) -> FloatArray:
    small, times = random.gamma(2.0, 1.0, n), 10 ** random.uniform(1, 3)
    return np.where(random.random(n) < random.uniform(0.02, 0.5), times, 1.0) * small


def _mostly_zero(random: Generator, n: int) -> FloatArray:
    return np.where(random.random(n) < 10 ** random.uniform(-2, -0.2), random.gamma(2.0, 1.0, n), 0)


def _step(random: Generator, n: int) -> FloatArray:
    return np.where(np.arange(n) < random.uniform(0, 1) * n, 1.0, 10 ** random.uniform(-2, 2))


def _days(random: Generator, n: int) -> FloatArray:
    return np.maximum(0, np.sin(np.arange(n) * 2 * np.pi / 24)) * random.uniform(0.4, 1, n)


# Each draws n values of about 1; they are multiplied by a scale of the user's unit.
KINDS: dict[str, Callable[[Generator, int], FloatArray]] = {
    "decimals": lambda random, n: random.gamma(random.uniform(0.3, 5), 1.0, n),
    "lognormal": lambda random, n: random.lognormal(0, random.uniform(0.3, 2), n),
    "constant": lambda random, n: np.full(n, random.uniform(0.3, 3)),
    "nearly constant": lambda random, n: random.normal(1, 0.02, n),
    "integers": lambda random, n: random.poisson(10 ** random.uniform(-1, 3), n).astype(float),
    "mostly zero": _mostly_zero,
    "half of a day zero": _days,
    "drifting": _drifting,
    "a step": _step,
    "two scales": _two_scales,
    "sorted": lambda random, n: np.sort(random.lognormal(0, 1, n)),
    "falling": lambda random, n: np.sort(random.lognormal(0, 1, n))[::-1].copy(),
    "signed": lambda random, n: random.normal(random.uniform(-1, 1), 1, n),
    "signed, mostly zero": lambda random, n: _mostly_zero(random, n) * random.choice([-1, 1], n),
    "refunds": lambda random, n: (
        random.gamma(2.0, 1.0, n) * np.where(random.random(n) < 0.02, -1, 1)
    ),
}
LOOSE = (1.0, 1.3, 3.0, 10.0, 100.0, 1000.0, 10_000.0)  # bounds, in largest values
Route = Callable[["Drawn"], Iterator[tuple[Ask, FloatArray]]]


@dataclass
class Drawn:
    """A stream, and settings as a user would type them."""

    kind: str
    values: FloatArray
    epsilon: float
    bound: float
    lower: float
    random: Generator
    seed: int

    @property
    def source(self) -> Any:
        """What noise is drawn from."""
        return tg.seeded(self.seed)

    def settings(self, **more: Any) -> dict[str, Any]:
        """Arguments of a preset."""
        lower = {"lower": self.lower} if self.lower else {}
        return {"epsilon": self.epsilon, "bound": self.bound, **lower, **more}


def drawn(seed: int, kind: str | None = None) -> Drawn:
    """A random stream with random settings."""
    random = np.random.default_rng(seed)
    kind = kind or str(random.choice([*KINDS]))
    n = int(10 ** random.uniform(np.log10(20), np.log10(20_000)))
    values = KINDS[kind](random, n)
    if kind != "integers":
        values = values * 10 ** random.uniform(-4, 5)
    largest = float(np.abs(values).max()) or 1.0
    bound = _typed(largest * float(random.choice(LOOSE)))
    lower = 0.0
    if values.min() < 0:
        lower = -bound if random.random() < 0.7 else -_typed(float(-values.min()))
    epsilon = float(f"{10 ** random.uniform(-1, np.log10(3)):.1g}")
    return Drawn(kind, values, epsilon, bound, lower, random, seed)


def _typed(number: float) -> float:
    """Rounded up to two digits, as people type bounds."""
    size = 10.0 ** (np.floor(np.log10(number)) - 1)
    return float(f"{np.ceil(number / size - 1e-9) * size:.3g}")


def _released(one: Drawn, values: FloatArray, **more: Any) -> tuple[Ask, FloatArray]:
    released = tg.release(values, randomness=one.source, **one.settings(**more))
    return released.query, values[-len(released) :]


def _pick(one: Drawn, *choices: int) -> int:
    return int(one.random.choice(choices))


def _with(
    settings: Callable[[Drawn], dict[str, Any]], one: Drawn
) -> Iterator[tuple[Ask, FloatArray]]:
    yield _released(one, one.values, **settings(one))


def _long_horizon(one: Drawn) -> Iterator[tuple[Ask, FloatArray]]:
    release = tg.adaptive(**one.settings()).start(one.source)
    release.push(one.values)
    release.finish()
    yield release.query, one.values


def _by_key(one: Drawn) -> Iterator[tuple[Ask, FloatArray]]:
    keys = np.array(["a", "b", "c"])[one.random.choice(3, one.values.size, p=[0.6, 0.3, 0.1])]
    pipeline = tg.adaptive(horizon=max(1, one.values.size // 3), **one.settings())
    release = tg.keyed(pipeline, keys=["a", "b", "c"]).start(one.source)
    release.push(keys.tolist(), one.values)
    release.finish()
    for key in np.unique(keys).tolist():
        yield release.record(key).query, one.values[keys == key]


def _columns(one: Drawn) -> Iterator[tuple[Ask, FloatArray]]:
    other = one.random.permutation(one.values)
    table = {"a": one.values, "b": other}
    released = tg.release(table, ["a", "b"], randomness=one.source, **one.settings())
    yield released["a"].query, one.values
    yield released["b"].query, other


def _events(one: Drawn) -> Iterator[tuple[Ask, FloatArray]]:
    n = one.values.size
    ticks = max(4, int(n / 10 ** one.random.uniform(-0.5, 1.5)))
    ticks = min(ticks, 20_000)
    at = np.sort(one.random.integers(0, ticks * 3600, n))
    when = NEW_YEAR + at.astype("timedelta64[s]")
    pipeline = tg.events(every="1h", start="2024-01-01T00:00", horizon=ticks, **one.settings())
    release = pipeline.start(one.source)
    release.push(when, one.values)
    release.finish(NEW_YEAR + np.timedelta64(ticks, "h"))
    sums = np.bincount(at // 3600, weights=one.values, minlength=ticks)
    yield release.query, sums


def _local(one: Drawn) -> Iterator[tuple[Ask, FloatArray]]:
    n = 10_000
    values = one.values[one.random.integers(0, one.values.size, n)]
    topl = tg.topl(fleet=n, **{**one.settings(), "epsilon": one.epsilon + 1})
    found = topl.simulate(values, one.source)
    yield found.query, values[-found.released.size :]


ROUTES: dict[str, Route] = {
    "release": partial(_with, lambda _: {}),
    "long horizon": _long_horizon,
    "tops": partial(_with, lambda _: {"method": "tops"}),
    "adaptive_gaussian": partial(_with, lambda _: {"method": "adaptive_gaussian"}),
    "hold-out": partial(_with, lambda one: {"holdout": max(8, one.values.size // 8)}),
    "window": partial(_with, lambda one: {"unit": tg.units.Window(length=_pick(one, 2, 7, 24))}),
    "period": partial(_with, lambda one: {"period": _pick(one, 7, 24, 96)}),
    "by key": _by_key,
    "columns": _columns,
    "events": _events,
    "local": _local,
}


def search(seeds: range, route: str | None, kind: str | None, shown: bool) -> dict[str, Found]:
    """Draw, release and judge; what was found, by route and by kind."""
    found: dict[str, Found] = defaultdict(Found)
    for seed in seeds:
        one = drawn(seed, kind)
        name = route or str(one.random.choice([*ROUTES]))
        answers: list[Judged] = []
        refused = False
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                for ask, truth in ROUTES[name](one):
                    if truth.size:
                        random = np.random.default_rng(seed)
                        answers += judged(ask, truth, random, bool(said))
            except (tg.SettingError, tg.QueryError):
                refused = True
        for each in ("all", f"route {name}", f"kind {one.kind}"):
            found[each].add(answers, refused)
        wrong = [each for each in answers if each.is_wrong]
        if shown and not all(each.is_warned_of for each in wrong):
            print(
                f"seed {seed}: {len(wrong)} of {len(answers)} wrong, {name}, {one.kind}, "
                f"n = {one.values.size}, ε = {one.epsilon:g}, bound {one.bound:g}, largest "
                f"{np.abs(one.values).max():.3g}, mean {one.values.mean():.3g}"
            )
    return found


def main() -> None:
    """Print what was found."""
    shape = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--seed", type=int, default=1, help="the first one, in hundred thousands")
    parser.add_argument("--releases", type=int, default=300)
    parser.add_argument("--route", choices=[*ROUTES])
    parser.add_argument("--kind", choices=[*KINDS])
    parser.add_argument("--shown", action="store_true", help="print each confident wrong release")
    given = parser.parse_args()
    first = given.seed * 100_000
    found = search(range(first, first + given.releases), given.route, given.kind, given.shown)
    print(f"{'':28}releases refused answers  held  open  half-width  wrong  totals  warned")
    rows = sorted(found.items(), key=lambda item: (item[0].split()[0], -len(item[1].wrong)))
    for name, one in rows:
        print(f"{name:28}{one}")


if __name__ == "__main__":
    main()
