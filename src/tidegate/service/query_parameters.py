"""What can be asked of a stream: the parameters of questions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

LARGEST = 1 << 62  # a place in a stream
MOST_ROWS = 100_000  # in an answer
_Text = Annotated[str | None, Field(max_length=200)]


class Question(BaseModel):
    """What all questions have: a range of time, and keys."""

    model_config = ConfigDict(extra="forbid")

    from_: _Text = Field(None, alias="from", description="A time; rows from there on.")
    to: _Text = Field(None, description="A time; rows before it.")
    key: _Text = Field(None, description="One key.")
    keys: str | None = Field(None, max_length=100_000, description="Keys, with commas between.")

    def given(self) -> dict[str, Any]:
        """What was asked for, by the names in the address."""
        return self.model_dump(by_alias=True, exclude_none=True)


class RowsQuestion(Question):
    """Released rows."""

    start: int = Field(0, ge=0, le=LARGEST, description="The place of the first row.")
    limit: int = Field(1000, ge=0, le=MOST_ROWS)


class SumQuestion(Question):
    """A sum, a count and a mean."""

    start: int | None = Field(None, ge=0, le=LARGEST, description="A position.")
    end: int | None = Field(None, ge=0, le=LARGEST, description="A position.")
    confidence: float = Field(0.95, gt=0, lt=1)


class TableQuestion(Question):
    """Sums, means and rates, part by part."""

    every: str = Field("1d", max_length=18, description="15min, 1h, 1d, 1w; or a number of rows.")
    total: bool = Field(False, description="Of all keys together.")
    confidence: float = Field(0.95, gt=0, lt=1)


AskedRows = Annotated[RowsQuestion, Query()]
AskedSum = Annotated[SumQuestion, Query()]
AskedTable = Annotated[TableQuestion, Query()]
