"""`veristream demo`: the main job on a specimen passport, with all that came of it, read as anybody would."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from PIL import Image, ImageEnhance
from rich.panel import Panel
from rich.syntax import Syntax

from app.commands_stores import demo_key
from app.console import err, out, table
from app.demo_webhook import receiving_webhooks
from app.settings import Settings
from app.specimens import PassportSpecimen, draw_passport, to_jpeg
from app.startup import CannotStart, until_told_to_stop
from app.telemetry import configure_logging
from app.webhook_receiver import Heard
from app.wiring import Running, running_all
from schemas.topics import TOPICS, Topic
from streams.runtime.access import LogAccess

DEMO_SUBJECT: Final = "demo-customer-1"
EVENT_WAIT_S: Final = 15.0
"""How long the demonstration waits for its event; a healthy service takes milliseconds."""


async def run_demo(settings: Settings, *, once: bool) -> None:
    """Run the service and the demonstration; with `once` stop afterwards, else serve until told to stop.

    Raises:
        CannotStart: A part cannot start, or the `demo` extra is not installed.
    """
    configure_logging(settings.log_format, "warning")
    body_file = write_request(settings.data_dir / "demo", packaged_portrait())
    body = body_file.read_bytes()
    # Its receiver of webhooks is on this machine.
    settings = settings.model_copy(update={"webhooks_allow_insecure": True})
    with err.status("starting broker, models and agents") as status:
        async with running_all(settings, tell=status.update) as running:
            status.update("making a demo tenant")
            key = await demo_key(running.house)
            async with receiving_webhooks(running.url, key) as inbox:
                status.update("reading the passport and comparing the faces")
                async with _events_from_now(running.access) as events:
                    verification = await _verify(running.url, key, body)
                    rows = await _audit_rows(running.url, key, verification["subject_id"])
                    event = await _event_of(events, verification["verification_id"])
                webhook = await inbox.about(verification["verification_id"])
                status.stop()
                _show(verification, rows, event)
                _show_webhook(webhook)
                _show_next_steps(running, key, body_file)
                inbox.tells = True
                if not once:
                    await until_told_to_stop()
                    err.print("stopping")


def packaged_portrait() -> Image.Image:
    """Return the public-domain portrait that matplotlib's package carries.

    Raises:
        CannotStart: The package is not installed.
    """
    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        mend = "pip install --require-hashes -r requirements.lock -r deploy/demo.lock"
        raise CannotStart(f"the demonstration needs a portrait, which is not installed; run: {mend}")
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
    """Draw the specimen and the selfie, and write them and the request body for the curl line."""
    folder.mkdir(parents=True, exist_ok=True)
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
    request = folder / "request.json"
    request.write_text(json.dumps(body), encoding="utf-8")
    return request


async def _verify(url: str, key: str, body: bytes) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    async with ClientSession(timeout=ClientTimeout(total=120)) as client:
        sent = client.post(f"{url}/v1/verifications", data=body, headers=headers)
        async with sent as answer:
            told: dict[str, Any] = await answer.json(content_type=None)
            if not answer.ok:
                raise CannotStart(
                    f"the verification was refused: {told.get('detail')}; see: veristream doctor"
                )
            return told


async def _audit_rows(url: str, key: str, subject_id: str) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {key}"}
    async with ClientSession() as client:
        wanted = {"subject_id": subject_id, "limit": "5"}
        async with client.get(f"{url}/v1/audit", params=wanted, headers=headers) as answer:
            body: dict[str, Any] = await answer.json()
            return list(body["events"])


@asynccontextmanager
async def _events_from_now(access: LogAccess) -> AsyncIterator[AIOKafkaConsumer]:
    """An ordinary Kafka consumer of the decision topic, from its end."""
    consumer = AIOKafkaConsumer(**access.client())
    await consumer.start()
    try:
        spec = next(spec for spec in TOPICS if spec.topic is Topic.DECISIONS)
        partitions = [TopicPartition(str(spec.topic), number) for number in range(spec.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_end(*partitions)
        for partition in partitions:
            await consumer.position(partition)
        yield consumer
    finally:
        await consumer.stop()


async def _event_of(consumer: AIOKafkaConsumer, verification_id: str) -> dict[str, Any]:
    found = await consumer.getmany(timeout_ms=round(EVENT_WAIT_S * 1000))
    for messages in found.values():
        for message in messages:
            event: dict[str, Any] = json.loads(message.value)
            if event["data"].get("verification_id") == verification_id:
                return event
    raise CannotStart("the decision event did not arrive on its topic; see: veristream doctor")


def _show(verification: dict[str, Any], rows: list[dict[str, Any]], event: dict[str, Any]) -> None:
    shown = {name: value for name, value in verification.items() if name != "evidence"}
    text = json.dumps(shown, indent=2)
    decision = f"[bold]{verification['status']}[/] / {verification['decision']}"
    syntax = Syntax(text, "json", background_color="default", word_wrap=True)
    out.print(Panel(syntax, title=f"The decision: {decision}", title_align="left"))
    wanted = ("action", "actor_type", "detail")
    cells = [[row.get(name) for name in wanted] for row in rows]
    out.print(table("Its rows in the audit log", wanted, cells))
    event_text = Syntax(json.dumps(event, indent=2), "json", background_color="default", word_wrap=True)
    out.print(Panel(event_text, title=f"Its event, read from {Topic.DECISIONS}", title_align="left"))


def _show_webhook(heard: Heard) -> None:
    cells = (heard.id, heard.attempt, heard.fault or "ok")
    title = f"Its webhook, {heard.type}"
    out.print(table(title, ("webhook-id", "attempt", "signature"), [cells]))


def _show_next_steps(running: Running, key: str, body_file: Path) -> None:
    curl = (
        f"curl -s -X POST {running.url}/v1/verifications -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d @{body_file}"
    )
    out.print(f"[bold]Serving[/] on {running.url}; Kafka consumers connect to {running.access.bootstrap}.")
    out.print(
        "Its key is a test key: a specimen is not accepted with a live one. With it the subject_id may also "
        "name an outcome: sim:approved, sim:reject:DOCUMENT_EXPIRED, …"
    )
    out.print("Try it again:", style="bold")
    out.print(curl, soft_wrap=True, highlight=False, markup=False)
