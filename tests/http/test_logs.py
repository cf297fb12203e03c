"""Logs say what happened, in one line of JSON, and never whose, what or with which key."""

import asyncio
import io
import json
import logging
from typing import Any

import pytest
import structlog
from typing_extensions import override

from app.observability.logging import HIDDEN, configure_logging
from schemas.problems import StoreUnavailable, Unauthenticated
from streams.ports.records import RecordKind
from streams.runtime.tenant_scope import tenant_scope
from tests.builders import ACME, GLOBEX
from tests.http.support import PATH, TEST, Front, Json, build_body

CANARY = "CANARY"


def lines(logged: io.StringIO) -> list[Json]:
    """Every line."""
    return [json.loads(line) for line in logged.getvalue().splitlines()]


def planted() -> Json:
    """A body that is accepted and has a canary wherever one fits."""
    fields = {"surname": CANARY, "given_names": CANARY, "number": CANARY}
    document = {"number_last4": "CANA", "extracted_fields": fields, "issuing_country": "NG"}
    return build_body(f"sim:approved@{CANARY}", document=document)


async def test_an_answer_is_one_line_with_these_keys(front: Front, logged: io.StringIO) -> None:
    response = await front.submit()
    (line,) = [line for line in lines(logged) if line["event"] == "http.answered"]

    assert set(line) == {
        "event", "level", "timestamp", "method", "route", "status", "duration_ms", "request_id", "key_id",
        "tenant_id",
    }  # fmt: skip
    assert (line["route"], line["status"], line["tenant_id"]) == (PATH, 201, ACME)
    assert line["request_id"] == response.headers["X-Request-Id"]


async def test_a_path_with_a_value_is_logged_as_its_template(front: Front, logged: io.StringIO) -> None:
    await front.ask("GET", f"{PATH}/ver_{'0' * 26}")

    assert lines(logged)[-1]["route"] == f"{PATH}/{{verification_id}}"
    assert "0" * 26 not in logged.getvalue()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"subject_id": f"not a subject {CANARY}"},
        {"document": {"issuing_country": CANARY}},
        {"selfie_image_base64": CANARY},
        {CANARY: CANARY},
    ],
)
async def test_no_value_of_a_body_is_logged(front: Front, logged: io.StringIO, changes: Json) -> None:
    await front.submit(planted() | changes)

    assert CANARY not in logged.getvalue()


@pytest.mark.parametrize(
    "path", [f"/{CANARY}", f"{PATH}?subject_id={CANARY}", f"{PATH}?{CANARY}=1", f"{PATH}?cursor={CANARY}"]
)
async def test_no_path_or_query_is_logged(front: Front, logged: io.StringIO, path: str) -> None:
    await front.ask("GET", path)

    assert CANARY not in logged.getvalue()


async def test_no_header_is_logged(front: Front, logged: io.StringIO) -> None:
    headers = {
        "Idempotency-Key": CANARY,
        "User-Agent": CANARY,
        "Cookie": f"a={CANARY}",
        "X-Request-Id": CANARY,
    }
    await front.ask("POST", PATH, json=planted(), headers=headers)
    await front.ask("GET", PATH, f"idv_live_{CANARY}")

    assert CANARY not in logged.getvalue()
    assert TEST not in logged.getvalue()


@pytest.mark.parametrize(
    "error", [RuntimeError(CANARY), KeyError(CANARY), ValueError(CANARY), Unauthenticated(CANARY)]
)
async def test_an_error_is_logged_as_its_kind_and_place(
    front: Front, logged: io.StringIO, error: Exception
) -> None:
    front.gateway.failing = error
    response = await front.submit(planted())

    assert CANARY not in logged.getvalue()
    assert CANARY.encode() not in response.body


async def test_a_failure_names_its_request_and_its_place(front: Front, logged: io.StringIO) -> None:
    front.gateway.failing = RuntimeError(CANARY)
    response = await front.submit()
    (line,) = [line for line in lines(logged) if line["event"] == "http.failed"]

    assert (line["error"], line["request_id"]) == ("RuntimeError", response.json["request_id"])
    assert line["tenant_id"] == ACME
    assert any("intake/verifications.py" in place for place in line["trace"])


async def test_a_damaged_record_is_not_shown_in_the_log(front: Front, logged: io.StringIO) -> None:
    submitted = (await front.submit()).json
    place = (ACME, RecordKind.VERIFICATION, submitted["verification_id"])
    object.__setattr__(front.shelves.records[place], "body", f'{{"subject": "{CANARY}"}}'.encode())
    response = await front.ask("GET", f"{PATH}/{submitted['verification_id']}")

    assert response.status == 500
    assert CANARY not in logged.getvalue()


