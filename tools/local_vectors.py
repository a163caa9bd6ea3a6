"""Writes clients/js/vectors.json, which Python and JavaScript must both meet bit for bit.

`local_vectors.py [--check]`: with --check nothing is written, and the exit code says whether the
file is current. Random words are SHA-256 of a counter, so the file is the same everywhere.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from local_vector_messages import (
    client_cases,
    message_cases,
    name_cases,
    pick_cases,
    slot_cases,
)

from tidegate.errors import RefusedError
from tidegate.lattice import Lattice
from tidegate.local.integer_weights import WORDS, coin_weights, least_weight
from tidegate.local.questions import Question, TailQuestion, ValueQuestion, WaveQuestion
from tidegate.noise import exponential_bounds

FILE = Path(__file__).parent.parent / "clients" / "js" / "vectors.json"
LAST = WORDS - 1


def spread_words(label: str) -> Iterator[int]:
    """Words that look random, the same for the same label."""
    counter = 0
    while True:
        block = hashlib.sha256(f"{label} {counter}".encode()).digest()
        yield from (int.from_bytes(block[at : at + 4], "big") for at in range(0, 32, 4))
        counter += 1


def sliding_table(
    epsilon: Fraction, rows: int, columns: int, *, total: int, threshold: int
) -> ValueQuestion:
    """A window of high weights that slides over the columns from row to row.

    Columns are cut into as many parts as there are moves. A part is high or low, and every row has
    the same number of high parts, so all rows have one total.
    """
    parts, window = rows - 1, columns // 3
    high = total // (parts * columns)
    low = least_weight(high, epsilon)
    weights = []
    for row in range(rows):
        start = row * (columns - window)
        overlaps = (
            min((column + 1) * parts, start + window * parts) - max(column * parts, start)
            for column in range(columns)
        )
        weights.append([low * parts + (high - low) * max(0, overlap) for overlap in overlaps])
    outputs = [2 * column / (columns - 1) - 1 for column in range(columns)]
    return ValueQuestion.fitted(threshold, weights, outputs)


def value_questions() -> Iterator[ValueQuestion]:
    lie, truth = coin_weights(Fraction(1))
    yield ValueQuestion.fitted(1657, [[truth, lie], [lie, truth]], [-1.0, 1.0])
    yield sliding_table(Fraction(1), 17, 15, total=WORDS, threshold=80)
    yield sliding_table(Fraction(2), 17, 63, total=3 * WORDS // 5, threshold=2**40)
    yield sliding_table(Fraction(1, 2), 40, 21, total=2 * WORDS // 3, threshold=7)
    signed = sliding_table(Fraction(1), 17, 15, total=WORDS, threshold=80)
    yield signed.at(80, -33)
    yield signed.at(2**40, -7)


def tail_questions() -> Iterator[TailQuestion]:
    for level, dither in ((20.0, 1.0), (12.5, 0.0), (0.0, 3.25), (2.0**52, 2.0**40)):
        yield TailQuestion.at(level, Fraction(1, 2), dither=dither)
    yield TailQuestion.at(12.0, Fraction(1, 2), dither=1.0, below=True)
    yield TailQuestion.at(0.0, Fraction(2), dither=3.25, below=True)


def wave_questions() -> Iterator[WaveQuestion]:
    for top, bins, half, high in (
        (1657, 512, 128, 8_000_000),
        (5, 1024, 200, 2**22),
        (2**31, 2**16, 700, 50_000),
        (2**37, 2**16, 700, 50_000),
        (9, 1, 0, WORDS),
    ):
        yield WaveQuestion(top=top, bins=bins, half=half, high=high, low=high // 2)


def answer_cases() -> Iterator[dict[str, Any]]:
    """For every question: values at the edges and beyond, words at the edges and between."""
    for table in value_questions():
        top = table.threshold
        values = {-3, 0, 1, top // 4, top // 2, 3 * top // 4 + 1, top - 1, top, top + 1, 2**53 - 1}
        if table.lowest:
            values |= {table.lowest - 1, table.lowest, table.lowest + 1, table.lowest // 3}
        yield _asked(table, sorted(values), _value_words)
    for tail in tail_questions():
        yield _asked(tail, [-13, -12, -1, 0, 1, 12, 13, 19, 20, 21, 2**52, 2**53 - 1], _tail_words)
    for wave in wave_questions():
        top = wave.top
        values = {-3, 0, 1, top // 3, top - 1, top, top + 1, 2**53 - 1}
        for bin_number in (wave.bins // 2, _nearest(wave)):  # its first value, and the one before
            first = -(-bin_number * (top + 1) // wave.bins)
            values |= {first, max(first - 1, 0)}
        yield _asked(wave, sorted(values), _wave_words)


def _nearest(wave: WaveQuestion) -> int:
    """The bin that the value before its first comes nearest to: rounding would take it there."""
    rests = ((number * (wave.top + 1) % wave.bins, number) for number in range(1, wave.bins))
    return min((pair for pair in rests if pair[0]), default=(0, 0))[1]


def _asked(question: Any, values: list[int], edges: Any) -> dict[str, Any]:
    cases = []
    for value in values:
        label = json.dumps([question.plain(), value])
        between = spread_words(label)
        starts = [*edges(question, value), *([] for _ in range(6))]
        for start in starts:
            taken: list[int] = []
            source = _recorded([*start], between, taken)
            report = question.answer(value, source.__next__)
            cases.append([value, taken, report])
    return {"question": question.plain(), "cases": cases}


def _recorded(start: list[int], more: Iterator[int], taken: list[int]) -> Iterator[int]:
    """The words of `start`, then `more`; keeps those that were taken."""
    while True:
        word = start.pop(0) if start else next(more)
        taken.append(word)
        yield word


def _value_words(table: ValueQuestion, value: int) -> Iterator[list[int]]:
    row, coin = table.place(min(max(value, table.lowest), table.threshold))
    for first in sorted(_words(0, coin - 1, coin, LAST)):
        end = next(accumulate(table.weights[row + (first < coin)]))
        for second in sorted(_words(0, end - 1, end, table.total - 1)):
            yield [first, second]
        if table.total < WORDS:
            yield [first, table.total, LAST, end]  # two words are thrown away


def _tail_words(tail: TailQuestion, _: int) -> Iterator[list[int]]:
    for first in (0, WORDS // 2 - 1, WORDS // 2, LAST):
        for second in (0, tail.lie - 1, tail.lie, LAST):
            yield [first, second]


def _wave_words(wave: WaveQuestion, value: int) -> Iterator[list[int]]:
    start = min(max(value, 0), wave.top) * wave.bins // (wave.top + 1)
    before = start * wave.low
    after = before + (2 * wave.half + 1) * wave.high
    for word in sorted(_words(0, before - 1, before, after - 1, after, wave.total - 1)):
        if word < wave.total:
            yield [word]
    if wave.total < WORDS:
        yield [wave.total, LAST, before]


def _words(*candidates: int) -> set[int]:
    return {word for word in candidates if 0 <= word < WORDS}


def loss_cases() -> Iterator[dict[str, Any]]:
    """Questions just within ε and just beyond it: by one unit of a weight, or of ε."""
    for high, low, epsilon in islice(_nearly_whole(), 8):
        yield _loss(WaveQuestion(top=10, bins=1, half=0, high=high, low=low), epsilon)
        yield _loss(WaveQuestion(top=10, bins=1, half=0, high=high, low=low + 1), epsilon)
    for text in ("1/1000000", "1/10", "61/100", "1", "3/2", "5", "20", "44", "45", "1000"):
        epsilon = Fraction(text)
        lie, truth = coin_weights(epsilon)
        high = 2**31
        low = least_weight(high, epsilon)
        candidates: list[Question] = [
            TailQuestion(level=1.0, dither=0.0, lie=lie),
            ValueQuestion.fitted(10, [[truth, lie], [lie, truth]], [-1.0, 1.0]),
            WaveQuestion(top=10, bins=2, half=0, high=high, low=low),
        ]
        if lie > 1:
            candidates.append(TailQuestion(level=1.0, dither=0.0, lie=lie - 1))
            worse = [[truth + 1, lie - 1], [lie - 1, truth + 1]]
            candidates.append(ValueQuestion.fitted(10, worse, [-1.0, 1.0]))
        if low > 1:
            candidates.append(WaveQuestion(top=10, bins=2, half=0, high=high, low=low - 1))
        for question in candidates:
            for asked in (epsilon, epsilon * Fraction(999_999_999, 10**9)):
                yield _loss(question, asked)


def _nearly_whole() -> Iterator[tuple[int, int, Fraction]]:
    """Weights with low < high·e^(−ε) by less than 64 bits can tell: rounding must be upward."""
    for thousandth in range(1, 3000):
        epsilon = Fraction(thousandth, 1000)
        _, above = exponential_bounds(epsilon.numerator, epsilon.denominator, 256)
        factor = Fraction(above, 1 << 256)
        nearest = factor.limit_denominator(WORDS)
        low, high = nearest.numerator, nearest.denominator
        below, _ = exponential_bounds(epsilon.numerator, epsilon.denominator, 64)
        if high * below <= low << 64 and low < high * factor:
            yield high, low, epsilon


def _loss(question: Question, epsilon: Fraction) -> dict[str, Any]:
    try:
        question.check(epsilon)
    except RefusedError:
        allowed = False
    else:
        allowed = True
    return {"question": question.plain(), "epsilon": str(epsilon), "allowed": allowed}


def exponential_cases() -> Iterator[list[Any]]:
    """Numerator, denominator, bits, floor and ceiling; large ones as text."""
    fractions = [Fraction(0), *(Fraction(1, 10**power) for power in range(0, 10, 3))]
    fractions += [Fraction(text) for text in ("61/100", "3/2", "12345/678", "20", "63", "64")]
    fractions += [Fraction(10**30 + 7, 10**30), Fraction(1, 3)]
    for fraction in fractions:
        for bits in (10, 64, 200):
            numerator, denominator = fraction.numerator, fraction.denominator
            low, high = exponential_bounds(numerator, denominator, bits)
            yield [str(numerator), str(denominator), bits, str(low), str(high)]


def lattice_cases() -> Iterator[dict[str, Any]]:
    """Values as JSON has them; what it has not is text, a missing one is null."""
    values: list[Any] = [
        0,
        0.5,
        1,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.5,
        -2.125,
        0.125,
        0.126,
        29.995,
        30,
        31,
        -1,
        -0.0,
        1e300,
        5e-324,
    ]
    values += [2**53 - 1, 0.1 + 0.2, 12.345, 4503599627370497.5, "nan", "inf", "-inf", None]
    for bound, resolution, lower in (
        ("30", "1/100", "0"),
        ("30", "1/100", "-5/2"),
        ("1657", "1", "-1"),
        ("1", "7/10", "-3"),
        ("1657", "1", "0"),
        ("1", "1/3", "0"),
        ("9007199254740991", "1", "0"),
        ("1000", "7", "0"),
        ("1/10", "1/1000000007", "0"),
    ):
        lattice = Lattice(Fraction(bound), Fraction(resolution), Fraction(lower))
        units = [lattice.unit(float(v) if isinstance(v, str) else v) for v in values]
        settings = {"bound": bound, "resolution": resolution, "lower": lower}
        yield {**settings, "values": values, "units": units}


def content() -> str:
    """The file: one case a line, so that a change shows where it is."""
    parts: dict[str, Iterable[Any]] = {
        "answers": answer_cases(),
        "loss": loss_cases(),
        "exponential": exponential_cases(),
        "lattice": lattice_cases(),
        "messages": message_cases(),
        "names": name_cases(),
        "slots": slot_cases(),
        "picks": pick_cases(),
        "clients": client_cases(),
    }
    blocks = [
        f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]"
        for name, cases in parts.items()
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> int:
    text = content()
    if "--check" in sys.argv[1:]:
        current = FILE.exists() and FILE.read_text(encoding="utf-8") == text
        if not current:
            print(f"{FILE} is stale: run python tools/local_vectors.py")
        return 0 if current else 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
