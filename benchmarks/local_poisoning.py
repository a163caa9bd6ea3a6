"""`python -m benchmarks.local_poisoning`: how far liars move the threshold of the local model.

A fraction of the devices lies: whatever it is asked about the tail, it answers "above". In
rotation they lie to whichever question they are handed, or all gather at the first one of the
round, whose level is the highest; where questions go by name they cannot. Prints the table of
docs/privacy/local.md.
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.timing import progress
from tidegate.lattice import IntArray
from tidegate.local.server_collection import ServerCollection
from tidegate.local.topl import Topl
from tidegate.randomness import WordSource

_FRACTIONS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)
_BOUND = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--runs", type=int, default=5, help="seeds of each cell (default 5)")
    runs = parser.parse_args().runs
    values = tg.synthetic.baskets(1 << 16)
    print(f"median threshold of {runs} runs (least, largest); {values.size:,} devices are asked")
    print("| liars |" + "".join(f" ε = {epsilon:g} |" for epsilon in _EPSILONS))
    print("|---" * (1 + len(_EPSILONS)) + "|")
    for gathered in (False, True):
        for fraction in _FRACTIONS[1:] if gathered else _FRACTIONS:
            cells = []
            for epsilon in _EPSILONS:
                progress(f"{fraction:g} of liars at e={epsilon:g}")
                topl = tg.topl(epsilon, _BOUND, holdout=values.size, keep_asking=False)
                found = [_chosen(topl, values, fraction, gathered, seed) for seed in range(runs)]
                cells.append(f"{median(found):.0f} ({min(found):.0f}–{max(found):.0f})")
            where = ", all at one question" if gathered else ""
            print(f"| {100 * fraction:g} %{where} | " + " | ".join(cells) + " |", flush=True)


def _chosen(topl: Topl, values: IntArray, fraction: float, gathered: bool, seed: int) -> float:
    collection = topl.collection()
    stream = tg.seeded(seed).new_epoch().keystream("poisoning", b"")
    liars = np.arange(values.size) % 1000 < round(1000 * fraction)
    liars = liars[np.argsort(stream.at(chunk=0).take(values.size))]
    position = 0
    while collection.threshold is None:
        now = slice(position, position + (collection.left or 0))
        _answer(collection, values[now], liars[now], gathered, stream.at(chunk=1 + position))
        position = now.stop
    return collection.threshold


def _answer(
    collection: ServerCollection,
    values: IntArray,
    liars: NDArray[np.bool_],
    gathered: bool,
    words: WordSource,
) -> None:
    slots = np.arange(values.size) % len(collection.slots)
    if gathered:
        slots[liars] = 0
    reports = np.zeros_like(slots)
    for index, slot in enumerate(collection.slots):
        mine = slots == index
        reports[mine] = slot.question.answers(values[mine], words)
    reports[liars] = 1
    collection.receive(slots, reports)


if __name__ == "__main__":
    main()