async def test_a_store_that_fails_is_logged_with_its_words(front: Front, logged: io.StringIO) -> None:
    front.gateway.failing = StoreUnavailable("no broker at 10.0.0.1")
    await front.submit()

    assert "StoreUnavailable: no broker at 10.0.0.1" in logged.getvalue()


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("api_key", "x", HIDDEN),
        ("new_password", "x", HIDDEN),
        ("client_token", "x", HIDDEN),
        ("image_bytes", b"x", HIDDEN),
        ("extracted_fields", {"a": "b"}, HIDDEN),
        ("said", "the key idv_live_abc_DEF9 is bad", f"the key {HIDDEN} is bad"),
        ("said", "whsec_AAAA/+=", HIDDEN),
        ("content", b"12345", "[5 bytes]"),
        ("count", 5, 5),
        ("status", "APPROVED", "APPROVED"),
    ],
)
def test_what_is_secret_is_hidden(logged: io.StringIO, key: str, value: Any, shown: Any) -> None:
    structlog.get_logger("test").info("said", **{key: value})

    assert lines(logged)[-1][key] == shown


def test_a_line_stays_one_line(logged: io.StringIO) -> None:
    structlog.get_logger("test").info("said", subject="a\r\n\x1b[31mfake")

    assert len(logged.getvalue().splitlines()) == 1


def test_a_terminal_gets_a_readable_line() -> None:
    class Terminal(io.StringIO):
        """A stream that says it is one."""

        @override
        def isatty(self) -> bool:
            """Say so."""
            return True

    stream = Terminal()
    configure_logging("auto", "info", stream, cached=False)
    structlog.get_logger("test").info("said", count=1)

    assert "said" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_a_level_below_the_chosen_one_is_not_written() -> None:
    stream = io.StringIO()
    configure_logging("json", "warning", stream, cached=False)
    structlog.get_logger("test").info("said")

    assert stream.getvalue() == ""


def test_libraries_write_into_the_same_lines_without_an_errors_words(logged: io.StringIO) -> None:
    try:
        int(CANARY)
    except ValueError:
        logging.getLogger("library").exception("it failed with %s", "idv_live_abcdefghij_secret")

    line = lines(logged)[-1]
    assert (line["event"], line["logger"], line["error"]) == (
        f"it failed with {HIDDEN}",
        "library",
        "ValueError",
    )
    assert CANARY not in logged.getvalue()


def test_libraries_are_heard_from_warning_on_and_wholly_at_debug(logged: io.StringIO) -> None:
    library = logging.getLogger("faust.agents.agent")
    configure_logging("json", "info", logged, cached=False)
    library.info("[^--Agent: x]: Starting...")
    library.warning("it crashed")
    at_info = [line["event"] for line in lines(logged)]
    configure_logging("json", "debug", logged, cached=False)
    library.info("[^--Agent: x]: Starting...")

    assert at_info == ["it crashed"]
    assert lines(logged)[-1]["event"] == "[^--Agent: x]: Starting..."


def test_a_timer_that_is_late_on_a_busy_machine_is_no_news(logged: io.StringIO) -> None:
    configure_logging("json", "info", logged, cached=False)
    logging.getLogger("mode.timers").warning("Timer %s is overlapping (interval=%r runtime=%r)", "x", 1, 2)

    assert logged.getvalue() == ""


async def test_a_line_names_the_tenant_whose_record_is_in_work(logged: io.StringIO) -> None:
    log, go_on = structlog.get_logger("test"), asyncio.Event()

    async def outlive() -> None:
        log.info("inside")
        await go_on.wait()
        log.info("left over")

    with tenant_scope(ACME):
        left_over = asyncio.create_task(outlive())
        await asyncio.sleep(0)
        with tenant_scope(GLOBEX):
            log.info("within")
        logging.getLogger("aiokafka").warning("library")
        log.info("said", tenant_id="ten_said")
    go_on.set()
    await left_over
    log.info("behind")

    tenants = {line["event"]: line.get("tenant_id") for line in lines(logged)}
    assert tenants == {
        "inside": ACME, "within": GLOBEX, "library": ACME, "said": "ten_said", "left over": None,
        "behind": None,
    }  # fmt: skip
