"""The commands as a newcomer and an operator use them, their mistakes included."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from app.commands_people import name_from
from tests.journeys.service import Role, Service, running_service, veristream, veristream_json
from tests.vision import onnx_models

COMMANDS = (
    ("up",), ("demo",), ("broker",), ("front",), ("worker",), ("tenant", "create"), ("key", "create"),
    ("key", "revoke"), ("reviewer", "create"), ("reviewer", "reset"), ("catalog", "load"),
    ("doctor",), ("audit", "verify"), ("dlq", "list"), ("dlq", "redrive"),
    ("webhook", "listen"), ("webhook", "verify"),
    ("broker-user", "create"), ("broker-user", "list"), ("broker-user", "delete"),
)  # fmt: skip


async def plain(*arguments: str) -> tuple[int, str]:
    """Run a command that takes no data folder; exit status and output."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "app", *arguments)
    run = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await run.communicate()
    return run.returncode or 0, (out + err).decode()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_every_command_explains_itself_with_an_example(command: tuple[str, ...]) -> None:
    status, told = await plain(*command, "--help")

    assert status == 0
    assert f"veristream {' '.join(command)}" in told.split("Try:")[1]


async def test_the_demonstration_shows_an_approved_passport_twice_in_a_row(tmp_path: Path) -> None:
    for _ in range(2):
        status, out, err = await veristream(tmp_path, "demo", "--once", "--port", "0")

        assert status == 0, err
        assert "The decision: APPROVED / ALLOW" in out
        assert "verification.evaluated" in out
        assert "verification.completed" in out
        assert "Its webhook, verification.completed" in out
        assert "curl -s -X POST" in out


@pytest.mark.asyncio(loop_scope="session")
async def test_a_tenant_and_its_keys_are_made_while_the_service_runs(service: Service) -> None:
    tenant = await veristream_json(service.data_dir, "tenant", "create", "Initech")
    key = await veristream_json(
        service.data_dir, "key", "create", "--tenant", tenant["tenant_id"], "--scopes", "audit:read"
    )

    allowed, _ = await service.get("/v1/audit", key=key["api_key"])
    refused, problem = await service.get("/v1/verifications", key=key["api_key"])

    assert (allowed, refused, problem["code"]) == (200, 403, "PERMISSION_DENIED")


MEMBER = ("--email", "Ada.Obi@acme.example", "--name", "Ada Obi", "--role", "OWNER")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_member_made_while_the_service_runs_signs_in(service: Service) -> None:
    tenant = await veristream_json(service.data_dir, "tenant", "create", "Hooli")
    made = await veristream_json(
        service.data_dir, "reviewer", "create", "--tenant", tenant["tenant_id"], *MEMBER
    )

    credentials = {"email": "ada.obi@acme.example", "password": made["password"]}
    url = f"{service.url}/v1/control/sessions"
    async with service.client.post(url, json=credentials, headers={"Origin": service.url}) as answer:
        status, told = answer.status, await answer.json()

    assert (status, told["reviewer"]["id"], told["reviewer"]["role"]) == (201, made["reviewer_id"], "OWNER")


async def test_a_member_is_added_once_reset_with_a_token_and_removed(tmp_path: Path) -> None:
    tenant = (await veristream_json(tmp_path, "tenant", "create", "Acme"))["tenant_id"]
    made = await veristream_json(tmp_path, "reviewer", "create", "--tenant", tenant, *MEMBER)
    again, _, err = await veristream(tmp_path, "reviewer", "create", "--tenant", tenant, *MEMBER)
    reset = ("reviewer", "reset", "--tenant", tenant, "--email")
    token = await veristream_json(tmp_path, *reset, "ada.obi@ACME.example")
    nobody, _, mend = await veristream(tmp_path, *reset, "nobody@acme.example")
    remove = ("reviewer", "remove", "--tenant", tenant, "--email", "ada.obi@acme.example")
    removed = await veristream_json(tmp_path, *remove)
    anew = await veristream_json(tmp_path, "reviewer", "create", "--tenant", tenant, *MEMBER)

    assert (removed["reviewer_id"], anew["reviewer_id"] == made["reviewer_id"]) == (
        made["reviewer_id"],
        False,
    )
    assert (again, nobody, token["reviewer_id"]) == (2, 2, made["reviewer_id"])
    assert token["token"].startswith("idt_")
    assert f"of tenant {tenant}" in err
    assert "veristream reviewer reset" in err
    assert "veristream reviewer create" in mend


async def test_s28_no_two_members_get_the_same_password_and_none_is_a_default(tmp_path: Path) -> None:
    tenant = (await veristream_json(tmp_path, "tenant", "create", "Acme"))["tenant_id"]
    made = [
        await veristream_json(
            tmp_path,
            "reviewer",
            "create",
            "--tenant",
            tenant,
            "--email",
            f"m{number}@acme.example",
            "--name",
            "M",
        )
        for number in range(2)
    ]

    assert len({one["password"] for one in made}) == 2
    assert all(len(one["password"]) > 24 for one in made)


