"""JSON Schema for the messages of the local model, built from the limits that parsers check.

A schema says what a message looks like. The readers refuse more: fractions that are not in lowest
terms, rows of different totals, names that occur twice, and, on the device, whatever costs too
much. A message that the readers take is valid; `clients/js/vectors.json` decides about the rest.
"""

from __future__ import annotations

from typing import Any

from tidegate.local.canonical_json import EXACT, LONGEST, NAME, PHASES, SLOTS, VERSION
from tidegate.local.integer_weights import WORDS
from tidegate.local.questions import (
    ValueQuestion,
    WaveQuestion,
    tail_question,
    value_question,
    wave_question,
)
from tidegate.local.report_checks import REASONS
from tidegate.local.task_messages import MOST_OUTCOMES

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MOST_WHOLE = 1 << 53


def schemas() -> dict[str, Any]:
    """One schema for all messages: `$defs` has one entry for each kind.

    >>> sorted(schemas()["$defs"])[:3]
    ['announcement', 'outcomes', 'question']
    """
    kinds = ("announcement", "report", "round", "outcomes")
    return {
        "$schema": _DIALECT,
        "title": "Messages of Tidegate's local model",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds],
        "$defs": {
            "announcement": _announcement_schema(),
            "question": {"oneOf": [_tail_schema(), _value_schema(), _wave_schema()]},
            "report": _report_schema(),
            "round": _round_schema(),
            "outcomes": _outcomes_schema(),
            "shuffled": _shuffled_schema(),
        },
    }


def _object_schema(fields: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in fields if name not in optional]
    return {
        "type": "object",
        "properties": fields,
        "required": required,
        "additionalProperties": False,
    }


def _message_schema(
    kind: str, fields: dict[str, Any], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    head = {"tidegate": {"const": VERSION}, "kind": {"const": kind}}
    said = f"At most {LONGEST[kind]:,} characters of text."
    return {"description": said, **_object_schema({**head, **fields}, optional)}


def _pattern_schema(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


def _whole_schema(least: int, largest: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": largest}


def _number_schema(largest: float, least: float) -> dict[str, Any]:
    return {"type": "number", "minimum": least, "maximum": largest}


def _name_schema() -> dict[str, Any]:
    return _pattern_schema(NAME.pattern)


def _common_schema() -> dict[str, Any]:
    return {
        "round": _name_schema(),
        "phase": {"enum": list(PHASES)},
        "epsilon": _pattern_schema(EXACT.pattern),
        "slot": _whole_schema(0, SLOTS - 1),
    }


def _announcement_schema() -> dict[str, Any]:
    bounds = {
        "lower": _pattern_schema(f"-(?:{EXACT.pattern})"),
        "bound": _pattern_schema(EXACT.pattern),
        "resolution": _pattern_schema(EXACT.pattern),
    }
    question = {"question": {"$ref": "#/$defs/question"}}
    return _message_schema("announcement", {**_common_schema(), **bounds, **question}, ("lower",))


def _tail_schema() -> dict[str, Any]:
    far = _number_schema(tail_question.LARGEST, 0)
    form = {"enum": [tail_question.ABOVE, tail_question.BELOW]}
    return _object_schema(
        {"form": form, "level": far, "dither": far, "lie": _whole_schema(1, WORDS // 2)}
    )


def _value_schema() -> dict[str, Any]:
    row = {"type": "array", "minItems": 1, "items": _whole_schema(1, WORDS)}
    outputs = {
        "type": "array",
        "minItems": 1,
        "items": _number_schema(value_question.LARGEST, -value_question.LARGEST),
    }
    fields = {
        "form": {"const": ValueQuestion.form},
        "lowest": _whole_schema(-_MOST_WHOLE, -1),
        "threshold": _whole_schema(1, _MOST_WHOLE),
        "weights": {"type": "array", "minItems": 2, "items": row},
        "outputs": outputs,
    }
    cells = f"Rows times columns: at most {value_question.MOST_CELLS:,}; all rows have one total."
    return {"description": cells, **_object_schema(fields, ("lowest",))}


def _wave_schema() -> dict[str, Any]:
    return _object_schema(
        {
            "form": {"const": WaveQuestion.form},
            "top": _whole_schema(1, wave_question.MOST_STEPS),
            "bins": _whole_schema(1, wave_question.MOST_BINS),
            "half": _whole_schema(0, wave_question.MOST_BINS),
            "high": _whole_schema(1, WORDS),
            "low": _whole_schema(1, WORDS),
        }
    )


def _report_schema() -> dict[str, Any]:
    return _message_schema(
        "report",
        {**_common_schema(), "client": _name_schema(), "report": _whole_schema(0, WORDS - 1)},
    )


def _round_schema() -> dict[str, Any]:
    time = {"type": "string", "maxLength": 64}
    times = {"opens": time, "closes": time, "accepted_until": time}
    return _message_schema("round", {"task": _name_schema(), "round": _name_schema(), **times})


def _outcomes_schema() -> dict[str, Any]:
    row = _object_schema(
        {
            "report_id": {"oneOf": [_name_schema(), {"type": "null"}]},
            "outcome": {"enum": ["accepted", *REASONS]},
        }
    )
    rows = {"type": "array", "maxItems": MOST_OUTCOMES, "items": row}
    return _message_schema("outcomes", {"outcomes": rows})


def _shuffled_schema() -> dict[str, Any]:
    slots = {"type": "array", "items": _whole_schema(0, SLOTS - 1)}
    reports = {"type": "array", "items": _whole_schema(0, WORDS - 1)}
    return _object_schema({"round": _name_schema(), "slots": slots, "reports": reports})
