"""HTML tables and SVG pictures of our objects, for notebooks. No scripts.

Colours work on light and on dark pages: lines of text have the colour of the page's text, and the
blue has enough contrast on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.lattice import FloatArray

_WIDTH, _HEIGHT, _LEFT = 560, 120, 64  # of a picture, and of the room for its scale
_STYLE = 'style="color:inherit"'  # old browser modes make tables black
_BLUE = "#2f8fd0"
_TEXT = 'font-size="11" fill="currentColor"'
# As `html.escape` does; that module brings two thousand names of characters with it.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """Text that is safe anywhere in a page."""
    return text.translate(_ESCAPES)


def facts(title: str, rows: Iterable[tuple[str, object]], picture: str = "") -> str:
    """A heading, a picture, and a table of names and values."""
    body = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(fact))}</td></tr>'
        for name, fact in rows
    )
    shown = f"<table {_STYLE}>{body}</table>"
    return f"<div><strong>{escape(title)}</strong>{picture}{shown}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of numbers."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table style='color:inherit'><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    )


def lines(texts: Iterable[str]) -> str:
    """Sentences below a table."""
    return "".join(f"<div>{escape(text)}</div>" for text in texts if text)


def band(
    middle: FloatArray,
    low: FloatArray,
    high: FloatArray,
    labels: tuple[str, str],
    about: str,
) -> str:
    """A line with its error band; `labels` stand at the ends of the axis below it.

    Args:
        middle: the line, from left to right.
        low, high: the band.
        labels: what the axis begins and ends with.
        about: what is shown, for those who cannot see it.
    """
    if not middle.size:
        return ""
    floor, ceiling = float(low.min()), float(high.max())
    spread = ceiling - floor or 1.0
    right, bottom, top = _WIDTH - 8, _HEIGHT - 20, 8
    step = (right - _LEFT) / max(1, middle.size - 1)

    def points(values: FloatArray) -> list[str]:
        heights = bottom - (values - floor) / spread * (bottom - top)
        return [f"{_LEFT + at * step:.1f},{y:.1f}" for at, y in enumerate(heights.tolist())]

    around = " ".join([*points(high), *reversed(points(low))])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" style="display:block;max-width:100%">'
        f"<title>{escape(about)}</title>"
        f'<polygon points="{around}" fill="{_BLUE}" fill-opacity="0.25"/>'
        f'<polyline points="{" ".join(points(middle))}" fill="none" stroke="{_BLUE}" '
        'stroke-width="1.6"/>'
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="currentColor" '
        'stroke-opacity="0.4"/>'
        f'<text x="{_LEFT - 6}" y="{top + 8}" text-anchor="end" {_TEXT}>{ceiling:.4g}</text>'
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end" {_TEXT}>{floor:.4g}</text>'
        f'<text x="{_LEFT}" y="{bottom + 14}" {_TEXT}>{escape(labels[0])}</text>'
        f'<text x="{right}" y="{bottom + 14}" text-anchor="end" {_TEXT}>{escape(labels[1])}</text>'
        "</svg>"
    )
