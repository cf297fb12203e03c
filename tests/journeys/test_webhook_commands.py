"""`veristream webhook listen` and `veristream webhook verify`, as who writes a receiver uses them."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from aiohttp import ClientSession

from app.cli.options import service_url
from app.cli.webhook_resend import resend
from app.composition.stores import new_id, now, open_deployment
from app.demo.receiver import fault_of
from app.doctor.checks import _receivers
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.audit import AuditFilter
from schemas.events import DecisionEvent
from schemas.ids import derive_id
from schemas.webhooks import DeliveryStatus, StoredDelivery, StoredEndpoint
from streams.ports.records import Change
from streams.tenants.handler import OPERATOR, CreateTenant
from streams.webhooks.records import delivery_records, endpoint_record, fresh
from streams.webhooks.signing import secret_bytes, signatures, timestamp
from tests.builders import NOW, build_decision_event, build_endpoint
from tests.journeys.service import START_S, Service, environment, run_preloaded, veristream_json
from tests.prefork import Forked, fork, run_veristream

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of Standard Webhooks' published example
BODY = b'{"test": 2432232314}'
PUBLISHED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""The example that Standard Webhooks publish."""

VERIFY = (
    "verify", "--id", PUBLISHED["webhook-id"], "--timestamp", PUBLISHED["webhook-timestamp"], "--signature",
)  # fmt: skip
KNOWN = {"SERVICE_WEBHOOK_SECRET": SECRET}


async def webhook(
    *arguments: str, given: Mapping[str, str] = KNOWN, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Run `veristream webhook …` to its end: exit status, stdout, stderr."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "webhook", *arguments,
        stdin=pipe, stdout=pipe, stderr=pipe, env=environment(given),
    )  # fmt: skip
    async with asyncio.timeout(START_S):
        out, err = await process.communicate(stdin)
    return process.returncode or 0, out.decode(), err.decode()


class Listener:
    """A running `veristream webhook listen`."""

    def __init__(self, process: Forked, complaints: Path) -> None:
        self.process, self.complaints, self.ready = process, complaints, ""

    async def line(self) -> str:
        """The next line it prints."""
        async with asyncio.timeout(START_S):
            return (await self.process.stdout.readline()).decode().strip()

    async def deliver(self, id_: str, body: bytes, secrets: Sequence[str] = (SECRET,)) -> int:
        """Post a signed body to it; returns what it answered."""
        at = datetime.now(UTC)
        signed = signatures(id_, at, body, [secret_bytes(secret) for secret in secrets])
        headers = {"webhook-id": id_, "webhook-timestamp": timestamp(at), "webhook-signature": signed}
        url = json.loads(self.ready)["ready"] if self.ready.startswith("{") else self.ready.split()[-1]
        async with ClientSession() as client, client.post(url, data=body, headers=headers) as answer:
            return answer.status

    async def ended(self) -> int:
        """Wait for its end; returns the exit status."""
        async with asyncio.timeout(START_S):
            return await self.process.wait()


@asynccontextmanager
async def listening(*arguments: str, given: Mapping[str, str] = KNOWN) -> AsyncIterator[Listener]:
    """Run `veristream webhook listen`, ready, in a process that need not import anything."""
    with NamedTemporaryFile() as complaints:
        written, words = Path(complaints.name), ("webhook", "listen", *arguments)
        process = await fork(run_veristream, words, environment(given), written, vision=False)
        try:
            listener = Listener(process, written)
            listener.ready = await listener.line()
            yield listener
        finally:
            process.kill()
            await process.wait()


def event(**data: object) -> bytes:
    """The body of a webhook."""
    result = {"id": "evt_1", "type": "verification.approved", "sequence": 3, "data": data}
    return json.dumps(result).encode()


async def test_it_prints_what_a_delivery_tells_and_that_it_is_signed() -> None:
    async with listening() as listener:
        status = await listener.deliver("evt_1", event(verification_id="ver_1", decision="ALLOW"))
        line = await listener.line()

    assert status == 204
    assert "verification.approved  evt_1  sequence=3" in line
    assert "verification_id=ver_1  decision=ALLOW" in line
    assert line.endswith("new  signature: ok")


