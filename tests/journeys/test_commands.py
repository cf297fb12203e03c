"""The commands as a newcomer and an operator use them, their mistakes included."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.lists import list_keys, list_reviewers, list_tenants
from app.cli.main import app as cli
from app.cli.reviewers import name_from
from app.composition.stores import open_deployment
from app.composition.wiring import running_all
from app.demo.access import FILE, FOLDER, make_access, reset
from app.kafka.cluster import open_broker
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.enums import VerificationStatus
from tests.engines.jvm import free_ports
from tests.journeys.service import (
    Service,
    begin_deployment,
    entries,
    readiness,
    run_preloaded,
    running_service,
    start_preloaded,
    veristream_json,
)
from tests.vision import onnx_models

COMMANDS = (
    ("up",), ("demo",), ("demo", "reset"), ("broker",), ("front",), ("worker",), ("tenant", "create"),
    ("key", "create"),
    ("tenant", "list"), ("key", "list"), ("reviewer", "list"), ("webhook", "resend"),
    ("key", "revoke"), ("reviewer", "create"), ("reviewer", "reset"), ("catalog", "load"),
    ("doctor",), ("calibrate",), ("status",), ("audit", "verify"), ("dlq", "list"), ("dlq", "redrive"),
    ("webhook", "listen"), ("webhook", "verify"),
    ("broker-user", "create"), ("broker-user", "list"), ("broker-user", "delete"),
    ("subject", "export"),
    ("root-key", "rotate"), ("root-key", "status"), ("root-key", "remove"),
    ("backup", "create"), ("backup", "verify"), ("restore",), ("activate",),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*command, "--help"])

    assert result.exit_code == 0
    assert f"veristream {' '.join(command)}" in result.output.split("Try:")[1]


async def test_the_demonstration_shows_every_status_and_another_start_makes_nothing_again(
    tmp_path: Path,
) -> None:
    collected, settings = [], Settings(data_dir=tmp_path)
    for _ in range(2):
        status, out, err = await run_preloaded(tmp_path, "demo", "--once", "--port", "0")
        assert status == 0, err
        collected.append(out)

    keys, people = await list_keys(settings, None), await list_reviewers(settings, None)
    assert collected[0] == collected[1]
    assert "The decision: APPROVED / ALLOW" in out
    assert "verification.evaluated" in out
    assert "verification.completed" in out
    assert [status for status in VerificationStatus if f" {status} " not in out] == []
    assert (out.count(" rc_"), out.count(" DELIVERED"), out.count("its published flow is vf_")) == (2, 8, 1)
    assert out.count("idv_test_") == len(keys) == len(await list_tenants(settings)) == 2
    assert {key["mode"] for key in keys} == {"test"}
    assert {(one["role"], one["mfa_enrolled"]) for one in people} == {
        (role, True) for role in ("OWNER", "COMPLIANCE_LEAD", "REVIEWER")
    }
    assert [one["email"] for one in people if one["email"] not in out] == []
    assert "Serving" not in out
    waiting, stopped = out.partition("Payments that did not move")[2].split("\npayment ")[1:3]
    assert "decision  HOLD\nreasons   10 outbound transactions in the hour before this one." in waiting
    assert "decision  BLOCK\n" in stopped
    assert "Zoltan Qaraveli (sandbox sandbox-1)" in stopped

    ended = [await reset(settings) for _ in range(2)]

    assert [sum(one.values()) for one in ended] == [6, 0]
    assert {key["state"] for key in await list_keys(settings, None)} == {"revoked"}
    assert await list_reviewers(settings, None) == []


async def test_a_demonstration_whose_file_was_lost_begins_anew(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with open_deployment(settings) as deployment:
        first = await make_access(settings, deployment)
        (tmp_path / FOLDER / FILE).unlink()
        second = await make_access(settings, deployment)
    people = await list_reviewers(settings, None)

    assert first.bank.tenant_id != second.bank.tenant_id
    assert {one["reviewer_id"] for one in people} == {one.reviewer_id for one in second.members}
    assert (tmp_path / FOLDER / FILE).stat().st_mode & 0o777 == 0o600


def test_a_reset_without_a_demonstration_makes_nothing(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    before = sorted(tmp_path.iterdir())
    ended = asyncio.run(reset(Settings(data_dir=tmp_path)))

    assert (sum(ended.values()), sorted(tmp_path.iterdir())) == (0, before)


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
        status, body = answer.status, await answer.json()

    assert (status, body["reviewer"]["id"], body["reviewer"]["role"]) == (201, made["reviewer_id"], "OWNER")


async def test_a_member_is_added_once_reset_with_a_token_and_removed(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    tenant = (await veristream_json(tmp_path, "tenant", "create", "Acme"))["tenant_id"]
    made = await veristream_json(tmp_path, "reviewer", "create", "--tenant", tenant, *MEMBER)
    again, _, err = await run_preloaded(tmp_path, "reviewer", "create", "--tenant", tenant, *MEMBER)
    reset = ("reviewer", "reset", "--tenant", tenant, "--email")
    token = await veristream_json(tmp_path, *reset, "ada.obi@ACME.example")
    nobody, _, mend = await run_preloaded(tmp_path, *reset, "nobody@acme.example")
    remove = ("reviewer", "remove", "--tenant", tenant, "--email", "ada.obi@acme.example")
    removed = await veristream_json(tmp_path, *remove)
    anew = await veristream_json(tmp_path, "reviewer", "create", "--tenant", tenant, *MEMBER)

    assert (removed["reviewer_id"], anew["reviewer_id"] == made["reviewer_id"]) == (
        made["reviewer_id"],
        False,
    )
    assert (again, nobody, token["reviewer_id"]) == (2, 2, made["reviewer_id"])
    assert token["token"].startswith("idt_")
    assert token["link"] == f"http://127.0.0.1:8080/console/reset#{token['token']}"
    assert f"of tenant {tenant}" in err
    assert "veristream reviewer reset" in err
    assert "veristream reviewer create" in mend


async def test_s28_no_two_members_get_the_same_password_and_none_is_a_default(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
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
    begin_deployment(tmp_path)
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
    begin_deployment(tmp_path)
    tenant = (await veristream_json(tmp_path, "tenant", "create", "Acme"))["tenant_id"]
    status, _, err = await run_preloaded(
        tmp_path, "reviewer", "create", "--tenant", tenant, "--email", "nobody", "--name", "Nobody"
    )

    assert (status, "--email" in err, "Traceback" in err) == (2, True, False)


async def test_the_first_catalogue_is_loaded_once(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    first = await veristream_json(tmp_path, "catalog", "load")
    again = await veristream_json(tmp_path, "catalog", "load")

    assert (first["installed"] > 100, again["installed"]) == (True, 0)


async def test_a_key_for_an_unknown_tenant_is_refused_with_the_mend(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    status, _, err = await run_preloaded(tmp_path, "key", "create", "--tenant", "ten_nobody")

    assert status == 2
    assert "veristream tenant create" in err


async def test_a_taken_port_is_named_with_the_mend(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = await run_preloaded(tmp_path, "up", "--port", str(taken.getsockname()[1]))

    assert status == 2
    assert "--port" in err
    assert "Traceback" not in err


@pytest.mark.asyncio(loop_scope="session")
async def test_a_start_says_little_and_nothing_of_a_library(service: Service) -> None:
    await service.get("/v1/verifications")
    logged = [json.loads(line) for line in service.role.log.read_text().splitlines()]
    events = [line["event"] for line in logged]
    start = events[: events.index("http.answered")]

    assert len(start) < 10, start  # with the line of the address on stdout ten at the most
    assert [line for line in logged[: len(start)] if "logger" in line] == []


@pytest.mark.parametrize("option", ["--port", "--broker-port", "--health-port"])
async def test_a_taken_port_refuses_the_start_before_anything_is_made_or_loaded(
    tmp_path: Path, option: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        given = {"port": 0, option.removeprefix("--").replace("-", "_"): number}
        with pytest.raises(CannotStart, match=rf"port {number} .* choose another with {option} "):
            async with running_all(Settings(data_dir=tmp_path / "data", **given)):
                pytest.fail("it runs")

    assert entries(tmp_path) == []


async def test_a_port_taken_while_a_start_is_under_way_is_named_with_the_mend(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, broker_port=free_ports(1)[0])
    with (
        socket.create_server(("127.0.0.1", settings.broker_port)),
        pytest.raises(CannotStart, match=r"choose another with --broker-port"),
    ):
        async with open_broker(settings):
            pytest.fail("it runs")


async def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    first = await start_preloaded(tmp_path, "broker")
    try:
        status, _, err = await run_preloaded(tmp_path, "broker")
    finally:
        await first.stop()

    assert status == 2
    assert "another" in err
    assert "Traceback" not in err


async def test_a_lost_root_key_is_never_replaced(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    (tmp_path / "root.key").unlink()

    status, _, err = await run_preloaded(tmp_path, "tenant", "create", "Globex")

    assert status == 2
    assert "root.key" in err
    assert "Traceback" not in err


async def test_a_worker_without_a_broker_is_asked_to_start_one(tmp_path: Path) -> None:
    status, _, err = await run_preloaded(tmp_path, "worker")

    assert status == 2
    assert "veristream broker" in err
    assert entries(tmp_path) == []


async def test_a_model_that_is_not_the_pinned_one_refuses_the_start(tmp_path: Path) -> None:
    detector = onnx_models.write_model(tmp_path, "detector.onnx", onnx_models.detector())
    embedder = onnx_models.write_model(tmp_path, "embedder.onnx", onnx_models.embedder())
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
    detector = onnx_models.write_model(tmp_path, "detector.onnx", onnx_models.detector())
    embedder = onnx_models.write_model(tmp_path, "embedder.onnx", onnx_models.embedder())
    chosen = {
        "detector": {"path": str(detector.path), "sha256": detector.sha256},
        "embedder": {
            "kind": "sface", "path": str(embedder.path), "sha256": embedder.sha256,
            "pass_at": 0.4, "fail_at": 0.6,
        },
    }  # fmt: skip
    given = {"SERVICE_FACES": json.dumps(chosen)}
    async with running_service(tmp_path / "data", given, preloaded=True) as service:
        health = await readiness(service.client, service.url)

    assert health["status"] == "ready"


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
    return await run_preloaded(data_dir, "up", "--port", "0", given=given)
