"""Values in: single ones, and Arrow batches."""

from __future__ import annotations

import asyncio

import numpy as np

from benchmarks.service.serving import ARROW, Server, arrow_body, measured, raw_requests


def single(server: Server, count: int) -> None:
    server.create("single")
    bodies = [b"%d" % (number % 90) for number in range(count)]
    asyncio.run(raw_requests(server, "/v1/streams/single/values", bodies[:200], 8))
    for clients in (16, 128):
        most = 2500 if server.database else 3000
        target = most if clients == 128 else None
        with measured(server, f"single values, {clients} clients", count, "requests", target):
            statuses = asyncio.run(
                raw_requests(server, "/v1/streams/single/values", bodies, clients)
            )
        assert statuses == {202: count}, statuses


def arrow(server: Server, values: int) -> None:
    """Batches of several producers: what comes while a group is committed forms the next one."""
    random = np.random.default_rng(1)
    for method, settings in (("tops", {"horizon": 2**20}), ("adaptive", {"horizon": 2**20})):
        server.create(f"arrow-{method}", method=method, settings=settings)
        path, kind = f"/v1/streams/arrow-{method}/values", ARROW["Content-Type"]
        for size, clients in ((10_000, 1), (10_000, 8), (100_000, 8)):
            body = arrow_body(random.gamma(2, 10, size))
            asyncio.run(raw_requests(server, path, [body] * 10, clients, kind))
            what = f"Arrow, {method}, batches of {size:,}, producers: {clients}"
            with measured(server, what, values, "values", 2e6 if clients > 1 else None):
                found = asyncio.run(
                    raw_requests(server, path, [body] * (values // size), clients, kind)
                )
            assert found == {202: values // size}, found
