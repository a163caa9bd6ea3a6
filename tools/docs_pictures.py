"""Draws the pictures of docs/concepts.md: `python tools/docs_pictures.py [folder] [format]`.

Every number in them is computed by the package, on synthetic data with seeded noise: a second
run gives the same files. They carry their own background and are legible on light and dark pages.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

import tidegate as tg
from tidegate.lattice import Lattice
from tidegate.perturb.consistency import consistent_leaves, own_weights

INK, GREY, PALE = "#1f2933", "#7b8794", "#eef1f4"
RAW, SAFE, WARN = "#c2410c", "#0f766e", "#b45309"

STYLE: dict[Any, Any] = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "legend.frameon": False,
    "path.simplify_threshold": 0.5,
    "svg.hashsalt": "tidegate",
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def bare(axes: Axes, width: float, height: float) -> None:
    """A drawing board instead of a diagram."""
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)


def box(axes: Axes, x: float, y: float, w: float, title: str, text: str, colour: str) -> None:
    shape = FancyBboxPatch(
        (x, y), w, 1.5, boxstyle="round,pad=0,rounding_size=0.12", fc="white", ec=colour, lw=1.6
    )
    axes.add_patch(shape)
    axes.text(x + w / 2, y + 1.13, title, ha="center", va="center", weight="bold", color=colour)
    axes.text(x + w / 2, y + 0.5, text, ha="center", va="center", fontsize=8.5)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)


def pipeline() -> Figure:
    figure = Figure(figsize=(10, 3.9), layout="tight")
    axes = figure.subplots()
    bare(axes, 20, 7.6)
    axes.add_patch(Rectangle((0.1, 0.35), 12.0, 7.0, fc="#fdf1ea", ec="none"))
    axes.add_patch(Rectangle((12.5, 0.35), 7.4, 7.0, fc="#e6f4f2", ec="none"))
    axes.text(0.4, 6.9, "RAW: in memory, or sealed in a snapshot", color=RAW, weight="bold")
    axes.text(12.8, 6.9, "RELEASED: anyone may see it", color=SAFE, weight="bold")
    axes.plot([12.3, 12.3], [0.35, 7.35], color=INK, lw=4)
    axes.text(
        12.3, 0.0, "the privacy barrier: Noisy", ha="center", va="center", weight="bold", fontsize=9
    )
    box(axes, 0.4, 2.4, 2.7, "push", "clamp to bound,\nround to units", RAW)
    box(axes, 4.7, 4.6, 3.1, "threshold", "choose θ privately", RAW)
    box(axes, 4.7, 2.4, 3.1, "truncate", "min(value, θ)", RAW)
    box(axes, 8.7, 2.4, 3.0, "perturb", "block sums\n+ forest noise", RAW)
    box(axes, 13.2, 2.4, 2.9, "smooth", "predict inside\na block", SAFE)
    box(axes, 16.8, 3.9, 2.8, "output", "one private value\nper value", SAFE)
    box(axes, 16.8, 1.0, 2.8, "record", "queries with\nerror bars", SAFE)
    axes.plot([1.75, 1.75, 4.2], [3.9, 5.35, 5.35], color=RAW, lw=1.6)
    arrow(axes, (4.0, 5.35), (4.7, 5.35), RAW)
    axes.text(3.1, 5.6, "hold-out", fontsize=8.5, ha="center", color=RAW)
    arrow(axes, (3.1, 3.15), (4.7, 3.15), RAW)
    axes.text(3.9, 3.4, "the rest", fontsize=8.5, ha="center", color=RAW)
    arrow(axes, (6.25, 4.6), (6.25, 3.9), INK)
    axes.text(6.45, 4.25, "θ", va="center")
    arrow(axes, (7.8, 3.15), (8.7, 3.15), RAW)
    arrow(axes, (11.7, 3.15), (13.2, 3.15), INK)
    arrow(axes, (7.8, 5.35), (13.2, 5.35), INK)
    axes.text(13.3, 5.35, "θ, released too", va="center", fontsize=8.5)
    arrow(axes, (16.1, 3.4), (16.8, 4.4), SAFE)
    arrow(axes, (16.1, 2.9), (16.8, 2.0), SAFE)
    axes.text(
        0.4, 1.2, "Nothing flows back:\nwhat lies right of the barrier is computed\n"
        "from released numbers alone.", fontsize=9, va="center",
    )  # fmt: skip
    return figure


def truncation() -> Figure:
    holdout, shown = 4096, 9000
    values = tg.synthetic.baskets(40_000)
    stage = tg.threshold.NoisyMax(epsilon="0.1", bound=500, holdout=holdout, horizon=2**16)
    release = tg.tops(epsilon="0.1", bound=500, horizon=2**16, holdout=holdout).start(tg.seeded(1))
    release.push(values)
    theta = release.threshold or 0.0
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    at = np.arange(0, shown, 6)
    above = values[at] > theta
    held = at < holdout
    left.axvspan(0, holdout, color="#fdf1ea")
    left.plot(at[held], values[at][held], ".", ms=2.2, color=GREY)
    kept = ~held & ~above
    left.plot(at[kept], values[at][kept], ".", ms=2.2, color=SAFE)
    cut = np.flatnonzero(values[:shown] > theta)
    cut = cut[cut >= holdout]
    left.plot(cut, values[cut], "x", ms=5, color=RAW, label="truncated: counts as θ")
    left.plot([holdout, shown], [theta, theta], color=INK, lw=1.5)
    left.text(holdout - 80, theta, f"θ = {theta:g}", ha="right", va="center", weight="bold")
    left.text(holdout / 2, 88, "hold-out:\nchooses θ, is never released", ha="center", va="top")
    left.set(xlim=(0, shown), ylim=(0, 92), xlabel="position in the input", ylabel="value")
    left.legend(loc="upper right")
    left.set_title("A stream and its threshold")

    lattice = Lattice(stage.bound, tg.tops(epsilon=1, bound=500).resolution)
    units = lattice.units(values[:holdout])
    grid, scores, denominator = stage.scores(units, lattice)
    noise = -stage.penalty() * grid
    here = grid <= 120
    right.plot(grid[here], -noise[here], "--", color=WARN, label="noise: grows with θ")
    right.plot(
        grid[here], -(scores / denominator - noise)[here], ":", color=RAW, lw=2,
        label="held-out values above θ",
    )  # fmt: skip
    right.plot(grid[here], -(scores / denominator)[here], color=INK, lw=2, label="sum of both")
    best = int(grid[np.argmax(scores)])
    right.axvline(theta, color=SAFE, lw=1.5)
    right.text(
        theta + 2, 230, f"private choice: {theta:g}\n(lowest cost: {best})", va="top", color=SAFE
    )
    right.set(xlim=(0, 120), ylim=(0, 400), xlabel="candidate θ", ylabel="cost")
    right.legend(loc="upper right")
    right.set_title("How θ is chosen")
    return figure


def forest() -> Figure:
    figure = Figure(figsize=(10, 4.3), layout="tight")
    axes = figure.subplots()
    bare(axes, 38.6, 10.4)
    chosen = 6  # the block with the marked value
    for chunk, offset in enumerate((5.3, 22.5)):
        for leaf in range(16):
            x = offset + leaf
            marked = chunk == 0 and leaf == chosen
            axes.add_patch(
                Rectangle((x, 4.0), 0.86, 0.9, fc=RAW if marked else "white", ec=SAFE, lw=1.2)
            )
            for value in range(4):
                spot = marked and value == 2
                axes.plot(
                    x + 0.13 + 0.2 * value, 3.1, "o", ms=4.4 if spot else 2.6,
                    color=RAW if spot else GREY,
                )  # fmt: skip
            if leaf % 4 == 0:
                top = chunk == 0 and leaf // 4 == chosen // 4
                axes.add_patch(
                    Rectangle((x, 7.4), 3.86, 0.9, fc=RAW if top else "white", ec=SAFE, lw=1.2)
                )
            line = (x + 0.43, offset + 4 * (leaf // 4) + 1.93)
            axes.plot(line, (4.9, 7.4), color=RAW if marked else "#c3cad1", lw=1.6 if marked else 1)
        axes.text(
            offset + 7.93,
            9.6,
            f"horizon {chunk + 1}: a forest of its own",
            ha="center",
            weight="bold",
        )
        axes.plot((offset, offset + 15.86), (9.1, 9.1), color=GREY, lw=1)
    axes.plot((21.83, 21.83), (1.7, 10.2), ":", color=GREY)
    for y, label, colour in (
        (7.85, "level 1: top nodes,\nno root above", SAFE),
        (4.45, "level 0: blocks", SAFE),
        (3.1, "values: skipped\nlevels", INK),
    ):
        axes.text(0.1, y, label, fontsize=8.5, va="center", color=colour)
    axes.text(
        5.3, 1.1,
        "One value lies in one node per level (filled). Each level spends its share of ε, "
        "the shares add up to ε.\nHorizons share no value: the next forest costs nothing more.",
        fontsize=9, va="center",
    )  # fmt: skip
    return figure


def _tree(axes: Axes, leaves: Any, tops: Any, title: str) -> None:
    bare(axes, 8.2, 5.4)
    for index, top in enumerate(tops):
        x = 0.2 + 4 * index
        total = int(leaves[3 * index : 3 * index + 3].sum())
        agrees = total == int(top)
        colour = SAFE if agrees else RAW
        axes.add_patch(Rectangle((x, 3.3), 3.6, 0.9, fc="white", ec=colour, lw=1.6))
        axes.text(x + 1.8, 3.75, f"{top:+d}", ha="center", va="center", weight="bold")
        for child in range(3):
            spot = x + 1.25 * child
            axes.plot((spot + 0.55, x + 1.8), (2.3, 3.3), color="#c3cad1", lw=1)
            axes.add_patch(Rectangle((spot, 1.4), 1.1, 0.9, fc="white", ec=colour, lw=1.6))
            axes.text(
                spot + 0.55, 1.85, f"{leaves[3 * index + child]:+d}", ha="center", va="center"
            )
        sign = "=" if agrees else "≠"
        axes.text(
            x + 1.8, 0.75, f"sum {total:+d} {sign} {top:+d}", ha="center", va="center", color=colour
        )
    axes.set_title(title)


def consistency() -> Figure:
    draws = [np.array([7, -4, 12, -9, 3, -5]), np.array([3, -20])]
    weights = own_weights(3, [1.0, 1.0])
    leaves, _ = consistent_leaves(draws, 3, weights)
    figure = Figure(figsize=(10, 3.5), layout="constrained")
    before, after, errors = figure.subplots(1, 3, width_ratios=(3, 3, 4))
    _tree(before, draws[0], draws[1], "Independent noise")
    _tree(after, leaves, leaves.reshape(2, 3).sum(axis=1), "Made consistent")
    lengths = np.unique(np.geomspace(1, 4096, 60).astype(np.int64))
    for tree, style, label in (
        (tg.perturb.Flat(epsilon=1), "--", "no tree"),
        (tg.perturb.Hierarchy(epsilon=1, horizon=4096, fanout=2, skipped=0, levels=12,
                              consistent=False), ":", "binary tree"),
        (tg.perturb.Hierarchy(epsilon=1, horizon=4096, skipped=0, consistent=False), "-.",
         "fan-out 16"),
        (tg.perturb.Hierarchy(epsilon=1, horizon=4096, skipped=0), "-", "fan-out 16, consistent"),
    ):  # fmt: skip
        law = tree.noise_law(1000)
        error = []
        for length in lengths.tolist():
            starts = np.unique(np.linspace(0, 4096 - length, 512).astype(np.int64))
            error.append(np.sqrt(law.range_variance(starts, starts + length).mean()) / 1000)
        colour = SAFE if style == "-" else GREY
        errors.plot(lengths, error, style, color=colour, lw=2 if style == "-" else 1.5, label=label)
    errors.set(
        xscale="log", yscale="log", xlabel="length of the range", ylabel="error, in θ (ε = 1)"
    )
    errors.legend(fontsize=8.5)
    errors.set_title("What it gains")
    return figure


def blocks() -> Figure:
    block, count = 64, 8
    values = 30 + np.round(
        12 * np.sin(np.arange(block * count) / 75) + tg.synthetic.baskets(block * count, seed=4)
    ).astype(np.int64)
    release = tg.Pipeline(
        threshold=tg.threshold.Fixed(80),
        perturber=tg.perturb.Hierarchy(epsilon="0.6", horizon=block * count, fanout=8, skipped=2),
    ).start(tg.seeded(11))
    published = release.push(values)
    at = np.arange(block * count)
    ends, inside = at[block - 1 :: block], at % block < block - 1
    figure = Figure(figsize=(10, 6.0), layout="constrained")
    upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 3, 3))
    upper.plot(at, values, ".", ms=2.5, color=RAW, label="true values (secret)")
    upper.step(at, np.where(inside, published, np.nan), color=SAFE, lw=2.2, label="published")
    upper.set(ylabel="value", xlim=(0, block * count + 4), ylim=(15, 90))
    upper.legend(fontsize=8.5, loc="upper right", ncols=2)
    upper.set_title("Inside a block: a prediction from the blocks before it")
    middle.vlines(ends, 0, published[ends], color=INK, lw=1.2)
    middle.plot(ends, published[ends], "v", ms=6, color=INK)
    middle.axhline(0, color=GREY, lw=0.8)
    middle.set(ylabel="published value")
    middle.set_title("At a block's end: its noisy sum, minus what was already published of it")
    error = np.cumsum(published) - np.cumsum(values)
    lower.plot(at, error, color=SAFE, lw=1.5)
    lower.plot(ends, error[ends], "v", color=INK, ms=6)
    lower.axhline(0, color=GREY, lw=0.8)
    lower.set(xlabel="position", ylabel="error")
    lower.set_title(
        "Error of the running sum: noise only at block ends, noise and prediction between"
    )
    for axes in (upper, middle, lower):
        for end in range(block, block * count, block):
            axes.axvline(end, color="#d5dbe1", lw=1, zorder=0)
    return figure


def intervals() -> Figure:
    values = tg.synthetic.baskets(60_000, seed=2)
    release = tg.Pipeline(
        threshold=tg.threshold.Fixed(60), perturber=tg.perturb.Hierarchy(epsilon=0.5, horizon=2**16)
    ).start(tg.seeded(5))
    release.push(values)
    truth = np.concatenate(([0], np.cumsum(np.minimum(values, 60))))
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    lengths = np.geomspace(300, 51_000, 40).astype(np.int64)
    starts = np.linspace(7_013, 8_900, 40).astype(np.int64)
    answers = release.queries(starts, starts + lengths)
    true = truth[starts + lengths] - truth[starts]
    off = answers.estimate - true
    half = (answers.high - answers.low) / 2
    held = np.abs(off) <= half
    for keep, colour in ((held, SAFE), (~held, RAW)):
        left.errorbar(
            lengths[keep], off[keep], yerr=half[keep], fmt="o", ms=3, color=colour, elinewidth=1
        )
    left.axhline(0, color=INK, lw=1)
    left.set(xscale="log", xlabel="length of the range", ylabel="estimate − truncated truth")
    left.set_title(f"40 answers at 95 %: {int(held.sum())} hold the truth")
    block = release.pipeline.perturber.block
    ends = np.arange(20 * block, 24 * block + 1)
    answers = release.queries(np.full(ends.size, 0), ends)
    into = ends / block
    right.plot(into, answers.standard_error, color=INK, lw=2, label="standard_error")
    right.plot(into, answers.noise_error, color=SAFE, lw=1.5, label="noise_error (exact)")
    right.plot(
        into, answers.prediction_error, "--", color=WARN, label="prediction_error (estimated)"
    )
    right.set(xlabel=f"end of the range, in blocks of {block}", ylabel="error", ylim=(0, 1250))
    right.legend(fontsize=8.5, loc="upper left", ncols=2)
    right.set_title("Ranges that start at 0")
    return figure


def main(folder: Path, kind: str) -> None:
    mpl.rcParams.update(STYLE)
    metadata = {"Date": None} if kind == "svg" else {}
    for draw in (pipeline, truncation, forest, consistency, blocks, intervals):
        draw().savefig(folder / f"{draw.__name__}.{kind}", dpi=90, metadata=metadata)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["docs/images"]), *sys.argv[2:3] or ["svg"])
