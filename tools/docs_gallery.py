"""Draws the pictures of docs/gallery.md: `python tools/docs_gallery.py [folder] [format]`.

Synthetic streams with seeded noise: a second run gives the same files. Prints, and writes into each
picture, how much smaller the adaptive release's error is than that of ToPS, over 20 runs.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))  # benchmarks is no part of the package

from docs_pictures import GREY, INK, STYLE

import tidegate as tg
from benchmarks.kinds import skewed

HOLDOUT, HORIZON, EPSILON, BOUND, RUNS = 65_536, 2**20, 0.1, 2000, 20
BIN = 8192
# Okabe and Ito's colours are told apart with any colour vision; line styles help in print.
TOPS, ADAPTIVE = "#d55e00", "#0072b2"
Floats = NDArray[Any]


def position(count: int) -> Floats:
    """0 where the released stream begins, 1 where it ends."""
    return (np.arange(count) - HOLDOUT) / HORIZON


KINDS: dict[str, tuple[str, Callable[[int], Floats]]] = {
    "iid": ("independent values", np.ones),
    "cycle": ("a daily cycle", lambda n: 1 + 0.8 * np.sin(np.arange(n) / 13_750)),
    "shift": ("a level shift", lambda n: np.where(position(n) < 0.5, 1.0, 2.0)),
    "ramp": ("a ramp", lambda n: 0.5 + 1.5 * np.clip(position(n), 0, 1)),
    "bursts": ("bursts", lambda n: np.where(np.arange(n) % 100_000 < 5_000, 8.0, 0.5)),
    "zeros": ("long zeros", lambda n: (1.0 + np.arange(n) // 150_000) % 2),
    "fall": ("a fall to a tenth", lambda n: np.where(position(n) < 0.52, 3.0, 0.3)),
}


def errors(values: NDArray[np.int64]) -> tuple[dict[str, Floats], float]:
    """What both methods published in the first run, and the ratio of their errors over all."""
    shown: dict[str, Floats] = {}
    means = []
    for name, build in (("tops", tg.tops), ("adaptive", tg.adaptive)):
        pipeline = build(EPSILON, BOUND, horizon=HORIZON, holdout=HOLDOUT)
        squares = []
        for seed in range(RUNS):
            out = pipeline.start(tg.seeded(seed)).push(values)
            squares.append(np.cumsum(out - values[HOLDOUT:]).var())
            shown.setdefault(name, out)
        means.append(np.mean(squares))
    return shown, float(means[0] / means[1])


def picture(title: str, shape: Callable[[int], Floats]) -> tuple[Figure, float]:
    values, _ = skewed(shape, BOUND)(HOLDOUT + HORIZON)
    published, ratio = errors(values)
    truth = values[HOLDOUT:].astype(np.float64)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    middles = (np.arange(HORIZON // BIN) + 0.5) * BIN / 1e6
    mean = truth.reshape(-1, BIN).mean(axis=1)
    for name, colour, style, label in (
        ("tops", TOPS, "--", "ToPS"),
        ("adaptive", ADAPTIVE, "-", "adaptive"),
    ):
        out = published[name]
        upper.plot(middles, out.reshape(-1, BIN).mean(axis=1), style, color=colour, lw=1.6)
        off = np.cumsum(out - truth)[BIN // 4 - 1 :: BIN // 4] / 1e3
        at = np.arange(1, off.size + 1) * (BIN // 4) / 1e6
        lower.plot(at, off, style, color=colour, lw=1.6, label=label)
    upper.plot(middles, mean, ":", color=INK, lw=2.2, label="truth")
    room = 0.35 * max(mean.max() - mean.min(), 12)
    upper.set(ylabel=f"mean of {BIN:,} values", ylim=(mean.min() - room, mean.max() + room))
    better = f"{ratio:.1f} times smaller" if ratio >= 1 else f"{1 / ratio:.0f} times larger"
    upper.set_title(f"{title.capitalize()}: adaptive's mean squared error is {better} than ToPS's")
    lower.axhline(0, color=GREY, lw=0.8)
    lower.set(xlabel="position, in millions of values", ylabel="error of the\nrunning sum / 1000")
    lower.set_xlim(0, HORIZON / 1e6)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure, ratio


def main(folder: Path, kind: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    mpl.rcParams.update(STYLE)
    metadata = {"Date": None} if kind == "svg" else {}
    for name, (title, shape) in KINDS.items():
        figure, ratio = picture(title, shape)
        figure.savefig(folder / f"gallery-{name}.{kind}", dpi=90, metadata=metadata)
        print(f"{title}: {ratio:.2f}")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["docs/images"]), *sys.argv[2:3] or ["svg"])
