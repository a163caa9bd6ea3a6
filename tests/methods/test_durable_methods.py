"""Every registered method on the disk: cut short, resumed, read back, asked."""

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import stream
from tidegate import methods
from tidegate.durable import DurableRelease
from tidegate.ledger import Ledger
from tidegate.methods._registration import EXAMPLE

NEW = ("binary_tree", "budget_distribution", "fast", "flat", "square_root")


@pytest.mark.parametrize("name", NEW)
def test_a_resumed_release_goes_on_and_its_journal_says_what_was_published(name, tmp_path):
    pipeline = methods.find(name).made()
    values = stream(400)
    published = []
    for part in np.array_split(values, 3):
        with DurableRelease.open(tmp_path / "state", pipeline) as run:  # a new run each time
            published.append(run.push(part)[1])
    with DurableRelease.open(tmp_path / "state", pipeline) as run:
        journal = np.concatenate([numbers for _, numbers in run.replay()])
        answer = run.query(10, 300)
    out = np.concatenate(published)
    np.testing.assert_array_equal(journal, out)
    assert answer.low < answer.estimate < answer.high
    if pipeline.perturber.irregular or pipeline.perturber.block == 1:
        assert answer.estimate == pytest.approx(out[10:300].sum())
    assert run.guarantee.epsilon == pipeline.guarantee.epsilon


@pytest.mark.parametrize("name", NEW)
def test_the_ledger_is_charged_what_is_promised(name, tmp_path):
    """Once, and twice as much for a second epoch; a window may lie across hold-out and stream."""
    method = methods.find(name)
    pipelines = [method.made()]
    if "holdout" in method.arguments():
        pipelines.append(method.preset(**{**EXAMPLE, **method.example, "holdout": 37}))
    for number, pipeline in enumerate(pipelines):
        folder = tmp_path / str(number)
        for epochs in (1, 2):
            with DurableRelease.open(folder, pipeline, new_epoch=epochs == 2) as run:
                run.push(stream(60))
            with Ledger.open(folder / "ledger.jsonl", read_only=True) as ledger:
                total = ledger.total()
            expected = tg.sequential(*[pipeline.guarantee] * epochs)
            assert (total.unit, total.rho) == (expected.unit, expected.rho)
            assert total.epsilon == pytest.approx(expected.epsilon, rel=1e-12)
            assert total.delta == expected.delta


@pytest.mark.parametrize("name", NEW)
def test_a_stored_record_and_a_long_history(name):
    """History is forgotten block by block, and what is left answers as before."""
    pipeline = methods.find(name).made()
    release = pipeline.start(tg.seeded(1))
    release.push(stream(1500))
    first = release.record.start
    assert first >= 1500 - 37 - 17 * 64  # 16 horizons of 60, in whole blocks
    stored = tg.load_record(release.save_record())
    ends = np.arange(first + 1, release.position, 97)
    one, two = (which.queries(np.full_like(ends, first), ends) for which in (release, stored))
    for column in ("estimate", "low", "high"):
        np.testing.assert_array_equal(getattr(one, column), getattr(two, column))
