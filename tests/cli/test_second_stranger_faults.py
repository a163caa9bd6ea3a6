"""Faults that a second stranger met: mistakes that were swallowed, and advice that was wrong."""

import json
from unittest.mock import Mock

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.cli import check_rehearsal
from tidegate.record.range_queries_and_answers import Answers

DAYS = [f"2024-03-{1 + at // 40:02}T{at % 40 // 2:02}:{at % 2 * 30:02}:00" for at in range(800)]


@pytest.fixture(scope="module")
def by_shop(tmp_path_factory):
    """The same rows, released by key and without keys."""
    folder = tmp_path_factory.mktemp("shops")
    rows = [f"{time},{('a', 'b', 'b')[at % 3]},{at % 7}" for at, time in enumerate(DAYS)]
    (folder / "rows.csv").write_text("when,shop,v\n" + "\n".join(rows) + "\n")
    how = ("--column", "v", "--time", "when", "--bound", 10, "--epsilon", 2)
    keyed = ("--by", "shop", "--keys-are-public")
    run("release", folder / "rows.csv", *how, *keyed, "-o", folder / "keyed.csv")
    run("release", folder / "rows.csv", *how, "-o", folder / "plain.csv")
    return folder


@pytest.mark.parametrize(
    "asked",
    [
        ("--from", "25.03.2024"),
        ("--from", "2024-03-05T00:00+01:00"),
        ("--from", "2024-03-05", "--to", "2024-03-02"),
        ("--from", "2030-01-01"),
        ("--to", "garbage"),
        (5, 1),
        (0, 900_000),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_range_that_no_key_can_answer_is_refused_as_without_keys(by_shop, asked, form):
    """It printed "Some keys have too few rows", with exit code 0."""
    keyed = run("query", by_shop / "keyed.csv", *asked, *form)
    plain = run("query", by_shop / "plain.csv", *asked, *form)
    assert keyed.exit_code == plain.exit_code == 2
    assert keyed.stdout == ""
    if asked[-1] != 900_000:  # the longest key has fewer rows than all together
        assert keyed.stderr == plain.stderr


def test_keys_without_an_answer_are_counted(by_shop):
    asked = by_shop / "keyed.csv", 0, 400
    assert "1 key has no sum (of 2)" in run("query", *asked).stdout
    said = json.loads(run("query", *asked, "--json").stdout)
    assert said["answers"][0]["estimate"] is None
    assert any("1 key has no sum (of 2)" in warning for warning in said["warnings"])


@pytest.fixture
def small_readings(tmp_path):
    """Quarter hours of a meter in kWh, about 0.15 each."""
    values = np.random.default_rng(3).gamma(3, 0.05, 6_000).round(3)
    path = tmp_path / "kwh.csv"
    path.write_text("kwh\n" + "".join(f"{value}\n" for value in values))
    return path, values


def resolution_in(words):
    return float(words.partition("--resolution ")[2].split()[0].rstrip(".)"))


@pytest.mark.parametrize("given", [(), ("--resolution", 1)])
@pytest.mark.parametrize("bound", [10, 1_000, 10_000])
def test_check_never_advises_a_resolution_that_moves_the_sum(small_readings, bound, given):
    """Rounding moved the sum by 99 %, and it said: try --resolution 10."""
    path, values = small_readings
    found = run("check", path, "--header", "--bound", bound, "--epsilon", 1, *given).stdout
    for line in found.splitlines():
        advised = line if "Use --resolution" in line or "release" in line else ""
        if "--resolution" in advised.partition("Use ")[2] + advised * ("-o private" in advised):
            step = resolution_in(advised.partition("Use ")[2] or advised)
            rounded = np.rint(values / step) * step
            assert abs(rounded.sum() - values.sum()) < 0.001 * values.sum()
    (command,) = [line for line in found.splitlines() if "-o private.csv" in line]
    if given or bound == 10_000:
        assert "--resolution" in command
    assert "too few rows" not in found


def test_a_rehearsal_misses_what_the_bound_cuts(tmp_path):
    """Half of the sum was cut off, and "5 of 5" intervals held."""
    path = tmp_path / "prices.csv"
    path.write_text("price\n" + "15\n30\n" * 1_000)
    found = run("check", path, "--header", "--bound", 10, "--epsilon", 1).stdout
    assert "0 of 5" in found
    assert "--bound 10 cuts 55.6% off a total, and no interval holds that" in found
    assert found.index("Warning: --bound 10 takes 55.6% off a total") < found.index("rehearsals")
    assert "the upper end of an interval reaches further" not in found


def test_check_shows_the_intervals_that_rehearsals_had(small_readings, monkeypatch):
    """It promised ± 4.7 %, and intervals reached 42 % up."""
    answers = [Mock(estimate=900.0, low=900 - below, high=1_200.0) for below in (9, 45, 90)]
    release = Mock(query=Mock(side_effect=answers))
    pipeline = Mock(ticks=None, lattice=Mock(bottom=0, top=10, step=1.0), start=lambda: release)
    monkeypatch.setattr(check_rehearsal, "_RUNS", 3)
    found = check_rehearsal.check_by_rehearsal(
        pipeline, np.array([500.0, 400.0])
    )  # the bound, 10, cuts
    assert found == check_rehearsal.Rehearsal(3, 3, 0.0, 0.05, pytest.approx(1 / 3))
    assert found.cells() == ("0.0%", "− 5.0%, + 33.3%", "3 of 3")
    told = run("check", small_readings[0], "--header", "--bound", 10, "--epsilon", 1).stdout
    assert "noise in a total" in told
    assert "95 % interval" in told


def test_a_bound_that_is_too_low_is_named_for_keys_as_without(tmp_path):
    """It advised "more epsilon, or more values" of values that all lay above the bound."""
    source, out = tmp_path / "fares.csv", tmp_path / "private.csv"
    rows = "".join(f"{('a', 'b')[at % 2]},{30 + at % 20}\n" for at in range(4_000))
    source.write_text("zone,fare\n" + rows)
    how = ("--column", "fare", "--epsilon", 5, "--bound", 10, "-o", out)
    told = run("release", source, "--by", "zone", "--keys-are-public", *how)
    assert "most values lie close to the cap" in told.stderr
    assert "Use a larger bound" in told.stderr
    assert "Values above the bound (10) count as that bound" in told.stderr
    asked = run("query", out).stdout
    assert "Use a larger bound." in asked
    assert "Values above the bound (10) count as that bound" in asked


def test_lower_caps_of_keys_are_shown(tmp_path):
    source, out = tmp_path / "signed.csv", tmp_path / "private.csv"
    values = np.random.default_rng(5).normal(0, 20, 4_000).round()
    source.write_text("k,v\n" + "".join(f"{'ab'[i % 2]},{v:.0f}\n" for i, v in enumerate(values)))
    how = ("--column", "v", "--by", "k", "--keys-are-public", "--epsilon", 5)
    run("release", source, *how, "--bound", 100, "--lower", -100, "-o", out)
    asked = run("query", out).stdout
    file = tg.open(out)
    floors = [file.query(key=key).lowest_floor for key in "ab"]
    assert min(floors) < 0
    assert f"Values were cut below {'' if len(set(floors)) == 1 else 'caps between '}" in asked
    assert f"{min(floors):g}" in asked


def test_python_says_of_bounds_and_epsilon_what_the_command_line_says():
    """It said "sum of: all values" where the bound had cut a tenth of the sum."""
    prices = {"price": np.random.default_rng(6).gamma(9, 3, 5_000).round(2)}
    cut = tg.release(prices, "price", epsilon=1, bound=20)
    words = "Values above the bound (20) count as that bound; intervals do not cover what this cuts"
    assert words in cut.query()._repr_html_()
    assert words in str(cut.query())
    assert words in repr(cut.queries([0, 5], [5, 10]))
    whole = tg.release(prices, "price", epsilon=1, bound=2_000).query()
    assert "above the bound" not in str(whole) + whole._repr_html_()
    with pytest.warns(UserWarning, match="ε = 1000 protects hardly anything"):
        tg.release(prices, "price", epsilon=1_000, bound=100)


@pytest.mark.parametrize("lower", [0, -500])
def test_no_end_lies_beyond_what_rows_and_bounds_allow(lower):
    """150 rows of at most 500,000 had an upper end of 75,000,756, and lower ends lay below 0."""
    values = np.full(150, 300.0)
    clipped = 0
    for seed in range(20):
        release = tg.adaptive("0.2", 500, horizon=1_000, lower=lower).start(tg.seeded(seed))
        release.push(values)
        release.finish()
        found = release.queries([0, 0, 100], [150, 10, 101])
        rows = found.end - found.start
        least, most = rows * float(lower), rows * 500.0
        assert (found.low >= np.minimum(least, found.estimate)).all()
        assert (found.high <= np.maximum(most, found.estimate)).all()
        assert (found.low <= found.estimate).all()
        assert (found.estimate <= found.high).all()
        clipped += int((found.high == most).sum() + (found.low == least).sum())
    assert clipped > 10


def test_moved_ends_take_no_true_sum_away():
    """The same noise, with ends as noise has them: every sum that was held is held."""
    held = np.zeros(2, dtype=int)
    for seed in range(60):
        values = np.random.default_rng(seed).integers(0, 2, 64) * 9
        release = tg.flat("0.5", 9, holdout=0, horizon=64).start(tg.seeded(seed))
        release.push(values)
        starts = np.arange(63)
        truth = values[:63]
        found = release.queries(starts, starts + 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Answers, "within_bounds", lambda answers, _: answers)
            wide = release.queries(starts, starts + 1)
        inside = [(one.low <= truth) & (truth <= one.high) for one in (found, wide)]
        assert (inside[0] == inside[1]).all()
        held += [int(one.sum()) for one in inside]
        assert (found.high - found.low <= wide.high - wide.low).all()
    assert held[0] >= 0.93 * 60 * 63


@pytest.mark.parametrize("more", [(), ("--by", "shop", "--keys-are-public"), ("--state", "state")])
def test_release_tells_its_operator_what_rounding_does(tmp_path, monkeypatch, more):
    """Values of 0.004 became 0 or 0.01, and every interval missed: nothing said why."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(8).gamma(6, 0.004 / 6, 4_000).round(4)
    rows = "".join(f"{'ab'[at % 2]},{value}\n" for at, value in enumerate(values))
    (tmp_path / "in.csv").write_text("shop,kwh\n" + rows)
    how = ("--column", "kwh", "--epsilon", 1, "--bound", 50, *more)
    found = run("release", "in.csv", *how, "--resolution", 0.01, "-o", "out.csv")
    (warning,) = [line for line in found.stderr.splitlines() if "rounding" in line]
    assert "--resolution 0.01 moves the sum of what was read by " in warning
    assert "This number is for you: it is not private, and is not in the output" in warning
    step = resolution_in(warning.partition("Use ")[2])
    assert abs((np.rint(values / step) * step).sum() - values.sum()) < 0.001 * values.sum()
    share = warning.partition(" read by ")[2].partition("%")[0]
    moved = abs((np.rint(values / 0.01) * 0.01).sum() - values.sum()) / values.sum()
    assert float(share) == pytest.approx(100 * moved, abs=0.06)
    written = "".join(path.read_text(errors="replace") for path in tmp_path.glob("out.csv*"))
    assert f"{share}%" not in written
    assert "rounding" not in written
    fine = run("release", "in.csv", *how[:6], "--resolution", step, "-o", "fine.csv")
    assert "rounding" not in fine.stderr


def test_words_for_small_mistakes(tmp_path, monkeypatch, by_shop):
    monkeypatch.chdir(tmp_path)
    rows = "fare,tip\n" + "20,3\n30,4\n" * 500
    budget = ("--epsilon", 2, "--bound", 50)
    for name in ("in.csv", "in.parquet", "in.txt"):
        (tmp_path / name).write_text(rows)
    refused = run("release", "in.parquet", "--column", "tip", *budget, "-o", "out.csv").stderr
    assert "does not look like Parquet. If it is CSV, give --format csv" in refused
    refused = run("release", "in.txt", "--column", "tip", *budget, "-o", "out.csv").stderr
    assert "unknown extension; choose one of csv" in refused
    (tmp_path / "wide.csv").write_bytes(rows.encode("utf-16-le"))
    refused = run("release", "wide.csv", "--column", "tip", *budget, "-o", "out.csv").stderr
    assert "looks like UTF-16 text without a byte order mark" in refused
    both = ("--column", "fare", "--column", "tip")
    assert run("release", "in.csv", *both, *budget, "-o", "p_0.1.csv").exit_code == 0
    assert (tmp_path / "p_0.1.tip.csv").exists()
    asked = run("query", "p_0.1.csv", "--ratio", "fares/tip").stderr
    assert "no released column 'fares' there: fare, tip" in asked
    asked = run("query", by_shop / "plain.csv", "--from", 2024).stderr
    assert "from is a number, which counts from 1970: write a date" in asked


def test_the_name_of_an_index_names_its_times():
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range("2024-01-01", periods=500, freq="h", name="when")
    frame = pandas.DataFrame({"v": np.arange(500) % 9}, index=index)
    assert tg.release(frame, "v", time="when", epsilon=2, bound=10).times is not None


def test_release_and_query_name_the_same_caps(tmp_path):
    """The one said 0.435, the other "between 0.449 and 0.472"."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    values = np.random.default_rng(9).gamma(2, 20, 8_000).round()
    source.write_text("v\n" + "".join(f"{value:.0f}\n" for value in values))
    told = run("release", source, "--header", "--epsilon", 1, "--bound", 1_000, "-o", out).stderr
    answer = tg.open(out).query()
    caps = f"{answer.threshold:g}"
    if answer.highest != answer.threshold:
        caps += f" to {answer.highest:g}"
    assert f"larger values count as {caps}, values below 0 as 0" in told
