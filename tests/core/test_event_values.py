"""Events are summed or counted: a push that says otherwise is refused, whatever its values are."""

import pytest

import tidegate as tg
from tidegate.errors import InputError

TIMES = ["2024-02-01T00:03", "2024-02-01T00:20"]


def made(bound=None, **more):
    return tg.events(1, bound, every="15min", start="2024-02-01", horizon=96, **more)


@pytest.mark.parametrize("settings", [{}, {"fixed": True}, {"bound": 1}])
def test_a_stream_of_sums_needs_values(settings) -> None:
    pipeline = made(**{"bound": 200, **settings})
    with pytest.raises(InputError, match=r"sums the values of events: push\(times, values\)"):
        pipeline.start().push(TIMES)
    with pytest.raises(InputError, match="sums the values"):
        tg.keyed(pipeline, keys=["a"]).start().push(["a", "a"], TIMES)


def test_a_stream_of_counts_takes_no_values() -> None:
    release, keyed = made().start(), tg.keyed(made(), keys=["a"]).start()
    for values in ([14.5, 3.0], [1, 1]):  # no value decides about the refusal
        with pytest.raises(InputError, match="counts events"):
            release.push(TIMES, values)
        with pytest.raises(InputError, match="counts events"):
            keyed.push(["a", "a"], TIMES, values)
    release.push(TIMES)
    assert release.seen == 2


def test_means_take_both() -> None:
    means = tg.event_means(1, 200, every="15min", start="2024-02-01", horizon=96).start()
    means.push(TIMES, [14.5, 3.0])
    assert means.counts.seen == means.sums.seen == 2
