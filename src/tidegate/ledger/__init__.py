"""The budget ledger: what each source was charged, when, and how much of a cap is left.

    charge → cap checked → line appended → fsync ║ only now: release

An append-only file of charges, chained by hashes and verified whenever it is opened. Budget
belongs to the source: charges on the same positions of a source add up, charges on disjoint
ranges do not. A source has spent the maximum over positions of the sum.

>>> import tempfile
>>> from fractions import Fraction
>>> from tidegate.guarantee import Guarantee
>>> tenth = Guarantee(epsilon=Fraction(1, 10))
>>> with tempfile.TemporaryDirectory() as folder:
...     with Ledger.open(f"{folder}/budget.ledger", cap=0.15) as ledger:
...         charge = dict(source="meters", epoch="5f1c", guarantee=tenth)
...         _ = ledger.charge(**charge, stage="threshold", start=0, end=65536)
...         _ = ledger.charge(**charge, stage="stream", start=65536)
...         print(ledger.total("meters"), "|", ledger.left("meters"))
...         _ = ledger.charge(**charge, stage="stream", start=70000)
Traceback (most recent call last):
    ...
tidegate.ledger.errors.CapExceeded: meters: with this charge of ε = 0.1 the total would be 0.2, ...

What it guarantees, what it does not: see `Ledger`. POSIX only (it locks with `flock`).
"""

from tidegate.ledger.composition import ChargedRange
from tidegate.ledger.entries import (
    CapChange,
    Charge,
    Closing,
    Declaration,
    Entry,
    Note,
    Opening,
)
from tidegate.ledger.errors import CapExceeded, LedgerError
from tidegate.ledger.ledger import Ledger

__all__ = [
    "CapChange",
    "CapExceeded",
    "Charge",
    "ChargedRange",
    "Closing",
    "Declaration",
    "Entry",
    "Ledger",
    "LedgerError",
    "Note",
    "Opening",
]
