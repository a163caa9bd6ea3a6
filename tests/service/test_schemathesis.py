"""Requests that the description of the interface allows, and some that it does not.

Never a 5xx, and every answer is as it is described.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.depth import depth
from tests.service.conftest import Place, served

schemathesis = pytest.importorskip("schemathesis", reason="needs the extra [test]")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")

EXAMPLES = int(os.environ.get("TIDEGATE_SCHEMATHESIS", depth("1", "2")))  # a route; heavy: 200
LIMITS = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
DESCRIBED = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


def test_no_request_is_answered_with_a_fault(tmp_path: Path) -> None:
    service = Place(tmp_path / "gate", None).opened()
    roles = ("admin", "producer", "device", "shuffler")
    tokens = {role: service.make_token(role, role) for role in roles}
    answers: dict[str, set[int]] = {}

    def asks(operation: Any) -> Any:
        @LIMITS
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            for role in roles[:1] if case.method == "GET" else roles:
                answer = case.call(headers={"Authorization": f"Bearer {tokens[role]}"}, timeout=60)
                case.validate_response(answer, checks=DESCRIBED)
                place = f"{operation.method} {operation.path}"
                answers.setdefault(place, set()).add(answer.status_code)

        return ask

    with served(service) as address:
        description = schemathesis.openapi.from_url(f"{address}/v1/openapi.json")
        for found in description.get_all_operations():
            operation = found.ok()
            if not operation.path.endswith("/live"):  # answers for ever
                asks(operation)()
    assert len(answers) >= 20
    assert {place: found for place, found in answers.items() if max(found) >= 500} == {}
