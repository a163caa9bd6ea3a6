"""Diagrams of the guides that have no data to show: boxes, arrows and lanes in both colour schemes.

Drawn by `python tools/docs_guides.py`, with the pictures that are measured.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

Colours = dict[str, str]
Point = tuple[float, float]

ORANGE, GREEN = "#e69f00", "#009e73"  # of Okabe and Ito: raw or secret; released


def board(height: float) -> tuple[Figure, Axes]:
    """A figure of ten inches by `height`, in units of half an inch."""
    figure = Figure(figsize=(10, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, 20), ylim=(0, 2 * height))
    return figure, axes


def box(axes: Axes, corner: Point, size: Point, lines: tuple[str, str], colour: str) -> None:
    """A box with a title and a text below it."""
    (x, y), (width, height) = corner, size
    shape: Any = FancyBboxPatch(
        corner,
        *size,
        boxstyle="round,pad=0,rounding_size=0.12",
        fc=colour + "18",
        ec=colour,
        lw=1.5,
    )
    axes.add_patch(shape)
    title, text = lines
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    lift = 0.24 * (1 + text.count("\n")) if text else 0
    at = x + width / 2, y + height / 2
    axes.text(at[0], at[1] + lift, title, weight="bold", color=colour, fontsize=10, **middle)
    if text:
        axes.text(at[0], at[1] - 0.3, text, fontsize=8.5, linespacing=1.35, **middle)


def pairs(
    axes: Axes,
    columns: tuple[Point, ...],
    rows: Point,
    height: float,
    texts: tuple[tuple[str, str, str], ...],
) -> None:
    """Two boxes in each column, one above the other: title, text and colour of each.

    A column is where it begins and how wide it is; `rows` are where the boxes begin.
    """
    places = [((x, y), (width, height)) for x, width in columns for y in rows]
    for (corner, size), (title, text, colour) in zip(places, texts, strict=True):
        box(axes, corner, size, (title, text), colour)


def arrow(axes: Axes, start: Point, end: Point, colour: str, label: str = "") -> None:
    """An arrow, with its label above the middle."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
    if label:
        at = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.12
        axes.text(*at, label, ha="center", va="bottom", fontsize=8.5, linespacing=1.3)


def durable(colours: Colours) -> Figure:
    """The order of one batch, and what a kill after each step leads to."""
    figure, axes = board(2.7)
    blue, ink = colours["blue"], colours["ink"]
    steps = (
        ("1  charge", "the ledger says\nwhat it will cost", blue),
        ("2  release", "noise is added,\nin memory", ORANGE),
        ("3  commit", "journal, state, digests:\none transaction", blue),
        ("4  write", "append to\nthe output", GREEN),
    )
    after = (
        "charged, and nothing out:\nthe same batch again,\nno second charge",
        "nothing was seen:\nreleased again,\nthe same bits",
        "in the journal:\nwritten from there,\nnever computed again",
    )
    for number, (title, text, colour) in enumerate(steps):
        x = 0.3 + 5.1 * number
        box(axes, (x, 3.3), (4.1, 1.7), (title, text), colour)
        if number:
            arrow(axes, (x - 1, 4.15), (x, 4.15), ink)
            at = x - 0.5
            axes.plot([at, at], [2.1, 3.9], color=ORANGE, lw=1.2, ls=":")
            axes.plot([at], [3.05], "x", color=ORANGE, ms=9, mew=2.2)
            axes.text(
                at, 1.95, after[number - 1], ha="center", va="top", fontsize=8.5, linespacing=1.35
            )
    axes.text(0.3, 1.75, "killed here ✕,\nthen run again:", va="top", fontsize=9, weight="bold")
    return figure


