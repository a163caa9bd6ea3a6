"""Ten thousand keyed streams: memory, and how long a restart takes."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.service.serving import ARROW, Server, arrow_body, measured, told


def keys(server: Server, count: int = 10_000) -> None:
    for method, settings in (("tops", {"holdout": 64}), ("adaptive", {"horizon": 4096})):
        name = f"keys-{method}"
        before = server.memory
        server.create(name, method=method, keys="public", settings=settings)
        names = [f"meter-{number}" for number in range(count)]
        random = np.random.default_rng(5)
        for turn in range(3):
            values = random.gamma(2, 10, 10 * count)
            body = arrow_body(values, key=names * 10)
            with measured(
                server, f"{count:,} keys of {method}, tick {turn}", values.size, "values"
            ):
                server.ask(
                    "producer", "POST", f"/v1/streams/{name}/values", content=body, headers=ARROW
                )
        more = server.memory - before
        print(f"{count:,} keys of {method}: {more:.0f} MB more, {server.memory:.0f} MB in all")
        server.stop()
        took = server.start()
        begin = time.perf_counter()
        facts = server.ask("reader", "GET", f"/v1/streams/{name}").json()
        more = time.perf_counter() - begin
        print(f"restart: ready in {took:.2f} s, {facts['keys']:,} keys in {more:.2f} s more")
        told(f"MB with {count:,} keys of {method}", server.memory, 1000, at_most=True)
        told(f"s until {count:,} keys of {method} answer", took + more, 5, at_most=True)
