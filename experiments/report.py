"""One HTML page that needs nothing else: each figure, what the paper says, what we measured."""

from __future__ import annotations

import base64
import re
import tempfile
from html import escape
from pathlib import Path

from experiments.cells import Wanted
from experiments.claims import FAILS, HOLDS, PART, UNKNOWN, Verdict, verdicts
from experiments.claims.lookup import Lookup
from experiments.errors import ExperimentError
from experiments.figures import Figure
from experiments.plots import draw
from experiments.results import Row, Store
from experiments.summary import gathered

_CLASSES = {HOLDS: "holds", PART: "part", FAILS: "fails", UNKNOWN: "unknown"}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
       color: #1a1a1a; background: #fff }
h1, h2 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem }
img { width: 100%; height: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem;
         border-bottom: 1px solid #ddd }
.holds { color: #00664a } .part { color: #8a5a00 } .fails { color: #a83e00 }
.unknown { color: #666 }
.verdict { font-weight: 600; white-space: nowrap } .by { color: #555; font-size: .85em }
small, .streams { color: #444; font-size: .85em } code { background: #f3f3f3; padding: 0 .2em }
details table { font-size: .85em } .wide { overflow-x: auto }
"""


def write_report(figures: list[Figure], wanted: Wanted, store: Store, output: Path | None) -> Path:
    """Write the page; figures without results are left out, and said to be."""
    found = gathered(figures, wanted, store)
    drawn = [figure for figure in figures if found[figure.name]]
    if not drawn:
        raise ExperimentError(
            f"there are no results in {store.folder} for this: run `python -m experiments run` "
            "with the same options first"
        )
    missing = [figure.name for figure in figures if not found[figure.name]]
    path = output or store.folder / f"report{'-quick' if wanted.quick else ''}.html"
    body = "\n".join(_section(figure, found[figure.name]) for figure in drawn)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(body, _head(drawn, found, missing, wanted)), encoding="utf-8")
    return path


def _page(body: str, head: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tidegate: the paper reproduced</title><style>{_STYLE}</style></head>"
        f"<body>\n<h1>The paper, reproduced</h1>\n{head}\n{body}\n</body></html>\n"
    )


def _head(
    drawn: list[Figure], found: dict[str, list[Row]], missing: list[str], wanted: Wanted
) -> str:
    lines = [row for figure in drawn for row in found[figure.name]]
    facts = [
        f"Version {escape(', '.join(sorted({row.version for row in lines})))}; "
        f"seed {', '.join(map(str, sorted({row.seed for row in lines})))}; "
        f"{', '.join(map(str, sorted({row.runs for row in lines})))} runs a cell. "
        "Verdicts are computed from medians over runs."
    ]
    if wanted.quick:
        facts.append(
            "<strong>A quick run: few repetitions and few ε. It shows that things work.</strong>"
        )
    if missing:
        facts.append(f"Not run: {escape(', '.join(missing))}.")
    sources = {row.label: f"{row.source}; sha256 {row.checksum[:16]}…" for row in lines}
    streams = "".join(
        f"<tr><td>{escape(label)}<td>{escape(text)}" for label, text in sources.items()
    )
    return (
        "".join(f"<p>{fact}</p>" for fact in facts)
        + "<p>A <em>synthetic twin</em> is made from the quantiles that the paper prints and is "
        "nobody's data; where a stream is <em>mirrored</em> its records recur, as in the authors' "
        "experiments, and no privacy claim describes it.</p>"
        + _contents(drawn, found)
        + f"<details><summary>Streams</summary><table class=streams>{streams}</table></details>"
    )


def _contents(drawn: list[Figure], found: dict[str, list[Row]]) -> str:
    rows = []
    for figure in drawn:
        every = [verdict.verdict for verdict in verdicts(figure, Lookup(found[figure.name]))]
        counts = " ".join(
            f'<td class="{_CLASSES[kind]}">{every.count(kind)}' for kind in (HOLDS, PART, FAILS)
        )
        rows.append(f'<tr><td><a href="#{figure.name}">{escape(figure.title)}</a>{counts}')
    head = "<tr><th>figure<th>claims that hold<th>in part<th>do not hold"
    return f"<table>{head}{''.join(rows)}</table>"


def _section(figure: Figure, rows: list[Row]) -> str:
    judged = verdicts(figure, Lookup(rows))
    where = (
        f"<code>{escape(figure.label)}</code> of the paper" if figure.label else "not in the paper"
    )
    claims = "".join(map(_claim, judged))
    return (
        f'<h2 id="{figure.name}">{escape(figure.title)}</h2>'
        f"<p><small>{where}; <code>python -m experiments run {figure.name}</code></small></p>"
        f"<p>{_prose(figure.about)} {_prose(figure.reads)}</p>"
        f'<img src="{_picture(figure, rows)}" alt="{escape(figure.title)}: {escape(figure.about)}">'
        f"<p><small>{_bars(figure)}</small></p>"
        "<div class=wide><table><tr><th>claim<th>checked as<th>measured<th>verdict"
        f"{claims}</table></div>"
    )


def _prose(text: str) -> str:
    """With code between backticks."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _bars(figure: Figure) -> str:
    if figure.kind not in ("curves", "score"):
        return ""
    return (
        "Lines are means over runs; bars reach one standard deviation up, and down to as many "
        "times less (on a log axis mean − deviation may not exist)."
    )


def _claim(verdict: Verdict) -> str:
    measured = "".join(
        f"<tr><td>{escape(found.label)}{' · ' + escape(found.setting) if found.setting else ''}"
        f"<td>{escape(spread)}<td>{escape(count)}"
        for found, spread, count in verdict.by_stream()
    )
    details = ""
    if verdict.checks:
        summary = f"<summary>{verdict.spread}</summary>"
        details = f"<details>{summary}<table>{measured}</table></details>"
    return (
        f"<tr><td>{escape(verdict.says)} <span class=by>({escape(verdict.by)})</span>"
        f"<td>{escape(verdict.expected)}<td>{details}"
        f'<td class="verdict {_CLASSES[verdict.verdict]}">{verdict.verdict}<br>'
        f"<small>{verdict.count if verdict.checks else ''}</small>"
    )


def _picture(figure: Figure, rows: list[Row]) -> str:
    """The picture as a data address; PNG, since some browsers draw large SVGs slowly."""
    with tempfile.TemporaryDirectory() as folder:
        png = draw(figure, rows, Path(folder), vector=False)[0]
        return "data:image/png;base64," + base64.b64encode(png.read_bytes()).decode()
