"""`veristream subject export` on a data folder: a ZIP for its owner alone, audited, and never over a file."""

import json
import zipfile
from pathlib import Path

from tests.contracts.test_upgrades import ARCHIVES, unpack
from tests.journeys.service import entries, run_preloaded, veristream_json

SUBJECT = "sim:approved@amina"
"""A subject of the demonstration that the archive holds."""


async def test_a_subject_is_exported_once_and_audited(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "amina.zip"
    unpack(ARCHIVES[0], folder)
    access = json.loads((folder / "demo" / "access.json").read_text())
    words = ("subject", "export", SUBJECT, str(file), "--tenant", access["bank"]["tenant_id"])

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