def brokers(colours: Colours) -> Figure:
    """Ten messages, two kills: what is read again and written again, and what comes out."""
    figure, axes = board(2.9)
    blue, ink, soft = colours["blue"], colours["ink"], colours["soft"]
    left, step = 4.4, 1.45
    for y, name in ((4.9, "messages in"), (2.9, "Tidegate"), (0.75, "rows out")):
        axes.text(0.3, y, name, va="center", fontsize=10, weight="bold")
    for number in range(10):
        x = left + step * number
        for y, shade, which in ((4.9, ORANGE, number + 1), (0.75, GREEN, number)):
            axes.plot([x], [y], "o", ms=19, mfc=shade + "22", mec=shade, mew=1.4)
            axes.text(x, y, str(which), ha="center", va="center", fontsize=9)
    axes.text(0.3, 0.2, "position: each once", va="center", fontsize=8.5)
    axes.text(0.3, 4.35, "offset of the broker", va="center", fontsize=8.5)
    batches = (
        (0, 3, "commit", ("the offset 4, and", "rows 0 to 3"), blue),
        (4, 6, "killed ✕", ("nothing kept: 5 to 7", "are read again"), soft),
        (7, 9, "commit, killed ✕", ("rows 7 to 9 are written", "from the journal"), blue),
    )
    for first, last, title, text, colour in batches:
        x, end = left + step * first - 0.55, left + step * last + 0.55
        box(axes, (x, 1.95), (end - x, 1.75), (title, "\n".join(text)), colour)
        middle = (x + end) / 2
        arrow(axes, (middle, 4.45), (middle, 3.7), ink)
        if colour == soft:
            axes.text(middle + 0.15, 1.6, "and released", va="center", fontsize=8.5)
        arrow(axes, (middle, 1.95), (middle, 1.2), ink)
    return figure


def lanes(axes: Axes, names: tuple[str, ...], at: tuple[float, ...], colours: Colours) -> None:
    """Those who talk to each other, side by side, each with a line that messages start from."""
    top = axes.get_ylim()[1]
    for name, x in zip(names, at, strict=True):
        axes.plot([x, x], [0.3, top - 0.9], color=colours["soft"], lw=1.2, ls="--")
        axes.text(x, top - 0.5, name, ha="center", va="center", fontsize=10, weight="bold")


def devices(colours: Colours) -> Figure:
    """One round between a device, the service and whoever asks for totals."""
    figure, axes = board(3.4)
    device, service, analyst = 3.6, 10.6, 17.2
    names = ("device", "service", "analyst")
    lanes(axes, names, (device, service, analyst), colours)
    ink, blue = colours["ink"], colours["blue"]
    axes.text(
        device - 0.3,
        5.35,
        "steps: 8,231\n(stays here)",
        ha="right",
        va="center",
        fontsize=8.5,
        color=ORANGE,
    )
    arrow(axes, (device, 5.3), (service, 5.3), ink, "which round is open? my question?")
    arrow(axes, (service, 4.45), (device, 4.45), ink, "“above 6,000?”, ε = 1")
    box(axes, (0.4, 2.75), (2.9, 1.25), ("draw, then keep", "one report a round"), ORANGE)
    arrow(axes, (device, 3.35), (service, 3.35), blue, "report: yes or no, by chance")
    arrow(axes, (service, 2.5), (device, 2.5), ink, "accepted")
    box(axes, (11.0, 2.45), (3.3, 1.75), ("tallies only", "no names after\nthe round"), GREEN)
    arrow(axes, (analyst, 1.65), (service, 1.65), ink, "total of November?")
    arrow(axes, (service, 0.75), (analyst, 0.75), GREEN, "sum of each day, with its interval")
    return figure


