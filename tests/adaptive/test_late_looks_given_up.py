"""Late looks: earlier answers know nothing of the bit; counts that none reads are erased."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_late_looks import PIPELINE, late, shares
from tidegate.run.refinement_run import RefinementRun
from tidegate.stages import FAR_SHARE
from tidegate.stages.late_looks import is_look


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_earlier_answers_do_not_know_what_was_found_later(seed: int) -> None:
    """Before the bit, in the window that follows, and after it: `as_of` is what was answered."""
    values, release = late(600, large=True), PIPELINE.start(tg.seeded(seed))
    places, done, answered = range(300, 600, 23), 0, []
    for place in places:
        release.push(values[done:place])
        done = place
        answered.append([release.query(0, place), release.query(100, 250)])
    release.push(values[done:])
    assert FAR_SHARE in [paid for _, paid in shares(release)]
    for place, before in zip(places, answered, strict=True):
        assert before == [release.query(*ends, as_of=place) for ends in ((0, place), (100, 250))]


def test_counts_of_a_look_that_a_full_cap_ends_are_erased() -> None:
    release = PIPELINE.start(tg.seeded(5))
    values = late(600, large=False)
    release.push(values[:300])
    run = release._run
    assert isinstance(run, RefinementRun)
    window = run.open_blocks.window
    assert window is not None
    assert is_look(window.share)
    assert window.state()["counts"].any()
    release.push(np.full(100, 90_000))
    assert run.open_blocks.window is not window
    assert not window.state()["counts"].any()
