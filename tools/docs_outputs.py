"""Pictures of guides whose subject is what programs print and send, made by running them.

Drawn by `python tools/docs_guides.py`, with the other pictures of guides.
"""

import contextlib
import io
import os
import random
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from docs_diagrams import GREEN, ORANGE, Colours, board
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import tidegate as tg
from tidegate.cli.app import app
from tidegate.local.device_memory import Memory

_SESSION = (
    "tidegate sample meters.csv",
    "tidegate release meters.csv --column watts --time time -o private.csv --epsilon 1"
    " --bound 40000",
    "tidegate query private.csv --every 1w",
    "tidegate show private.csv --window 1440 --width 96",
)
_LINES_OF_SHOW = slice(-5, -1)  # the picture of the last command


@cache
def session() -> tuple[str, ...]:
    """The commands, each after a dollar sign, and what they print.

    The operating system's random bytes are replaced by a seed, so that a second run prints the
    same.
    """
    lines: list[str] = []
    here, urandom = Path.cwd(), os.urandom
    os.urandom = random.Random(1).randbytes  # a picture, not a release
    try:
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            for command in _SESSION:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                    app(command.split()[1:], prog_name="tidegate", standalone_mode=False)
                found = [line for line in printed.getvalue().splitlines() if line]
                shown = found[_LINES_OF_SHOW] if " show " in command else found
                lines += [*([""] if lines else []), f"$ {command}", *shown]
    finally:
        os.urandom = urandom
        os.chdir(here)
    return tuple(lines)


def command_line(colours: Colours) -> Figure:
    """A terminal with the commands of the guide and what they print."""
    lines, step = session(), 0.35
    figure, axes = board((len(lines) * step + 1.5) / 2)
    top = axes.get_ylim()[1]
    frame: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.2", "lw": 1.2}
    window = FancyBboxPatch((0.15, 0.15), 19.7, top - 0.3, fc="none", ec=colours["soft"], **frame)
    axes.add_patch(window)
    for number, shade in enumerate((ORANGE, colours["blue"], GREEN)):
        axes.plot([0.6 + 0.4 * number], [top - 0.5], "o", ms=7, color=shade)
    for number, line in enumerate(lines):
        shade = colours["ink"]
        if line.startswith("$"):
            shade = colours["blue"]
        elif re.match(r"^[▁-█ ]+$", line):
            shade = ORANGE
        y = top - 1.15 - step * number
        axes.text(0.5, y, line, family="DejaVu Sans Mono", fontsize=8, color=shade, va="center")
    return figure


def javascript(colours: Colours) -> Figure:
    """What a device has spent after each call: asked again costs nothing, and the end is fixed."""
    topl, lifetime, days = tg.topl(epsilon=1, bound=100), 10, 14
    client = topl.client(Memory.volatile(), lifetime=lifetime)
    server = tg.topl(epsilon=1, bound=100, threshold=20).server()
    calls, random_calls = [], np.random.default_rng(1)
    for day in range(1, days + 1):
        for call in range(int(random_calls.integers(1, 4))):
            try:
                client.answer(server.announcement(), 17, event=f"day {day}")
                kind = "again" if call else "new"
            except tg.TidegateError:
                kind = "refused"
            calls.append((day + call / 4, lifetime - client.left, kind))
        server.next_round()
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    axes = figure.subplots()
    at = [day for day, _, _ in calls]
    axes.step(at, [float(one) for _, one, _ in calls], where="post", color=colours["soft"], lw=1.2)
    drawn = np.arange(1, len(calls) + 1)
    axes.step(
        at, drawn, where="post", color=ORANGE, ls="--", lw=1.4, label="if every call drew anew"
    )
    styles = (
        ("new", "o", colours["blue"], "a new report"),
        ("again", "o", "none", "asked again: the same report"),
        ("refused", "x", ORANGE, "refused"),
    )
    for kind, mark, fill, label in styles:
        mine = [(day, float(spent)) for day, spent, which in calls if which == kind]
        edge = ORANGE if kind == "refused" else colours["blue"]
        axes.plot(*zip(*mine, strict=True), mark, ms=7, mfc=fill, mec=edge, mew=1.5, label=label)
    axes.axhline(lifetime, color=colours["ink"], ls=":", lw=1.2)
    axes.annotate("lifetime", (1, lifetime + 0.5), va="bottom")
    axes.set_xticks(range(1, days + 1))
    axes.set(
        xlim=(0.7, days + 0.9),
        ylim=(0, len(calls) + 1),
        xlabel="day",
        ylabel="ε spent by the device",
    )
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


def snapshots(colours: Colours) -> Figure:
    """Two continuations of one snapshot: each looks like noise, and their difference is raw."""
    random_values, count = np.random.default_rng(2), 48
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(100),
        perturber=tg.perturb.Hierarchy(epsilon="0.1", horizon=1024, skipped=0),
        estimator=tg.estimate.Unsmoothed(),
    )
    release = pipeline.start(tg.seeded(1))
    release.push(random_values.integers(0, 50, count))
    state = release.snapshot()
    values = random_values.integers(20, 60, count)
    other = values.copy()
    other[[9, 14, 30]] += [25, 12, -18]
    one, two = (pipeline.resume(state).push(given) for given in (values, other))
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    at = np.arange(count, 2 * count)
    upper.plot(at, one, color=colours["blue"], lw=1.6, label="first continuation")
    upper.plot(at, two, "--", color=ORANGE, lw=1.6, label="second: three values differ")
    upper.yaxis.set_major_formatter("{x:,.0f}")
    upper.set(ylabel="released", xlim=(count - 1, 2 * count))
    lower.bar(at, two - one, 0.7, color=colours["ink"], label="difference: raw values, no noise")
    lower.axhline(0, color=colours["soft"], lw=0.8)
    lower.set(xlabel="position", ylabel="difference", ylim=(-25, 32))
    for place in (9, 14, 30):
        height = float(two[place] - one[place])
        lower.annotate(
            f"{height:+.0f}",
            (count + place, height),
            (0, 3 if height > 0 else -3),
            textcoords="offset points",
            ha="center",
            va="bottom" if height > 0 else "top",
            fontsize=9,
        )
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    assert (two - one == other - values).all()
    return figure
