"""Questions from messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import SettingError
from tidegate.local.questions.question import Question
from tidegate.local.questions.tail import TailQuestion
from tidegate.local.questions.value import ValueQuestion
from tidegate.local.questions.wave import WaveQuestion

_FORMS = {form.form: form for form in (TailQuestion, ValueQuestion, WaveQuestion)}


def question_from_plain(plain: object) -> Question:
    """The question that `plain()` was taken of; refuses anything malformed by name."""
    if not isinstance(plain, Mapping):
        raise SettingError("question", "must be an object")
    read: Mapping[str, Any] = plain
    form = read.get("form")
    if not isinstance(form, str) or form not in _FORMS:
        raise SettingError("question", f"its form must be one of {', '.join(sorted(_FORMS))}")
    return _FORMS[form].from_plain(read)
