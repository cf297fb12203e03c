"""`veristream root-key` as an operator uses it, while the service runs and after it was started again."""

import secrets
from pathlib import Path

from aiohttp import ClientSession

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.adapters.security.crypto import load_root_key
from tests.documentation import marked
from tests.journeys.service import Service, begin_deployment, make_tenant, running_service, veristream_json
from tests.journeys.service import run_preloaded as run
from tests.journeys.test_documentation import run as run_block

BOTH, ONE = 2, 1
"""Lines of the file during a rotation, and otherwise."""

AUDIT = "/v1/audit?limit=1"

ENDPOINT = {
    "url": "https://receiver.example/hooks",
    "event_types": ["verification.approved"],
    "secret": "whsec_" + "c2VjcmV0" * 5,
}


def keys_in(folder: Path) -> int:
    """How many root keys lie in the folder."""
    return len((folder / ROOT_KEY_FILE).read_text().split())


async def next_cursor(service: Service) -> str:
    """The cursor behind the first row of the audit log."""
    _, page = await service.get(AUDIT, key=service.live_key)
    return str(page["next_cursor"])


async def register(client: ClientSession, url: str, key: str) -> int:
    """Register an endpoint, whose secret gets a data key of its own; returns the status."""
    asked = client.post(
        f"{url}/v1/webhooks/endpoints", json=ENDPOINT, headers={"Authorization": f"Bearer {key}"}
    )
    async with asked as answer:
        return answer.status


async def test_the_root_key_is_rotated_and_the_old_one_removed_while_the_service_runs(tmp_path: Path) -> None:
    """The running process takes up the new key by itself; keys of tenants stay good through all of it."""
    async with running_service(tmp_path, preloaded=True) as service:
        assert await register(service.client, service.url, service.live_key) == 201
        before = load_root_key(None, tmp_path / ROOT_KEY_FILE)
        cursor = await next_cursor(service)
        rotated = await veristream_json(tmp_path, "root-key", "rotate")
        assert (await service.get(f"{AUDIT}&cursor={cursor}", key=service.live_key))[0] == 200
        assert (await next_cursor(service)).startswith(f"{rotated['current']}.")
        assert (rotated["rewrapped"] >= 1, keys_in(tmp_path)) == (True, BOTH)

        assert await register(service.client, service.url, service.test_key) == 201
        shown = await veristream_json(tmp_path, "root-key", "status")
        assert shown["data_keys"] == {rotated["current"]: rotated["rewrapped"] + 1, rotated["replaced"]: 0}

        removed = await veristream_json(tmp_path, "root-key", "remove")
        assert (removed["removed"], keys_in(tmp_path)) == (rotated["replaced"], ONE)
        assert load_root_key(None, tmp_path / ROOT_KEY_FILE) != before
        status, refused = await service.get(f"{AUDIT}&cursor={cursor}", key=service.live_key)
        assert (status, "under a key that was removed" in refused["detail"]) == (400, True)
    async with running_service(tmp_path, preloaded=True) as again:
        status, _ = await again.get("/v1/webhooks/endpoints", key=service.live_key)
        assert status == 200
        assert await register(again.client, again.url, service.live_key) == 201
    status, _, said = await run(tmp_path, "audit", "verify")
    assert status == 0, said


async def test_a_rotation_is_refused_until_the_one_before_is_complete(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    await make_tenant(tmp_path)
    nothing, _, said_nothing = await run(tmp_path, "root-key", "remove")
    await veristream_json(tmp_path, "root-key", "rotate")
    twice, _, said_twice = await run(tmp_path, "root-key", "rotate")

    assert (nothing, "no old root key" in said_nothing) == (2, True)
    assert (twice, "veristream root-key remove" in said_twice, keys_in(tmp_path)) == (2, True, BOTH)


async def test_the_old_key_alone_is_a_refused_start_that_names_the_fix(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    await make_tenant(tmp_path)
    old = (tmp_path / ROOT_KEY_FILE).read_text()
    rotated = await veristream_json(tmp_path, "root-key", "rotate")
    (tmp_path / ROOT_KEY_FILE).write_text(old)

    status, _, said = await run(tmp_path, "tenant", "list")

    assert status == 2
    assert rotated["current"] in said
    assert "SERVICE_ROOT_KEY_FILE" in said


async def test_a_configured_key_is_followed_by_the_one_given_behind_it(tmp_path: Path) -> None:
    first, second = secrets.token_hex(32), secrets.token_hex(32)
    alone, both, after = ({"SERVICE_ROOT_KEY": text} for text in (first, f"{first}\n{second}", second))
    begin_deployment(tmp_path, alone)
    await veristream_json(tmp_path, "tenant", "create", "Acme", given=alone)
    status, _, said = await run(tmp_path, "root-key", "rotate", given=alone)
    assert (status, "openssl rand -base64 32" in said) == (2, True)

    rotated = await veristream_json(tmp_path, "root-key", "rotate", given=both)
    removed = await veristream_json(tmp_path, "root-key", "remove", given=both)

    assert removed["removed"] == rotated["replaced"]
    assert len(await veristream_json(tmp_path, "tenant", "list", given=after)) == 1
    assert not (tmp_path / ROOT_KEY_FILE).exists()


async def test_a_backup_after_a_rotation_fits_the_new_key_and_verifies(tmp_path: Path) -> None:
    begin_deployment(tmp_path / "service")
    await make_tenant(tmp_path / "service")
    await run(tmp_path / "service", "backup", "create", str(tmp_path / "before"))
    await veristream_json(tmp_path / "service", "root-key", "rotate")
    _, shown, _ = await run(tmp_path / "service", "root-key", "status")
    removed = await veristream_json(tmp_path / "service", "root-key", "remove")

    status, _, said = await run(tmp_path / "service", "backup", "create", str(tmp_path / "copy"))
    verified = await veristream_json(tmp_path / "service", "backup", "verify", str(tmp_path / "copy"))
    refused, other, _ = await run(tmp_path / "service", "backup", "verify", str(tmp_path / "before"))

    assert status == 0, said
    assert (verified["ok"], verified["root_key_checked"]) == (True, True)
    assert (refused, "is another one" in other, "fits" in other) == (1, True, False)
    assert f"{removed['removed']}: 0" in shown


async def test_the_documented_rotation_runs_as_it_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / "veristream-data"
    begin_deployment(folder)
    before = load_root_key(None, folder / ROOT_KEY_FILE)

    status, out, err = await run_block(tmp_path, marked("root key").text)

    assert status == 0, out + err
    assert (load_root_key(None, folder / ROOT_KEY_FILE) != before, keys_in(folder)) == (True, ONE)
