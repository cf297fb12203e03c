"""Every route under generated requests, good and bad: no 5xx, no undescribed status, no body of another form.

The description that is served is the tester's only knowledge; the requests are schemathesis's.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.http.support import BASE_URL

EXAMPLES = int(os.environ.get("DESCRIBED_EXAMPLES", "10"))
"""Requests of each kind to each operation; the same ones each time, more by the variable."""

ANSWER_S = 120
"""A bound for what hangs; schemathesis's own is 10 s, which a busy machine may need for an answer."""

SHARES = 4
"""Tests among which the operations are shared; one for all took 13 of its 15 minutes on a busy machine."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@dataclass(frozen=True)
class Served:
    """Where the front is, and the credentials of each scheme of the description."""

    url: str
    bearers: dict[str, dict[str, str]]
    cookies: Iterator[str]
    """Each operation has a session of its own: it may end it."""

    def headers_for(self, operation: Any) -> dict[str, str]:
        """Return the headers that open the operation."""
        schemes = [name for scheme in operation.definition.raw.get("security", []) for name in scheme]
        if "reviewerSession" in schemes:
            return {"Cookie": f"service_session={next(self.cookies)}", "Origin": BASE_URL}
        return dict(self.bearers[schemes[0]]) if schemes else {}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A front in a process of its own."""
    command = [sys.executable, "-m", "tests.http.serving"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own program
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            bearers = {
                "tenantKey": {"Authorization": f"Bearer {said['key']}"},
                "operatorToken": {"Authorization": f"Bearer {said['operator']}"},
                "captureToken": {"Authorization": f"Bearer {said['capture']}"},
            }
            yield Served(said["url"], bearers, iter(said["cookies"]))
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def description(served: Served) -> Any:
    """The description as it is served."""
    address, bearer = f"{served.url}/v1/openapi.json", served.bearers["tenantKey"]
    read = schemathesis.openapi.from_url(address, headers=bearer, timeout=ANSWER_S)
    read.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    read.config.base_url = served.url
    read.config.request_timeout = ANSWER_S
    return read


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("mode", GenerationMode)
def test_every_answer_is_one_the_description_promises(
    served: Served, description: Any, mode: GenerationMode, share: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "urllib3")
    operations = [found.ok() for found in description.get_all_operations()]
    asked = operations[share::SHARES]

    broken = {operation.label: failure for operation in asked if (failure := tried(served, operation, mode))}

    assert len(operations) > 40
    assert broken == {}


def tried(served: Served, operation: Any, mode: GenerationMode) -> str | None:
    """Ask an operation in generated ways; the first answer that breaks a promise."""
    headers = served.headers_for(operation)

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.validate_response(case.call(headers=headers), checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:  # an operation without parameters has no bad request
        return None
    except (Failure, FailureGroup) as failure:
        return str(failure)
    return None
