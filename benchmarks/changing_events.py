"""Event logs whose sizes or rates change in time: do intervals hold, and are estimates useful?

    python -m benchmarks.changing_events --seed 1 --releases 5

Logs are made up, with a daily cycle: sizes that grow or fall tenfold or a hundredfold, steadily or
in a jump, refunds, values that are mostly 0, rates that change while sizes stay. Asked are the
total, 12 long and 90 short ranges of the whole log, which count truncated values in the truth. A
range is *wrong* if its interval misses the true sum by more than its half-width, or if it is 30 %
off with a half-width below 10 %.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import tidegate as tg

Floats = NDArray[np.float64]
_START = np.datetime64("2024-01-01T00:00", "s")
SECONDS = {"1min": 60, "15min": 900, "1h": 3600}
RANGES = {"total": 1, "12 long": 12, "90 short": 90}


@dataclass
class MadeUp:
    """Where events lie in a log, from 0 to 1, in order; their values, and the least bound."""

    places: Floats
    values: Floats
    lower: float = 0.0


def _log(random: Generator, size: Callable[[Floats], Floats], rate: float = 1.0) -> MadeUp:
    """Events whose number grows by `rate` to the end, and whose sizes follow `size`."""
    n = int(10 ** random.uniform(3.5, 5))
    places = random.random(4 * n)
    weight = np.exp(np.log(rate) * places) / max(rate, 1.0)
    weight *= 0.5 + 0.5 * np.sin(2 * np.pi * 90 * places)
    places = np.sort(places[random.random(4 * n) < weight][:n])
    sigma = random.uniform(0.4, 1.2)
    return MadeUp(places, size(places) * random.lognormal(2.5, sigma, places.size))


def _steady(times: float) -> Callable[[Generator], MadeUp]:
    return lambda random: _log(random, lambda at: np.exp(np.log(times) * at))


def _jump(times: float) -> Callable[[Generator], MadeUp]:
    def made(random: Generator) -> MadeUp:
        when = random.uniform(0.05, 0.95)
        return _log(random, lambda at: np.where(at < when, 1.0, times))

    return made


def _refunds(random: Generator) -> MadeUp:
    log = _log(random, np.ones_like)
    log.values *= np.where(random.random(log.values.size) < 0.05, -1, 1)
    return MadeUp(log.places, log.values, -1.0)


def _mostly_zero(random: Generator, *, signed: bool = False) -> MadeUp:
    log = _log(random, np.ones_like)
    log.values *= random.random(log.values.size) < 10 ** random.uniform(-2.5, -1)
    if signed:
        log.values *= random.choice([-1, 1], log.values.size, p=[0.2, 0.8])
    return MadeUp(log.places, log.values, -1.0 * signed)


KINDS: dict[str, Callable[[Generator], MadeUp]] = {
    "ordinary": _steady(1.0),
    "grows tenfold": _steady(10.0),
    "grows a hundredfold": _steady(100.0),
    "falls to a tenth": _steady(0.1),
    "falls to a hundredth": _steady(0.01),
    "jumps tenfold": _jump(10.0),
    "jumps a hundredfold": _jump(100.0),
    "drops to a tenth": _jump(0.1),
    "refunds": _refunds,
    "mostly zero": _mostly_zero,
    "signed, mostly zero": lambda random: _mostly_zero(random, signed=True),
    "ten times as many": lambda random: _log(random, np.ones_like, 10.0),
    "a tenth as many": lambda random: _log(random, np.ones_like, 0.1),
}


@dataclass
class Case:
    """A log and settings as a user may give them."""

    kind: str
    log: MadeUp
    epsilon: float
    every: str
    ticks: int
    bound: float
    known: bool  # whether the horizon is given
    seed: int

    @classmethod
    def drawn(cls, kind: str, seed: int) -> Case:
        """A random one."""
        random = np.random.default_rng(seed)
        log = KINDS[kind](random)
        bound = float(np.abs(log.values).max()) * float(random.choice([1.0, 3.0, 30.0]))
        epsilon = float(random.choice([0.1, 0.3, 1.0, 3.0]))
        every = str(random.choice([*SECONDS]))
        ticks = 90 * {"1min": 1440, "15min": 96, "1h": 24}[every]
        return cls(kind, log, epsilon, every, ticks, bound, bool(random.random() < 0.7), seed)

    def released(self) -> tuple[tg.EventRelease, Floats]:
        """The release, and the true sum before each tick."""
        span = self.ticks * SECONDS[self.every]
        at = (self.log.places * span).astype(np.int64)
        pipeline = tg.events(
            epsilon=self.epsilon,
            bound=self.bound,
            every=self.every,
            start="2024-01-01T00:00",
            lower=self.log.lower * self.bound,
            **({"horizon": self.ticks} if self.known else {}),
        )
        release = pipeline.start(tg.seeded(self.seed))
        release.push(_START + at.astype("timedelta64[s]"), self.log.values)
        release.close_ticks(self.ticks)
        release.finish()
        sums = np.bincount(at // SECONDS[self.every], weights=self.log.values, minlength=self.ticks)
        return release, np.concatenate(([0.0], np.cumsum(sums)))


def judged(case: Case) -> dict[str, tuple[float, float, float, float]]:
    """For each kind of range: held, wrong, relative error and half-width, means over its ranges."""
    release, before = case.released()
    found = {}
    for name, parts in RANGES.items():
        edges = np.linspace(0, case.ticks, parts + 1).astype(np.int64)
        answers, truth = release.queries(edges[:-1], edges[1:]), np.diff(before[edges])
        size = np.maximum(np.abs(truth), np.abs(truth).mean())
        half, error = (answers.high - answers.low) / 2, np.abs(answers.estimate - truth)
        away = np.maximum(answers.low - truth, truth - answers.high)
        scale = np.maximum(np.abs(answers.estimate), np.abs(truth))
        wrong = (away > half) | ((error > 0.3 * scale) & (half < 0.1 * np.abs(answers.estimate)))
        each = (away <= 0, wrong, error / size, half / size)
        found[name] = tuple(float(np.mean(part)) for part in each)
    return found


def main() -> None:
    """Print what was found, by kind of log and of range."""
    shape = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--seed", type=int, default=1, help="the first one, in thousands")
    parser.add_argument("--releases", type=int, default=5, help="of each kind")
    parser.add_argument("--kind", choices=[*KINDS])
    parser.add_argument("--shown", action="store_true", help="print each release with wrong ranges")
    given = parser.parse_args()
    print(f"{'':24}{'ranges':10}{'held':>7}{'wrong':>7}   error and half-width (medians)")
    for kind in [given.kind] if given.kind else KINDS:
        found = defaultdict(list)
        for seed in range(1000 * given.seed, 1000 * given.seed + given.releases):
            case = Case.drawn(kind, seed)
            for name, each in judged(case).items():
                found[name].append(each)
                if given.shown and (each[1] > 0 or each[0] < 0.8):
                    print(
                        f"   seed {seed}: {name}, held {each[0]:.2f}, wrong {each[1]:.2f}, error "
                        f"{each[2]:.2g}, half-width {each[3]:.2g}; ε = {case.epsilon:g}, "
                        f"{case.every}, {case.log.values.size} events, bound {case.bound:.3g}, "
                        f"largest {np.abs(case.log.values).max():.3g}, horizon {case.known}"
                    )
        for name, rows in found.items():
            held, wrong, error, half = np.array(rows).T
            print(
                f"{kind:24}{name:10}{held.mean():7.2f}{wrong.mean():7.2f}   "
                f"{np.median(error):.2g}  {np.median(half):.2g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