async def test_a_delivery_that_came_before_is_reported_as_such() -> None:
    async with listening() as listener:
        for _ in range(2):
            await listener.deliver("evt_1", event())
        lines = [await listener.line() for _ in range(2)]

    assert ["  again  " in line for line in lines] == [False, True]


async def test_a_delivery_signed_with_another_secret_is_reported_and_answered_400() -> None:
    async with listening("--once", "--json") as listener:
        status = await listener.deliver("evt_1", event(), ["whsec_" + "A" * 32])
        answer = json.loads(await listener.line())
        code = await listener.ended()

    assert (status, answer["signature"], code) == (400, "bad", 1)
    assert "another secret" in answer["fault"]


async def test_during_a_rotation_either_secret_is_enough() -> None:
    async with listening("--once", "--json") as listener:
        status = await listener.deliver("evt_1", event(), ["whsec_" + "A" * 32, SECRET])
        answer = json.loads(await listener.line())
        code = await listener.ended()

    assert (status, answer["signature"], answer["type"], code) == (204, "ok", "verification.approved", 0)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_running_service_reaches_it_by_the_line_it_printed(service: Service) -> None:
    routes, key = f"{service.url}/v1/webhooks/endpoints", {"Authorization": f"Bearer {service.test_key}"}
    async with listening("--once", "--json", given={"SERVICE_BASE_URL": service.url}) as listener:
        shell = await asyncio.create_subprocess_shell(
            json.loads(listener.ready)["register"],
            env={**environment(), "API_KEY": service.test_key},
            stdout=asyncio.subprocess.PIPE,
        )
        made = json.loads((await shell.communicate())[0])
        endpoint = f"{routes}/{made['endpoint_id']}"
        await service.client.post(f"{endpoint}/test", headers=key)
        answer = json.loads(await listener.line())
        code = await listener.ended()
    await service.client.delete(endpoint, headers=key)

    assert (made["url"], made["event_types"]) == (json.loads(listener.ready)["ready"], ["*"])
    assert (answer["type"], answer["signature"], answer["attempt"], code) == ("ping", "ok", "1", 0)


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_resent_arrives_again_under_the_same_id(service: Service) -> None:
    routes, key = f"{service.url}/v1/webhooks/endpoints", {"Authorization": f"Bearer {service.test_key}"}
    async with listening("--json") as listener:
        body = {"url": json.loads(listener.ready)["ready"], "secret": SECRET, "event_types": ["*"]}
        async with service.client.post(routes, json=body, headers=key) as answer:
            endpoint = f"{routes}/{(await answer.json())['endpoint_id']}"
        await service.client.post(f"{endpoint}/test", headers=key)
        first = json.loads(await listener.line())
        resent = await veristream_json(
            service.data_dir, "webhook", "resend", first["id"], "--tenant", service.tenant_id
        )
        second = json.loads(await listener.line())
    await service.client.delete(endpoint, headers=key)

    assert (first["again"], second["again"]) == (False, True)
    assert (second["id"], second["signature"]) == (first["id"], "ok")
    assert [(one["event_id"], one["status"]) for one in resent] == [(first["id"], "PENDING")]


