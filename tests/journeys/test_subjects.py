"""A subject is exported to a file for its owner alone, and erased so that nothing of it can be read."""

import asyncio
import json
import zipfile
from functools import partial
from pathlib import Path

import pytest

from tests.contracts.test_upgrades import ARCHIVES, unpack
from tests.journeys.erasing import CANARIES, SUBJECT, erased, request_of_canaries, send_canaries
from tests.journeys.people import sign_in
from tests.journeys.service import Service, entries, run_preloaded, running_service, veristream_json

EXPORTED = "sim:approved@amina"
"""A subject of the demonstration that the archive holds."""


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
        decided = await send_canaries(service)
        command = partial(veristream_json, service.data_dir)
        owner = await sign_in(service.client, service.url, command, service.tenant_id)
        asked, proof = await erased(owner)
        _, shown = await service.get(f"/v1/verifications/{decided['verification_id']}", key=service.test_key)
        again, refused, _ = await service.post(request_of_canaries())
        whole = await chain_is_whole(service)
        left = await asyncio.to_thread(files, tmp_path)

        erase = partial(command, "subject", "erase", "--tenant", service.tenant_id, "--reason", "asked")
        known = await erase(SUBJECT)
        with pytest.raises(AssertionError, match="no such subject"):
            await erase("nobody")

    assert known == {"erasure_id": proof["erasure_id"], "status": "EXECUTED"}
    assert (asked, proof["status"], proof["requested_by"]) == (202, "EXECUTED", owner.reviewer_id)
    assert (proof["removed"]["verifications"], proof["removed"]["transactions"]) == (1, 1)
    assert {one["retention_policy"] for one in shown["evidence"]} == {"REDACTED"}
    assert shown["document"]["extracted_fields"] == {}
    assert shown["decision"] == decided["decision"]
    assert (again, refused["code"], whole) == (422, "VALIDATION_FAILED", True)
    found = [(path.name, canary) for path, raw in left.items() for canary in CANARIES if canary in raw]
    assert found == []
    assert [path for path in left if decided["evidence"][0]["id"] in path.name] == []


async def test_a_subject_is_exported_once_and_audited(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "amina.zip"
    unpack(ARCHIVES[0], folder)
    access = json.loads((folder / "demo" / "access.json").read_text())
    words = ("subject", "export", EXPORTED, str(file), "--tenant", access["bank"]["tenant_id"])

    made = await veristream_json(folder, *words)
    again, _, said = await run_preloaded(folder, *words)

    assert (made["bytes"], file.stat().st_size) == (file.stat().st_size, made["bytes"])
    assert file.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(file) as archive:
        rows = [json.loads(line) for line in archive.read("audit.jsonl").splitlines()]
        assert archive.testzip() is None
    assert [row["actor_id"] for row in rows if row["action"] == "privacy.exported"] == ["operator"]
    assert (again, "is there already" in said) == (2, True)
    assert entries(tmp_path) == ["amina.zip", "data"]


async def test_an_unknown_subject_leaves_no_file(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "nobody.zip"
    unpack(ARCHIVES[0], folder)
    access = json.loads((folder / "demo" / "access.json").read_text())

    status, _, said = await run_preloaded(
        folder, "subject", "export", "nobody", str(file), "--tenant", access["bank"]["tenant_id"]
    )

    assert (status, "has no subject nobody" in said, entries(tmp_path)) == (2, True, ["data"])
