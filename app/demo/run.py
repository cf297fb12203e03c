"""Run `veristream demo`: start the service, verify a specimen passport and seed data."""

import asyncio
import base64
import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from PIL import Image, ImageEnhance

from app.adapters.files.data_dir import make_private
from app.composition.wiring import Running, running_all
from app.demo.access import DemoAccess, folder_of, make_access, read_access
from app.demo.client import BEGIN_ANEW, Client, tenant_client
from app.demo.payments import shown_payments, submit_payments
from app.demo.seeds import (
    OTHER_SUBJECT,
    SUBJECTS,
    Shown,
    furnish,
    submit_missing,
    verifications,
    with_webhooks,
)
from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from app.demo.webhook import Inbox, receiving_webhooks
from app.observability.logging import configure_logging
from app.process.output import err, out, say_pairs, say_rows
from app.process.startup import CannotStart, wait_for_stop_signal, warn_of_unknown_variables
from app.settings import Settings
from app.vision.forker import Forker
from schemas.topics import TOPICS, Topic
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started

DEMO_SUBJECT: Final = "demo-customer-1"
EVENT_WAIT_S: Final = 15.0
"""How long the demonstration waits for its event; a healthy service takes milliseconds."""

CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""By so much a broker's clock may be behind: the topic is read from this long before the decision."""


async def run_demo(settings: Settings, forker: Forker, *, once: bool) -> None:
    """Run the service and the demonstration; with `once` stop afterwards, else serve until stopped.

    What an earlier start made is shown, not made again. `forker` loads the models of the settings.

    Raises:
        CannotStart: A part cannot start, or the `demo` extra is not installed.
    """
    configure_logging(settings.log_format, "warning")
    warn_of_unknown_variables()
    body_file = await asyncio.to_thread(write_request, folder_of(settings), packaged_portrait())
    # Its receiver of webhooks is on this machine.
    settings = settings.model_copy(update={"webhooks_allow_insecure": True})
    with err.status("starting broker, models and agents") as status:
        async with running_all(settings, status.update, forker) as running:
            status.update("making two tenants and their members")
            access = await asyncio.to_thread(read_access, settings)
            access = access or await make_access(settings, running.deployment)
            async with (
                tenant_client(running.url, access.bank.api_key) as client,
                receiving_webhooks(settings, client, access) as (inbox, registered),
            ):
                status.update("reading the passport and comparing the faces")
                furnished = await _demonstrate(settings, running, client, registered, body_file)
                _require_good(inbox)
                status.stop()
                if once:
                    out.print("To keep it running and try it yourself: veristream demo", highlight=False)
                    return
                link = await _capture_link(client, furnished.flow_id)
                _say_next_steps(running, furnished, body_file, link)
                inbox.prints = True
                await wait_for_stop_signal()
                err.print("stopping")


async def _demonstrate(
    settings: Settings, running: Running, client: Client, access: DemoAccess, body_file: Path
) -> DemoAccess:
    """Do what was not done before, and print all of it."""
    async with tenant_client(running.url, access.exchange.api_key) as other:
        verification, access, *_ = await asyncio.gather(
            _passport(client, body_file),
            furnish(settings, running.url, access),
            submit_missing(client, SUBJECTS),
            submit_missing(other, (OTHER_SUBJECT,)),
            submit_payments(client),
        )
    rows = await client.request("GET", "/v1/audit", subject_id=DEMO_SUBJECT, limit="9")
    event = await _event_of(running.access, verification)
    _say_decision(verification, rows["events"], event)
    _say_verifications(await with_webhooks(client, access))
    _say_payments(await shown_payments(client))
    _say_access(access)
    return access


async def _capture_link(client: Client, flow_id: str | None) -> str:
    """Open a session of a new subject and return the link of its capture page."""
    subject_id = f"demo-visitor-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    body = {"flow_id": flow_id, "subject_id": subject_id}
    opened = await client.request("POST", "/v1/verification-sessions", body)
    return str(opened["url"])


