"""Answers and rows as tables; objects in a notebook; nothing raw in any of them."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tidegate as tg
from tidegate.tables import html

pd = pytest.importorskip("pandas", reason="tables need the extra [tables]")
pl = pytest.importorskip("polars", reason="tables need the extra [tables]")
pa = pytest.importorskip("pyarrow", reason="tables need the extra [tables]")

COLUMNS = [
    *("start", "end", "estimate", "low", "high"),
    *("standard_error", "noise_error", "prediction_error", "truncation_error"),
    *("threshold", "highest"),
]
PRESETS = {
    "adaptive": lambda: tg.adaptive(epsilon=1, bound=500, horizon=4096),
    "tops": lambda: tg.tops(epsilon=1, bound=500, horizon=4096, holdout=500),
}


def released(preset: str = "adaptive", count: int = 6000) -> tg.Release:
    release = PRESETS[preset]().start(tg.seeded(5))
    release.push(tg.synthetic.baskets(count))
    return release


@pytest.mark.parametrize("preset", PRESETS)
def test_answers_are_a_table_in_every_library(preset: str) -> None:
    answers = released(preset).table(every=1000)
    frame, lazy, table = answers.to_pandas(), answers.to_polars(), answers.to_arrow()
    assert list(frame.columns) == lazy.columns == table.column_names == COLUMNS
    assert (type(frame), type(lazy), type(table)) == (pd.DataFrame, pl.DataFrame, pa.Table)
    for at in range(len(answers)):
        one = answers[at]
        expected = [float(getattr(one, name)) for name in COLUMNS]
        assert [float(number) for number in frame.iloc[at]] == expected
        assert [float(number) for number in lazy.row(at)] == expected
        assert [float(table[name][at].as_py()) for name in COLUMNS] == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_a_table_covers_all_that_is_known_without_gaps(preset: str) -> None:
    release = released(preset)
    answers = release.table(every=999)
    assert answers.start[0] == release.record.start
    assert answers.end[-1] == release.position
    assert (answers.start[1:] == answers.end[:-1]).all()
    assert set((answers.end - answers.start)[:-1].tolist()) == {999}
    assert answers.estimate[0] == release.query(0, 999).estimate


@pytest.mark.parametrize("every", [0, -1, 1.5, None])
def test_a_table_needs_a_whole_number_of_values(every: Any) -> None:
    with pytest.raises(tg.SettingError, match="every"):
        released().table(every=every)


def test_a_table_by_time_needs_times_and_a_length_of_time() -> None:
    with pytest.raises(tg.QueryError, match="no times"):
        released().table(every="1d")
    release = PRESETS["adaptive"]().start(tg.seeded(5))
    when = np.datetime64("2024-01-01") + np.arange(3000).astype("timedelta64[h]")
    release.push(tg.synthetic.baskets(3000), times=when)
    with pytest.raises(tg.QueryError, match="every"):
        release.table(every="a day")
    table = release.table(every="1w")
    for frame in (table.to_pandas(), table.to_polars(), table.to_arrow().to_pandas()):
        assert list(frame.columns)[:3] == ["time", "rows", "sum"]
        assert np.asarray(frame["rows"]).tolist() == [168] * 17 + [144]


def test_rows_are_a_table_in_every_library() -> None:
    release = PRESETS["adaptive"]().start(tg.seeded(5))
    release.push(tg.synthetic.baskets(100))
    rows = release.push_rows(pd.Series(tg.synthetic.baskets(50)))
    for table in (rows.to_pandas(), rows.to_polars(), rows.to_arrow().to_pandas()):
        assert list(table.columns) == ["position", "value", "level"]
        assert np.asarray(table["position"]).tolist() == list(range(100, 150))
        assert np.array_equal(np.asarray(table["value"]), rows.values)
        assert np.array_equal(np.asarray(table["level"]), rows.levels)


def test_no_answers_are_an_empty_table() -> None:
    answers = released().queries([], [])
    assert len(answers.to_pandas()) == 0
    assert list(answers.to_pandas().columns) == COLUMNS
    assert "0 sums" in answers._repr_html_()


# -- notebooks -----------------------------------------------------------------------------------


def parsed(text: str) -> ElementTree.Element:
    """Our HTML is well-formed, so that a parser of XML reads it."""
    return ElementTree.fromstring(text)


@pytest.mark.parametrize("preset", PRESETS)
def test_objects_show_themselves(preset: str) -> None:
    release = released(preset)
    shown = {
        "release": release,
        "record": release.record,
        "answer": release.query(0, 1000),
        "answers": release.table(every=100),
        "guarantee": release.guarantee,
        "simulation": release.pipeline.guarantee,
    }
    for name, thing in shown.items():
        text = thing._repr_html_()
        tree = parsed(text)
        assert "<script" not in text
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        pictures = tree.findall(".//{http://www.w3.org/2000/svg}svg")
        assert len(pictures) == (name in ("release", "record", "answers")), name
    assert f"{release.threshold:g}" in release._repr_html_()
    assert str(release.guarantee) in release._repr_html_()


def test_a_release_shows_itself_at_any_time() -> None:
    waiting = PRESETS["tops"]().start()
    assert "holding 500 more" in waiting._repr_html_()
    waiting.push([1, 2, 3])
    assert "holding 497 more" in waiting._repr_html_()
    warming = PRESETS["adaptive"]().start()
    assert "warming up" in warming._repr_html_()


class CutShortError(Exception):
    pass


def test_a_cut_short_release_shows_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    release = released("tops")

    def fail(*_: Any) -> None:
        raise CutShortError

    monkeypatch.setattr(type(release), "_take", fail)
    with pytest.raises(CutShortError):
        release.push([1, 2])
    assert "<svg" not in release._repr_html_()


def test_no_raw_value_is_shown() -> None:
    # Values with twelve digits of their own, in the hold-out and in the open block.
    for preset in (
        tg.tops(epsilon=1, bound=10**12, horizon=4096, holdout=100),
        tg.adaptive(epsilon=1, bound=10**12, horizon=4096),
    ):
        release = preset.start(tg.seeded(1))
        values = np.random.default_rng(3).integers(10**11, 10**12, 150)
        for value in values.tolist():
            release.push(value)
            text = release._repr_html_() if value % 7 == 0 else ""
            assert not [one for one in values.tolist() if str(one) in text.replace(",", "")]


def test_text_is_escaped() -> None:
    text = html.facts("<b>", [("a&b", "<script>")]) + html.table(["<i>"], [["<u>"]])
    assert not re.search(r"<(b|i|u|script)>", text)
    parsed(f"<div>{text}</div>")


def test_a_flat_line_and_no_line_can_be_drawn() -> None:
    one = np.array([5.0])
    parsed(html.band(one, one, one, ("0", "1"), "one point"))
    assert html.band(one[:0], one[:0], one[:0], ("0", "1"), "none") == ""


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = released().queries([0], [10])
    for library in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(__import__("sys").modules, library, None)
        name = "arrow" if library == "pyarrow" else library
        with pytest.raises(tg.TidegateError, match=rf"to_{name}\(\) needs {library}\. Run"):
            getattr(answers, f"to_{name}")()
