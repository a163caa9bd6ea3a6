"""Models of answers about the ledger, tokens and sessions: see `answer_models`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tidegate.service.answer_models import AnswerModel


class Spent(AnswerModel):
    """What each source has spent, and what is left of its cap."""

    entries: int
    head: str = Field(description="The hash of the last entry: of everything before it.")
    cap: str | None
    caps: dict[str, str]
    sources: dict[str, str]
    left: dict[str, str | None]


class LedgerEntry(AnswerModel):
    """An entry of the ledger; its fields depend on its kind."""

    sequence: int
    time: str
    hash: str
    kind: Literal["opening", "charge", "close", "cap", "declaration", "note"]
    note: str
    id: str | None = None
    source: str | None = None
    part: str | None = None
    stage: str | None = None
    start: int | None = None
    end: int | None = None
    guarantee: str | None = None
    epoch: str | None = None
    epsilon: str | None = None
    disjoint: bool | None = None
    charge: int | None = None


class Audit(AnswerModel):
    """Entries of the ledger, each with the hash of all before it."""

    entries: list[LedgerEntry]
    count: int
    head: str


class NamedCharge(AnswerModel):
    """The charge of one stream on a range."""

    sequence: int
    stream: str
    stage: str
    part: str | None
    epsilon: str


class RangeOfCharges(AnswerModel):
    """A range of rows, and what it has spent."""

    start: int
    end: int | None
    spent: str
    charges: list[NamedCharge]
    others: str = Field(description="ε of charges that are not named one by one.")


class SourceCharges(AnswerModel):
    """What each range of a source has spent."""

    source: str
    cap: str | None
    left: str | None
    spent: str
    ranges: list[RangeOfCharges]
    left_out: int


class SourceCap(AnswerModel):
    """The most that a source may spend."""

    source: str
    cap: str


class Session(AnswerModel):
    """The permissions of this request's token."""

    role: str | None
    may: list[str]


class MadeToken(AnswerModel):
    """A new token: it is shown once."""

    token: str
    role: str
    label: str


class ListedToken(AnswerModel):
    """The facts about a token, without the token."""

    role: str
    label: str
    created: str


class RevokedTokens(AnswerModel):
    """The number of revoked tokens."""

    removed: int
