"""Python meets the vectors that clients/js meets, bit for bit, and the file of them is current."""

import json
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import RefusedError, TidegateError
from tidegate.lattice import Lattice
from tidegate.local.announcements_and_reports import Announcement, MessageError, question_from_plain
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.question_assignment import slot_of
from tidegate.noise import exponential_bounds

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / "clients" / "js" / "vectors.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def value_of(written: Any) -> Any:
    """Text such as "nan" stands for a number that JSON does not have."""
    return float(written) if isinstance(written, str) else written


def test_the_file_is_current_and_a_stale_one_is_noticed(tmp_path: Path) -> None:
    def check(folder: Path) -> str:
        command = [sys.executable, str(folder / "tools" / "local_vectors.py"), "--check"]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (1 if result.stdout else 0, "")
        return result.stdout

    assert check(ROOT) == ""
    (tmp_path / "tools").mkdir()
    (tmp_path / "clients" / "js").mkdir(parents=True)
    for script in ROOT.glob("tools/local_vector*.py"):
        shutil.copy(script, tmp_path / "tools")
    changed = FILE.read_text(encoding="utf-8").replace("true", "false", 1)
    (tmp_path / "clients" / "js" / "vectors.json").write_text(changed, encoding="utf-8")
    assert "is stale: run python tools/local_vectors.py" in check(tmp_path)


@pytest.mark.parametrize(
    "vector", VECTORS["answers"], ids=lambda vector: vector["question"]["form"]
)
def test_answers(vector: dict[str, Any]) -> None:
    question = question_from_plain(vector["question"])
    assert len(vector["cases"]) > 50
    thrown_away = 0
    for value, words, report in vector["cases"]:
        left = iter(words)
        assert question.answer(value, left.__next__) == report
        assert list(left) == []
        thrown_away += len(words) > 2
    if not vector["question"]["form"].startswith("tail") and question.total < 2**32:
        assert thrown_away > 0, "some words must be rejected"


def test_every_report_of_the_tables_occurs() -> None:
    for vector in VECTORS["answers"]:
        question = question_from_plain(vector["question"])
        if question.reports <= 15:
            assert {report for _, _, report in vector["cases"]} == set(range(question.reports))


def test_the_loss_check() -> None:
    assert {case["allowed"] for case in VECTORS["loss"]} == {True, False}
    for case in VECTORS["loss"]:
        question, epsilon = question_from_plain(case["question"]), Fraction(case["epsilon"])
        if case["allowed"]:
            question.check(epsilon)
        else:
            with pytest.raises(RefusedError):
                question.check(epsilon)


def test_the_exponential() -> None:
    for numerator, denominator, bits, low, high in VECTORS["exponential"]:
        bounds = exponential_bounds(int(numerator), int(denominator), bits)
        assert bounds == (int(low), int(high))


def test_values_to_steps() -> None:
    for case in VECTORS["lattice"]:
        lattice = Lattice(*(Fraction(case[one]) for one in ("bound", "resolution", "lower")))
        values = [value_of(value) for value in case["values"]]
        assert [lattice.unit(value) for value in values] == case["units"]
        floats = np.array([0.0 if value is None else float(value) for value in values])
        assert lattice.units(floats).tolist() == case["units"]


def test_announcements() -> None:
    for case in VECTORS["messages"]:
        if case["error"] is None:
            Announcement.from_json(case["text"])
            continue
        with pytest.raises(MessageError) as caught:
            Announcement.from_json(case["text"])
        assert (str(caught.value), caught.value.reason) == (case["error"], case["reason"])


def test_slots_and_picks() -> None:
    for name, client, slots, slot in VECTORS["slots"]:
        assert slot_of(name, client, slots) == slot
    for case in VECTORS["picks"]:
        client = Client(epsilon=1, bound=100, memory=Memory.volatile(), name=case["name"])
        texts = [json.dumps(one) for one in case["announcements"]]
        if isinstance(case["outcome"], int):
            assert client.pick(texts).slot == case["outcome"]
        else:
            with pytest.raises(MessageError) as caught:
                client.pick(texts)
            assert str(caught.value) == case["outcome"]


@pytest.mark.parametrize("life", VECTORS["clients"])
def test_lives_of_clients(life: dict[str, Any]) -> None:
    client = Client(**life["settings"], memory=Memory.volatile(), randomness=tg.seeded(2))
    for step in life["steps"]:
        before = client.ledger
        outcome: Any
        try:
            text = json.dumps(step["announcement"])
            report = client.answer(text, value_of(step["value"]), event=step["event"])
        except TidegateError as error:
            outcome = [type(error).__name__, str(error)]
        else:
            known = [pin for pin in before if pin.round == report.round]
            assert all(pin.report == report.report for pin in known)
            outcome = "again" if known else "new"
        assert (outcome, str(client.left)) == (step["outcome"], step["left"])
        assert len(client.ledger) == len(before) + (outcome == "new")