def _require_good(inbox: Inbox) -> None:
    if inbox.faults:
        raise CannotStart(f"a webhook's signature is not good: {'; '.join(inbox.faults)}; {BEGIN_ANEW}")


def packaged_portrait() -> Image.Image:
    """Return the public-domain portrait that matplotlib's package carries.

    Raises:
        CannotStart: The package is not installed.
    """
    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        fix = "pip install --require-hashes -r requirements.lock -r deploy/demo.lock"
        raise CannotStart(f"the demonstration needs a portrait, which is not installed; run: {fix}")
    file = Path(spec.origin).parent / "mpl-data" / "sample_data" / "grace_hopper.jpg"
    return Image.open(file).convert("RGB")


def take_selfie(portrait: Image.Image) -> Image.Image:
    """Return the person as another camera would show her: closer, warmer, smaller and a little tilted."""
    width, height = portrait.size
    closer = portrait.rotate(4, Image.Resampling.BICUBIC).crop(
        (round(width * 0.12), round(height * 0.06), round(width * 0.88), round(height * 0.74))
    )
    return ImageEnhance.Brightness(closer.resize((480, 520), Image.Resampling.LANCZOS)).enhance(1.12)


def write_request(folder: Path, portrait: Image.Image) -> Path:
    """Draw the specimen and the selfie, and write them and the request body, unless they are there."""
    request = folder / "request.json"
    if request.exists():
        return request
    make_private(folder)
    today = datetime.now(UTC).date()
    passport = PassportSpecimen(issued=today - timedelta(days=400), expires=today + timedelta(days=3250))
    document = to_jpeg(draw_passport(passport, portrait))
    selfie = BytesIO()
    take_selfie(portrait).save(selfie, "JPEG", quality=88)
    (folder / "passport.jpg").write_bytes(document)
    (folder / "selfie.jpg").write_bytes(selfie.getvalue())
    body = {
        "subject_id": DEMO_SUBJECT,
        "document": {"image_base64": base64.b64encode(document).decode()},
        "selfie_image_base64": base64.b64encode(selfie.getvalue()).decode(),
    }
    request.write_text(json.dumps(body), encoding="utf-8")
    return request


async def _passport(client: Client, body_file: Path) -> dict[str, Any]:
    """Return the verification of the passport, which the first start submits."""
    for made in await verifications(client):
        if made["subject_id"] == DEMO_SUBJECT:
            return made
    return await client.request("POST", "/v1/verifications", await asyncio.to_thread(body_file.read_bytes))


