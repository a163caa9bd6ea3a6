"""Release a synthetic stream; a table and a picture compare truth and release."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import tidegate as tg
from tidegate.lattice import FloatArray, IntArray

DAY = 86_400
BOUND = 500
_LENGTHS = {"a minute": 60, "an hour": 3_600, "six hours": 21_600, "a day": DAY, "a week": 7 * DAY}


def show(
    picture: Path,
    *,
    epsilon: str = "0.5",
    days: int = 14,
    seed: int = 0,
    noise_seed: int | None = None,
) -> None:
    """Release `days` of made-up requests per second; print a table; draw a picture."""
    values = tg.synthetic.traffic(days * DAY, seed=seed)
    pipeline = tg.adaptive(epsilon=epsilon, bound=BOUND, horizon=values.size)

    began = time.perf_counter()
    release = pipeline.start(None if noise_seed is None else tg.seeded(noise_seed))
    rows = release.push_rows(values)
    seconds = time.perf_counter() - began

    print(f"A made-up stream: {values.size:,} values, requests per second over {days} days.")
    print(f"{rows.values.size:,} private values came out in {seconds:.2f} s, one for each.")
    print(f"Values are capped; the cap was chosen privately and is {release.threshold:g} now.")
    print(f"Guarantee: {release.guarantee}.\n")
    _print_table(release, values)
    _draw_picture(picture, values, release, rows.levels)
    print(f"\nPicture of both moving averages, and of the released level: {picture}")


def _print_table(release: tg.Release, values: IntArray) -> None:
    print(f"{'':<11}{'true sum':>13}{'released':>13}{'95 % interval':>27}  holds?")
    for name, length in _LENGTHS.items():
        start = (values.size - length + DAY) // 2 if length < DAY else values.size - length
        answer = release.query(start, start + length)
        true = int(values[start : start + length].sum())
        interval = f"{answer.low:,.0f} … {answer.high:,.0f}"
        holds = "yes" if answer.low <= true <= answer.high else "no"
        print(f"{name:<11}{true:>13,}{answer.estimate:>13,.0f}{interval:>27}  {holds}")
    print("Of many such intervals, 19 in 20 should hold the true sum.")


def _draw_picture(picture: Path, values: IntArray, release: tg.Release, levels: FloatArray) -> None:
    import matplotlib as mpl

    mpl.use("Agg")  # writes a file, needs no screen
    from matplotlib import pyplot as plt

    window = 3_600
    step = 600
    ends = np.arange(window, values.size + 1, step)
    truth = np.concatenate(([0], np.cumsum(values)))
    true_mean = (truth[ends] - truth[ends - window]) / window
    answers = release.queries(ends - window, ends)
    days = ends / DAY

    figure, axes = plt.subplots(figsize=(10, 4.5), layout="constrained")
    axes.fill_between(
        days, answers.low / window, answers.high / window, color="#0072B2", alpha=0.2, linewidth=0,
        label="95 % interval",
    )  # fmt: skip
    axes.plot(days, answers.estimate / window, color="#0072B2", linewidth=1.2, label="released")
    axes.plot(days, levels[ends - 1], color="#D55E00", linewidth=0.7, label="released level")
    axes.plot(days, true_mean, color="black", linewidth=0.8, label="true (not published)")
    axes.set(
        xlabel="days",
        ylabel="requests per second, mean of an hour",
        title=f"Hourly moving average, true and released; {release.guarantee}",
        xlim=(0, values.size / DAY),
    )
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