async def test_a_member_is_added_as_the_table_of_commands_shows(tmp_path: Path) -> None:
    tenant = (await veristream_json(tmp_path, "tenant", "create", "Acme"))["tenant_id"]
    made = await veristream_json(
        tmp_path,
        "reviewer",
        "create",
        "--tenant",
        tenant,
        "--email",
        "ada.obi@acme.example",
        "--role",
        "OWNER",
    )

    assert set(made) == {"reviewer_id", "password"}


@pytest.mark.parametrize(
    ("email", "name"),
    [
        ("ada@acme.example", "Ada"), ("ada.obi+x@acme.example", "Ada Obi"), ("o_mcKay@x.example", "O McKay"),
        ("jean-luc.b@x.example", "Jean Luc B"), ("+x@y.example", "+x"), ("42@x.example", "42"),
    ],
)  # fmt: skip
def test_a_name_is_read_from_the_address(email: str, name: str) -> None:
    assert name_from(email) == name


async def test_an_address_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    tenant = (await veristream_json(tmp_path, "tenant", "create", "Acme"))["tenant_id"]
    status, _, err = await veristream(
        tmp_path, "reviewer", "create", "--tenant", tenant, "--email", "nobody", "--name", "Nobody"
    )

    assert (status, "--email" in err, "Traceback" in err) == (2, True, False)


async def test_the_first_catalogue_is_loaded_once(tmp_path: Path) -> None:
    first = await veristream_json(tmp_path, "catalog", "load")
    again = await veristream_json(tmp_path, "catalog", "load")

    assert (first["installed"] > 100, again["installed"]) == (True, 0)


async def test_a_key_for_an_unknown_tenant_is_refused_with_the_mend(tmp_path: Path) -> None:
    status, _, err = await veristream(tmp_path, "key", "create", "--tenant", "ten_nobody")

    assert status == 2
    assert "veristream tenant create" in err


async def test_a_taken_port_is_named_with_the_mend(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = await veristream(tmp_path, "up", "--port", str(taken.getsockname()[1]))

    assert status == 2
    assert "--port" in err
    assert "Traceback" not in err


async def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    first = await Role.start(tmp_path, "broker")
    try:
        status, _, err = await veristream(tmp_path, "broker")
    finally:
        await first.stop()

    assert status == 2
    assert "another" in err
    assert "Traceback" not in err


async def test_a_lost_root_key_is_never_replaced(tmp_path: Path) -> None:
    await veristream_json(tmp_path, "tenant", "create", "Acme")
    (tmp_path / "root.key").unlink()

    status, _, err = await veristream(tmp_path, "tenant", "create", "Globex")

    assert status == 2
    assert "root.key" in err
    assert "Traceback" not in err


async def test_a_worker_without_a_broker_is_told_to_start_one(tmp_path: Path) -> None:
    status, _, err = await veristream(tmp_path, "worker")

    assert status == 2
    assert "veristream broker" in err


async def test_a_model_that_is_not_the_pinned_one_refuses_the_start(tmp_path: Path) -> None:
    detector = onnx_models.kept(tmp_path, "detector.onnx", onnx_models.detector())
    embedder = onnx_models.kept(tmp_path, "embedder.onnx", onnx_models.embedder())
    chosen = {
        "detector": {"path": str(detector.path), "sha256": detector.sha256},
        "embedder": {
            "kind": "sface", "path": str(embedder.path), "sha256": "0" * 64, "pass_at": 0.4, "fail_at": 0.6,
        },
    }  # fmt: skip
    status, _, err = await start_with(tmp_path, {"SERVICE_FACES": json.dumps(chosen)})

    assert status == 2
    assert "embedder.onnx" in err
    assert "Traceback" not in err


async def test_operator_models_serve_when_they_hold_their_contract(tmp_path: Path) -> None:
    detector = onnx_models.kept(tmp_path, "detector.onnx", onnx_models.detector())
    embedder = onnx_models.kept(tmp_path, "embedder.onnx", onnx_models.embedder())
    chosen = {
        "detector": {"path": str(detector.path), "sha256": detector.sha256},
        "embedder": {
            "kind": "sface", "path": str(embedder.path), "sha256": embedder.sha256,
            "pass_at": 0.4, "fail_at": 0.6,
        },
    }  # fmt: skip
    async with running_service(tmp_path / "data", given={"SERVICE_FACES": json.dumps(chosen)}) as service:
        status, told = await service.get("/readyz")

    assert (status, told["status"]) == (200, "ready")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SERVICE_PLATFORM_OPERATOR_TOKEN", "short"),
        ("SERVICE_ANSWER_TIMEOUT_S", "soon"),
        ("SERVICE_RATE_LIMITS", "sometimes"),
        ("SERVICE_FACES", "{not json"),
        ("SERVICE_ROOT_KEY", "too short"),
        ("SERVICE_ROOT_KEY_FILE", "/nowhere/root.key"),
    ],
)
async def test_a_malformed_setting_is_named_and_its_value_never_shown(
    tmp_path: Path, variable: str, value: str
) -> None:
    status, out, err = await start_with(tmp_path, {variable: value})

    assert status == 2
    assert variable in err
    assert "Traceback" not in out + err


async def start_with(data_dir: Path, given: dict[str, str]) -> tuple[int, str, str]:
    """Try to run the service under settings that must be refused."""
    return await veristream(data_dir, "up", "--port", "0", given=given)