async def _event_of(access: LogAccess, verification: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event of a decision as any Kafka consumer reads it; None when the topic forgot it.

    Raises:
        CannotStart: It was decided just now, and its event did not arrive.
    """
    decided = datetime.fromisoformat(verification["created_at"])
    try:
        async with started(AIOKafkaConsumer(**access.client())) as consumer, asyncio.timeout(EVENT_WAIT_S):
            await _seek(consumer, decided - CLOCKS_DIFFER)
            while True:
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    for message in messages:
                        event: dict[str, Any] = json.loads(message.value)
                        if event["data"].get("verification_id") == verification["verification_id"]:
                            return event
    except TimeoutError:
        if datetime.now(UTC) - decided > timedelta(hours=1):
            return None
        raise CannotStart("the decision event did not arrive on its topic; see: veristream doctor") from None


async def _seek(consumer: AIOKafkaConsumer, moment: datetime) -> None:
    spec = next(spec for spec in TOPICS if spec.topic is Topic.DECISIONS)
    partitions = [TopicPartition(str(spec.topic), number) for number in range(spec.partitions)]
    consumer.assign(partitions)
    await consumer.seek_to_end(*partitions)
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, round(moment.timestamp() * 1000)))
    for partition, place in found.items():
        if place is not None:
            consumer.seek(partition, place.offset)


def _say_decision(
    verification: dict[str, Any], rows: Sequence[dict[str, Any]], event: dict[str, Any] | None
) -> None:
    document = verification["document"]
    read = document["extracted_fields"]
    distance = verification.get("distance")
    apart = None if distance is None else round(distance, 3)
    said = {
        "verification": f"{verification['verification_id']} of {verification['subject_id']}, test data",
        "document": f"specimen passport of {read.get('issuing_state')}: {read.get('full_name')}, "
        f"born {read.get('date_of_birth')}, expires {read.get('expiry_date')}",
        "faces": f"distance {apart} ({verification.get('model_version')})",
        "checks": ", ".join(f"{one['kind']} {one['verdict']}" for one in verification["checks"]),
        "audit log": ", ".join(row["action"] for row in reversed(rows)),
        "event": "no longer on its topic" if event is None else f"{event['type']} {event['id']}",
    }
    _say_heading(f"The decision: {verification['status']} / {verification['decision']}")
    say_pairs(said, as_json=False)


def _say_verifications(shown: Sequence[Shown]) -> None:
    columns = ("subject_id", "status", "decision", "review_case_id")
    _say_heading("Verifications of the first tenant, cases in its queue, and what became of their webhooks")
    say_rows(
        (*columns, "webhook"),
        [(*(one.verification.get(name) for name in columns), one.webhook) for one in shown],
    )


def _say_payments(payments: Sequence[dict[str, Any]]) -> None:
    _say_heading("Payments that did not move, and why: one of many in an hour, one to a person on a list")
    for payment in payments:
        amount, reasons = payment["amount"], [one["message"] for one in payment["reasons"]]
        matched = [match for check in payment["checks"] for match in check.get("matches", ())]
        names = [f"{one['name']} ({one['list']} {one['entity_id']})" for one in matched]
        said = {
            "payment": f"{amount['value']} {amount['currency']} of {payment['subject_id']}, test data",
            "decision": payment["decision"],
            "reasons": " ".join(reasons),
            "listed": ", ".join(names) or "-",
        }
        say_pairs(said, as_json=False)


def _say_access(access: DemoAccess) -> None:
    _say_heading("Tenants; a test key sees and makes only test data")
    tenants = (access.bank, access.exchange)
    say_rows(("tenant", "test key"), [(one.name, one.api_key) for one in tenants])
    _say_heading(f"Members of the first tenant; its published flow is {access.flow_id}")
    people = [(one.role, one.email, one.password, one.totp_secret) for one in access.members]
    say_rows(("role", "e-mail", "password", "authenticator secret"), people)


def _say_heading(text: str) -> None:
    out.print(f"\n[bold]{text}[/]", highlight=False, soft_wrap=True)


def _say_next_steps(running: Running, access: DemoAccess, body_file: Path, link: str) -> None:
    url, json_type = running.url, "-H 'Content-Type: application/json'"
    key = f"-H 'Authorization: Bearer {access.bank.api_key}'"
    body = shlex.quote(f"@{body_file}")
    _say_heading(f"Serving on {url}; Kafka consumers connect to {running.access.bootstrap}. Try it again:")
    _say_line(f"curl -s -X POST {url}/v1/verifications {key} {json_type} -d {body}")
    _say_heading("Be verified yourself; the document and the camera's picture stay on this machine:")
    _say_line(link)
    _say_heading("Read the documentation, search it, and try every route:")
    _say_line(f"{url}/docs")
    _say_heading("Work in the console as one of the members, with the code of the authenticator:")
    _say_line(f"{url}/console/sign-in?next=/console/review-cases?livemode%3Dfalse")
    cookies = f"-c cookies.txt -b cookies.txt -H 'Origin: {url}' {json_type}"
    _say_heading("The same over the interface: sign in, give the code, and look at the queue:")
    for member in access.members:
        credentials = json.dumps({"email": member.email, "password": member.password})
        _say_line(f"curl -s {cookies} {url}/v1/control/sessions -d '{credentials}'")
    _say_line(f'curl -s {cookies} {url}/v1/control/mfa/verify -d \'{{"code": "SIX DIGITS"}}\'')
    _say_line(f"curl -s -b cookies.txt {url}/v1/control/review-cases")
    _say_line("\nA specimen is accepted with a test key alone. To begin anew: veristream demo reset")


def _say_line(line: str) -> None:
    out.print(line, soft_wrap=True, highlight=False, markup=False)
