"""A subject is erased while the service runs: nothing of it is readable in any file of the data folder."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.people import Person, sign_in
from tests.journeys.service import Service, hopper, request_for, running_service, veristream_json

CANARIES = (b"CANARYSURNAME", b"1931-04-09", b"ERIKSSON")
"""Declared by the tenant, and read on the document."""

SUBJECT = "customer-erased"
DECLARED: Any = {"extracted_fields": {"surname": "CANARYSURNAME", "date_of_birth": "1931-04-09"}}


async def executed(owner: Person) -> dict[str, Any]:
    """The proof, as soon as the erasure was carried out and its row is in the chain."""
    while True:
        status, proof = await owner.ask("GET", f"/v1/subjects/{SUBJECT}/erasure")
        assert status == 200, proof
        if "chain" in proof:
            return dict(proof)
        await asyncio.sleep(0.1)


def files(folder: Path) -> dict[Path, bytes]:
    """Every file of the folder with its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def chain_is_whole(service: Service) -> bool:
    """Whether the audit chain verifies."""
    arguments = ("audit", "verify", "--tenant", service.tenant_id)
    report = await veristream_json(service.data_dir, *arguments)
    return all(chain["ok"] for chain in report["chains"])


async def test_an_erased_subject_leaves_nothing_readable_behind(tmp_path: Path) -> None:
    async with running_service(tmp_path, preloaded=True) as service:
        body = request_for(hopper(), subject_id=SUBJECT, **DECLARED)
        status, decided, _ = await service.post(body)
        assert status == 201, decided
        assert decided["document"]["extracted_fields"]["surname"] == "ERIKSSON"
        command = partial(veristream_json, service.data_dir)
        owner = await sign_in(service.client, service.url, command, service.tenant_id)
        asked = await owner.ask("POST", f"/v1/subjects/{SUBJECT}/erase", json={"reason": "asked"})
        proof = await asyncio.wait_for(executed(owner), 180)
        _, shown = await service.get(f"/v1/verifications/{decided['verification_id']}", key=service.test_key)
        again, refused, _ = await service.post(body)
        whole = await chain_is_whole(service)
        left = await asyncio.to_thread(files, tmp_path)

        erase = partial(command, "subject", "erase", "--tenant", service.tenant_id, "--reason", "asked")
        known = await erase(SUBJECT)
        with pytest.raises(AssertionError, match="no such subject"):
            await erase("nobody")

    assert known == {"erasure_id": proof["erasure_id"], "status": "EXECUTED"}
    assert (asked[0], proof["status"], proof["requested_by"]) == (202, "EXECUTED", owner.reviewer_id)
    assert proof["removed"]["verifications"] == 1
    assert {one["retention_policy"] for one in shown["evidence"]} == {"REDACTED"}
    assert shown["document"]["extracted_fields"] == {}
    assert shown["decision"] == decided["decision"]
    assert (again, refused["code"], whole) == (422, "VALIDATION_FAILED", True)
    found = [(path.name, canary) for path, raw in left.items() for canary in CANARIES if canary in raw]
    assert found == []
    assert [path for path in left if decided["evidence"][0]["id"] in path.name] == []
