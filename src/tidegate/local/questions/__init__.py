"""The questions to devices and how devices answer: all of the local model's randomness.

| question | what the device reports | used for |
|---|---|---|
| `ValueQuestion` | a column of a table of weights, unbiased for its value cut at θ | the stream |
| `TailQuestion` | one bit: is the (dithered) value above a level? | the default choice of θ |
| `WaveQuestion` | a cell of the square wave around its value | the paper's choice of θ |

A question is public data. An answer is a function of the value (in whole steps of the resolution)
and of uniform 32-bit words, the same function here and in `clients/js`: integers decide which
report is drawn, and `check(epsilon)` proves from the integer weights alone that it costs at most ε.
Floats only decide which rows of a table are mixed, which is accuracy and never privacy.
"""

from __future__ import annotations

from tidegate.local.questions.question import Question, Words
from tidegate.local.questions.tail_question import TailQuestion
from tidegate.local.questions.value_question import ValueQuestion
from tidegate.local.questions.wave_question import WaveQuestion

__all__ = [
    "Question",
    "TailQuestion",
    "ValueQuestion",
    "WaveQuestion",
    "Words",
]