def service(colours: Colours) -> Figure:
    """Who sends what to the service, what is in one transaction, and who may read what."""
    figure, axes = board(2.9)
    blue, ink = colours["blue"], colours["ink"]
    texts = (
        ("producer", "values, events,\nkeys, columns", ORANGE),
        ("admin", "streams, tokens,\ncaps", blue),
        ("gate", "checks, charges,\nadds the noise", ORANGE),
        ("one transaction", "ledger, journal,\nsealed state", blue),
        ("reader", "live page, sums,\ntables, metrics", GREEN),
        ("answer", "after the commit:\nonly released rows", GREEN),
    )
    pairs(axes, ((0.3, 3.9), (7.3, 4.9), (15.6, 4.1)), (3.5, 0.7), 1.6, texts)
    arrow(axes, (4.2, 4.3), (7.3, 4.3), ink, "JSON, Arrow")
    arrow(axes, (4.2, 1.8), (7.3, 3.7), ink)
    arrow(axes, (9.75, 3.5), (9.75, 2.3), ink)
    arrow(axes, (12.2, 1.5), (15.6, 1.5), ink, "committed")
    arrow(axes, (17.65, 2.3), (17.65, 3.5), ink)
    axes.plot([13.9, 13.9], [2.45, 5.5], color=ink, lw=3)
    axes.text(13.7, 5.3, "raw values", ha="right", va="center", fontsize=8.5, color=ORANGE)
    axes.text(14.1, 5.3, "released", ha="left", va="center", fontsize=8.5, color=GREEN)
    return figure


def spark(colours: Colours) -> Figure:
    """A micro-batch: rows go to shards by their key, and each shard releases many keys at once."""
    figure, axes = board(3.1)
    blue, ink = colours["blue"], colours["ink"]
    box(axes, (0.3, 2.2), (3.4, 1.8), ("rows", "key, number,\nvalue"), ORANGE)
    box(axes, (16.2, 2.2), (3.5, 1.8), ("sink", "key, epoch, position:\neach row once"), GREEN)
    box(axes, (11.5, 2.2), (2.9, 1.8), ("state store", "sealed, of all\nshards"), blue)
    for number, y in enumerate((4.2, 2.35, 0.5)):
        title = ("shard 0", "shard 1", "shard 63")[number]
        box(axes, (6.4, y), (3.5, 1.45), (title, "order, release"), ORANGE)
        arrow(axes, (3.7, 3.1), (6.4, y + 0.72), ink)
        style = {"arrowstyle": "<|-|>", "color": blue, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (11.5, 3.1), (9.9, y + 0.72), arrowprops=style)
    for y, end in ((5.4, 4.0), (0.8, 2.2)):
        axes.plot([9.9, 17.95], [y, y], color=GREEN, lw=1.5)
        arrow(axes, (17.95, y), (17.95, end), GREEN)
    axes.text(14, 5.52, "released rows", ha="center", fontsize=8.5)
    axes.text(4.9, 5.0, "by a hash\nof the key", ha="right", va="center", fontsize=8.5)
    axes.text(8.15, 2.08, "⋮", ha="center", va="center", fontsize=13)
    return figure


def spark_clusters(colours: Colours) -> Figure:
    """Which machine and which disk of a cluster holds what, and how secret that is."""
    figure, axes = board(3.3)
    blue, ink = colours["blue"], colours["ink"]
    texts = (
        ("driver", "plan of the query;\nno rows, no key", blue),
        ("secret", "file, variable or KMS:\n32 bytes", ORANGE),
        ("executor", "raw rows and noise,\nin memory", ORANGE),
        ("executor's disk", "shuffles and spills:\nraw, unless Spark encrypts", ORANGE),
        ("sink", "released rows:\nanyone may see them", GREEN),
        ("checkpoint", "sealed state, on storage\nthat all nodes reach", blue),
    )
    pairs(axes, ((0.3, 4.4), (7.6, 4.8), (15.3, 4.4)), (4.3, 0.6), 1.8, texts)
    arrow(axes, (4.7, 5.2), (7.6, 5.2), ink, "tasks")
    arrow(axes, (4.7, 2.0), (7.6, 4.5), ORANGE)
    axes.text(4.9, 3.55, "each worker\nreads it", fontsize=8.5, va="center")
    arrow(axes, (10.0, 4.3), (10.0, 2.4), ink)
    arrow(axes, (12.4, 5.2), (15.3, 5.2), GREEN, "rows")
    arrow(axes, (12.4, 4.5), (15.3, 2.2), ink)
    axes.text(14.3, 3.5, "state", fontsize=8.5, va="center")
    return figure
