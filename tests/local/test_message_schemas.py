"""The published JSON Schema: generated, and in agreement with vectors and real messages."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tidegate.local.announcements_and_reports import Report
from tidegate.local.canonical_json import VERSION, MessageError, written_json
from tidegate.local.message_schemas import schemas
from tidegate.local.report_checks import REASONS
from tidegate.local.task_messages import FINAL, RoundMessage, outcomes_from_json, outcomes_json
from tidegate.local.topl import Topl

ROOT = Path(__file__).parent.parent.parent
# What the readers refuse and a schema cannot say.
BEYOND = (
    "longer than", "a name occurs twice", "in lowest terms", "rows must have one total",
    "the means of the rows", "as wide as the outputs", "of at most 32768 cells", "at least 2**24",
    "high ≥ low", "steps below the threshold", "NaN and Infinity", "not JSON",
)  # fmt: skip


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="needs the extra [test]")
    published = schemas()
    jsonschema.Draft202012Validator.check_schema(published)
    return jsonschema.Draft202012Validator(published)


def test_the_published_file_is_current() -> None:
    published = (ROOT / "docs" / "reference" / "messages.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == json.loads(json.dumps(schemas())), "tools/message_schemas.py"


def _double(text: str) -> float:
    """A number is a double, for every reader of messages."""
    number = float(text)
    return int(number) if number.is_integer() else number


def test_the_vectors_agree_with_the_schema(validator: Any) -> None:
    """What the clients take is valid; what they refuse is not, but for what a schema cannot say."""
    vectors = json.loads((ROOT / "clients" / "js" / "vectors.json").read_text(encoding="utf-8"))
    seen = Counter[str]()
    for case in vectors["messages"]:
        try:
            plain = json.loads(case["text"], parse_int=_double)
        except (ValueError, RecursionError):
            continue  # no JSON: no schema is asked
        valid = validator.is_valid(plain)
        if case["error"] is None:
            assert valid, case["text"]
            seen["valid"] += 1
        elif valid:
            assert any(words in case["error"] for words in BEYOND), (case["error"], case["text"])
            seen["beyond"] += 1
        else:
            seen["invalid"] += 1
    assert seen["valid"] > 20
    assert seen["invalid"] > 100
    assert seen["invalid"] > 3 * seen["beyond"]
    for case in vectors["clients"]:
        for step in case["steps"]:
            refused = isinstance(step["outcome"], list) and step["outcome"][0] == "MessageError"
            assert validator.is_valid(step["announcement"]) != refused


def test_what_tidegate_says_is_valid(validator: Any) -> None:
    for settings in ({"threshold": 20}, {"lower": -40}, {"scheme": "published"}):
        server = Topl(epsilon=1, bound=100, **settings).server()
        for announcement in server.announcements:
            validator.validate(announcement.plain())
    report = Report(round="r", phase="stream", epsilon=Fraction(1), slot=0, client="a", report=1)
    validator.validate(report.plain())
    message = RoundMessage(task="T", round="T.1", opens="a", closes="b", accepted_until="c")
    validator.validate(message.plain())
    for broken in (
        {**message.plain(), "more": 1}, {**message.plain(), "task": "a b"},
        {**message.plain(), "closes": 5},
    ):  # fmt: skip
        assert not validator.is_valid(broken)
        with pytest.raises(MessageError):
            RoundMessage.from_json(json.dumps(broken))


def test_outcomes_are_those_of_the_server(validator: Any) -> None:
    assert {"accepted", *REASONS} == FINAL
    names = ["a", None, 'q"\\', "!~", "b"]
    said = ["accepted", "malformed", "late", "duplicate", "slot"]
    rows = [{"report_id": a, "outcome": b} for a, b in zip(names, said, strict=True)]
    plain = {"tidegate": VERSION, "kind": "outcomes", "outcomes": rows}
    assert outcomes_json(names, said) == written_json(plain)  # every byte as the encoder has it
    assert outcomes_json([], []) == written_json({**plain, "outcomes": []})
    text = outcomes_json(["a", None], ["accepted", "malformed"])
    validator.validate(json.loads(text))
    assert outcomes_from_json(text) == ["accepted", "malformed"]
    for broken in (
        text.replace("malformed", "queued"), text.replace("[", "{").replace("]", "}"),
        '{"tidegate":1,"kind":"outcomes","outcomes":[1]}',
        '{"tidegate":1,"kind":"outcomes","outcomes":7}',
    ):  # fmt: skip
        with pytest.raises(MessageError):
            outcomes_from_json(broken)


def test_the_javascript_client_knows_the_same_outcomes() -> None:
    source = (ROOT / "clients" / "js" / "src" / "task_messages.js").read_text(encoding="utf-8")
    listed = source.partition("const OUTCOMES = [")[2].partition("]")[0]
    assert {one.strip().strip('"') for one in listed.split(",") if one.strip()} == FINAL