async def test_a_delivery_is_resent_by_either_id_and_the_operator_is_audited(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with open_deployment(settings) as deployment:
        tenant = await CreateTenant(deployment.stores.journal.commit, now, new_id)("Acme")
        paused = derive_id("whe", "paused")
        endpoints = [
            build_endpoint(tenant_id=tenant.tenant_id),
            build_endpoint(tenant_id=tenant.tenant_id, endpoint_id=paused, active=False),
        ]
        event = build_decision_event(tenant_id=tenant.tenant_id)
        ended = [delivered(event, endpoint) for endpoint in endpoints]
        for endpoint, delivery in zip(endpoints, ended, strict=True):
            records = (endpoint_record(endpoint, 1), *delivery_records(delivery, None))
            await deployment.stores.journal.commit(Change(tenant.tenant_id, records))

    by_id = await resend(settings, tenant.tenant_id, ended[0].delivery.delivery_id)
    by_event = await resend(settings, tenant.tenant_id, event.id)
    async with open_deployment(settings) as deployment:
        rows = await deployment.stores.audit_log.page(
            tenant.tenant_id, AuditFilter(action="webhook.replayed"), limit=9
        )

    assert by_id == by_event
    assert [(one["delivery_id"], one["status"]) for one in by_id] == [
        (ended[0].delivery.delivery_id, "PENDING")
    ]
    assert [(row.actor_type, row.actor_id) for row in rows] == [(OPERATOR.actor_type, OPERATOR.actor_id)] * 2
    for id_, said in (
        (ended[1].delivery.delivery_id, "not active"),
        (derive_id("whd", "none"), "has no delivery"),
        (derive_id("evt", "none"), "sent to no endpoint"),
    ):
        with pytest.raises(CannotStart, match=said):
            await resend(settings, tenant.tenant_id, id_)


def delivered(event: DecisionEvent, endpoint: StoredEndpoint) -> StoredDelivery:
    """A delivery that arrived."""
    begun = fresh(event, endpoint, NOW)
    done = begun.delivery.model_copy(update={"status": DeliveryStatus.DELIVERED, "next_attempt_at": None})
    return begun.model_copy(update={"delivery": done})


async def test_a_secret_is_drawn_for_each_run_and_printed_once_with_its_registration() -> None:
    said = []
    for _ in range(2):
        async with listening(given={"SERVICE_PORT": "8123"}) as listener:
            drawn, line = await listener.line(), await listener.line()
            secret = drawn.rpartition(" ")[2]
            status = await listener.deliver("evt_1", event(), [secret])
            said.append((secret, line))
            assert (status, await listener.line() != "") == (204, True)

    assert said[0][0] != said[1][0]
    assert all(secret.startswith("whsec_") and secret in line for secret, line in said)
    assert "http://127.0.0.1:8123/v1/webhooks/endpoints" in said[0][1]


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8080"), ({"host": "0.0.0.0", "port": 9}, "http://127.0.0.1:9"),  # noqa: S104
        ({"host": "::1"}, "http://[::1]:8080"), ({"base_url": "https://id.example/"}, "https://id.example"),
    ],
)  # fmt: skip
def test_the_line_names_the_service_of_the_settings(settings: dict[str, Any], url: str) -> None:
    assert service_url(Settings(**settings)) == url


async def test_it_can_answer_as_a_receiver_that_fails() -> None:
    async with listening("--fail", "503", "--once") as listener:
        assert await listener.deliver("evt_1", event()) == 503


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_ends_cleanly_when_asked_to(number: signal.Signals) -> None:
    async with listening() as listener:
        listener.process.send_signal(number)
        code = await listener.ended()
        err = listener.complaints.read_text()

    assert (code, "Traceback" in err) == (0, False)


async def test_nothing_an_outsider_sends_reaches_the_terminal_as_commands() -> None:
    async with listening() as listener:
        await listener.deliver("evt_1", event(status="\x1b[2J[bold]\nx"), ["whsec_" + "A" * 32])
        line = await listener.line()

    assert "status=\ufffd[2J[bold]\ufffdx" in line


async def test_a_taken_port_is_named_with_the_mend() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = await webhook("listen", "--port", str(taken.getsockname()[1]))

    assert (status, "--port" in err, "Traceback" in err) == (2, True, False)


