"""Where is it? Somebody who knows the field and not this code opens the right file at the first try.

A row is what a reader looks for, the file they open, and the name or text that stands there.
"""

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

PLACES: Final = (
    ("limits sign-in attempts", "streams/sign_in/attempt_limits.py", "TooManyAttempts"),
    ("hashes passwords", "app/adapters/security/passwords.py", "Argon2Passwords"),
    ("turns errors into problem+json", "app/http/problems.py", "application/problem+json"),
    ("reads TD3 lines", "streams/verification/readers/td3_mrz.py", "read_td3"),
    ("decides from check results", "streams/verification/rules.py", "decide"),
    ("batches SQLite commits", "app/adapters/sqlite/batching.py", "BatchJob"),
    ("writes the audit chain in Cassandra", "app/adapters/cassandra/audit_chain.py", "UPDATE audit_heads"),
    ("signs webhooks", "streams/webhooks/signing.py", "signatures"),
    ("blocks private addresses", "streams/webhooks/addresses.py", "is_public"),
    ("retries a failed delivery", "streams/webhooks/scheduler.py", "DeliveryScheduler"),
    ("creates Kafka topics", "streams/runtime/topics.py", "ensure_topics"),
    ("fixes Faust's consumer", "streams/runtime/consumer.py", "PatchedConsumer"),
    ("catches handler errors", "streams/runtime/guard.py", "Guard"),
    ("waits for a command's answer", "app/kafka/request_reply.py", "RequestReply"),
    ("stores evidence files", "app/adapters/files/blobs.py", "BlobFiles"),
    ("wraps subject keys", "app/adapters/security/keyring.py", "KeyRing"),
    ("starts everything in one process", "app/composition/wiring.py", "running_all"),
    ("makes `veristream key create`", "app/cli/tenants.py", '@keys.command("create")'),
    ("reads settings", "app/settings.py", "Settings"),
    ("detects faces", "app/vision/faces/mmod.py", "MmodDetector"),
    ("decodes images safely", "app/vision/images.py", "decode"),
    ("plays sandbox scenarios", "streams/verification/sandbox.py", "simulate"),
    ("checks one-time codes", "streams/sign_in/totp.py", "accepted_step"),
    ("lists roles and permissions", "schemas/people.py", "Permission"),
    ("signs page cursors", "app/http/cursors.py", "Cursors"),
    ("writes the OpenAPI description", "app/http/openapi.py", "describe"),
    ("defines the request bodies of flows", "app/http/routes/flows/bodies.py", "CreateFlowBody"),
    ("publishes events left over after a crash", "streams/runtime/outbox_relay.py", "OutboxRelay"),
    ("checks invariants", "app/doctor/invariants/check.py", "examine_invariants"),
    ("draws the demo passport", "app/demo/specimens.py", "draw_passport"),
    ("refuses duplicate members of a JSON object", "app/http/strict_json.py", "parse"),
    ("confines the children that decode images", "app/vision/seccomp.py", "confine"),
    ("shares rate limits between fronts", "app/http/rate_limit_sharing.py", "LimitSharing"),
    ("sends dead letters again", "streams/runtime/dead_letters.py", "redrive"),
    ("authenticates records in the log", "streams/runtime/authentication.py", "RecordKeys"),
    ("balances a consumer group of the embedded broker", "app/broker/groups.py", "Group"),
    ("compacts a log segment", "app/broker/compaction.py", "compact"),
    (
        "re-creates deliveries whose fan-out died half-way",
        "streams/webhooks/fanout_recovery.py",
        "FanOutRecovery",
    ),
    ("refuses work when the queue is too long", "app/intake/admission.py", "Admission"),
    ("finds a face among earlier subjects", "app/adapters/faces/search.py", "InMemoryFaceSearch"),
)


def defined(source: str) -> set[str]:
    """Return the names of the functions, classes and methods a module defines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)}


@pytest.mark.parametrize(("path", "what"), [pytest.param(path, what, id=said) for said, path, what in PLACES])
def test_what_a_reader_looks_for_is_in_the_file_they_open(path: str, what: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")

    assert what in (defined(source) if what.isidentifier() else source)


def test_forty_places_are_looked_for_each_in_a_file_of_its_own() -> None:
    assert len({path for _, path, _ in PLACES}) == len({said for said, _, _ in PLACES}) == 40


def test_a_name_that_is_only_used_is_not_defined() -> None:
    assert defined("from a import used\n\n\nclass Made:\n    def method(self): used()") == {"Made", "method"}