async def test_the_published_example_verifies_at_any_time(tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(BODY)
    arguments = (*VERIFY, PUBLISHED["webhook-signature"], "--any-time", str(tmp_path / "body.json"))

    assert (await webhook(*arguments))[0] == 0


async def test_a_body_on_stdin_and_a_secret_in_a_file_do_as_well(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    arguments = (*VERIFY, PUBLISHED["webhook-signature"], "--any-time", "--json")
    secret = ("--secret-file", str(tmp_path / "secret"))
    status, out, _ = await webhook(*arguments, *secret, given={}, stdin=BODY)

    assert (status, json.loads(out)) == (0, {"good": True, "reason": None})


async def test_an_old_delivery_is_refused_with_its_reason() -> None:
    status, _, err = await webhook(*VERIFY, PUBLISHED["webhook-signature"], stdin=BODY)

    assert (status, "too old" in err) == (1, True)


async def test_without_a_secret_it_says_where_to_put_one() -> None:
    status, _, err = await webhook(*VERIFY, PUBLISHED["webhook-signature"], given={}, stdin=BODY)

    assert (status, "SERVICE_WEBHOOK_SECRET" in err, "--secret-file" in err) == (2, True, True)


async def test_a_secret_that_cannot_be_one_is_refused_and_never_shown() -> None:
    weak = {"SERVICE_WEBHOOK_SECRET": "whsec_dG9vIHNob3J0"}
    status, out, err = await webhook(*VERIFY, PUBLISHED["webhook-signature"], given=weak, stdin=BODY)

    assert (status, "24 to 64 bytes" in err, "dG9v" in out + err) == (2, True, False)


@pytest.mark.parametrize("command", [("front", "--port", "0"), ("worker",)], ids=lambda command: command[0])
async def test_a_start_that_allows_insecure_receivers_warns_of_it(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    given = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true", "SERVICE_DATADIR": "elsewhere"}
    _, out, err = await run_preloaded(tmp_path, *command, given=given)  # it ends: there is no broker

    assert "webhooks.insecure_receivers_allowed" in out + err
    assert '"variable": "SERVICE_DATADIR", "nearest": "SERVICE_DATA_DIR"' in out + err


def test_the_doctor_names_insecure_receivers_and_the_mend() -> None:
    found = {allowed: _receivers(Settings(webhooks_allow_insecure=allowed)) for allowed in (True, False)}

    assert (found[True].ok, found[False].ok) == (False, True)
    assert "unset SERVICE_WEBHOOKS_ALLOW_INSECURE" in (found[True].fix or "")


SECRET_BYTES = secret_bytes(SECRET)


def changed(**headers: str) -> dict[str, str]:
    """The published headers with others in their place."""
    return {**PUBLISHED, **{f"webhook-{name}": value for name, value in headers.items()}}


def test_every_changed_byte_of_a_delivery_is_noticed() -> None:
    for place in range(len(BODY)):
        altered = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
        assert fault_of(SECRET_BYTES, PUBLISHED, altered, any_time=True) is not None


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        (PUBLISHED, BODY + b"\n", "newline"),
        (PUBLISHED, BODY + b"\r\n", "newline"),
        (PUBLISHED, b"\xff", "UTF-8"),
        (changed(id="msg_other"), BODY, "another secret"),
        (changed(id=""), BODY, "missing"),
        (changed(timestamp=""), BODY, "missing"),
        (changed(timestamp="1614265331"), BODY, "another secret"),
        (changed(timestamp="yesterday"), BODY, "malformed"),
        (changed(timestamp="1e999"), BODY, "malformed"),
        (changed(timestamp="nan"), BODY, "malformed"),
        (changed(signature=""), BODY, "missing"),
        (changed(signature="v1,"), BODY, "another secret"),
        (changed(signature="v1,!"), BODY, "another secret"),
        (changed(signature="g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="), BODY, "another secret"),
        (changed(signature=PUBLISHED["webhook-signature"].replace("v1", "v2")), BODY, "another secret"),
    ],
)
def test_what_cannot_be_trusted_has_its_reason(headers: dict[str, str], body: bytes, reason: str) -> None:
    assert reason in (fault_of(SECRET_BYTES, headers, body, any_time=True) or "")


@pytest.mark.parametrize("signature", ["v1", "v1,!", "v1,a,b", ","])
def test_a_malformed_signature_is_a_reason_and_never_an_error(signature: str) -> None:
    now = timestamp(datetime.now(UTC))

    assert fault_of(SECRET_BYTES, changed(timestamp=now, signature=signature), BODY) is not None
