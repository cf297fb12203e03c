"""Nobody uses the embedded broker without a credential, and nobody learns or guesses one."""

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from confluent_kafka import Consumer, Producer
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v0.request import SaslHandshakeRequest as OldHandshake
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from structlog.testing import capture_logs

from app.broker import sign_in as broker_sign_in
from app.broker.connection import MAX_READER_CONNECTIONS, SIGN_IN_KEYS
from app.broker.errors import UserNameTaken, UsersUnusable, UserUnknown
from app.broker.scram import Mechanism
from app.broker.users import OWNER, UserFiles
from tests.broker.builders import Talk, one
from tests.broker.frames import SERVED
from tests.broker.requests import fetch_request, produce_request
from tests.broker.signing_in import READABLE, Guarded, guarded_broker, proofs, sign_in
from tests.broker.test_hostile_bytes import framed
from tests.broker.test_versions import smallest

BOTH = pytest.mark.parametrize("mechanism", list(Mechanism))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep what the broker logs off the screen."""
    with capture_logs():
        yield


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A broker that asks for a sign-in."""
    async with guarded_broker(tmp_path) as running:
        yield running


async def test_a_client_that_has_not_signed_in_is_answered_nothing(guarded: Guarded) -> None:
    served = dict(SERVED)
    for key in served.keys() - SIGN_IN_KEYS:
        async with await Talk.to(guarded.broker.port) as talk:
            talk.send(smallest(load_request_schema(key, served[key])))
            assert await talk.closed()


async def test_a_plain_client_neither_reads_nor_writes(guarded: Guarded) -> None:
    consumer = AIOKafkaConsumer(READABLE, bootstrap_servers=guarded.address)
    producer = AIOKafkaProducer(bootstrap_servers=guarded.address)
    for client in (consumer, producer):
        with pytest.raises(KafkaError):
            await client.start()
        await client.stop()
    assert guarded.broker._topics.get(READABLE) is None


@BOTH
async def test_aiokafka_signs_in_and_writes_and_reads(guarded: Guarded, mechanism: Mechanism) -> None:
    producer = AIOKafkaProducer(**guarded.owner(mechanism))
    await producer.start()
    await producer.send_and_wait(READABLE, b"decided")
    await producer.stop()
    consumer = AIOKafkaConsumer(
        READABLE, **guarded.reader(mechanism), group_id="billing", auto_offset_reset="earliest"
    )
    await consumer.start()
    async with asyncio.timeout(60):
        assert (await consumer.getone()).value == b"decided"
    await consumer.commit()
    await consumer.stop()


@BOTH
async def test_librdkafka_signs_in_and_writes_and_reads(guarded: Guarded, mechanism: Mechanism) -> None:
    await asyncio.to_thread(write_and_read, guarded, mechanism)


def write_and_read(guarded: Guarded, mechanism: Mechanism) -> None:
    """Write as the service and read as a downstream reader."""

    def options(name: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": guarded.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism.value,
            "sasl.username": name,
            "sasl.password": password,
        }

    producer = Producer(options(OWNER, guarded.owner_password))
    producer.produce(READABLE, b"decided")
    assert producer.flush(20) == 0
    reader = options("billing", guarded.reader_password)
    consumer = Consumer({**reader, "group.id": "billing.nightly", "auto.offset.reset": "earliest"})
    consumer.subscribe([READABLE])
    record = consumer.poll(20)
    assert record is not None
    assert (record.error(), record.value()) == (None, b"decided")
    consumer.commit(asynchronous=False)
    consumer.close()


@BOTH
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_of_the_sign_in_works(
    guarded: Guarded, mechanism: Mechanism, version: int
) -> None:
    async with await Talk.to(guarded.broker.port) as talk:
        error = await sign_in(talk, OWNER, guarded.owner_password, mechanism, version)
        assert error is ErrorCode.none
        answer = await talk.ask(produce_request("t", one(b"v")))
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_or_partition


async def test_a_wrong_password_and_an_unknown_user_are_answered_alike(guarded: Guarded) -> None:
    answers = []
    for name, password in (("billing", "wrong"), ("nobody", "wrong"), (OWNER, "")):
        async with await Talk.to(guarded.broker.port) as talk:
            words: Any = load_request_schema(36, 2)
            await talk.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
            first = await talk.ask(words(auth_bytes=f"n,,n={name},r=x".encode()))
            proof = f"c=biws,{first.auth_bytes.decode().split(',')[0]},p={password}AAAA"
            answer = await talk.ask(words(auth_bytes=proof.encode()))
            assert await talk.closed()
        fields = [part[:2] for part in first.auth_bytes.decode().split(",")]
        answers.append((fields, len(first.auth_bytes), answer.error_code, answer.error_message))

    assert answers[0] == answers[1] == answers[2]
    assert answers[0][2] is ErrorCode.sasl_authentication_failed


async def test_an_unknown_user_has_the_same_salt_each_time(guarded: Guarded) -> None:
    async def salt(name: str) -> str:
        async with await Talk.to(guarded.broker.port) as talk:
            await talk.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
            words: Any = load_request_schema(36, 2)
            answer = await talk.ask(words(auth_bytes=f"n,,n={name},r=x".encode()))
            return str(answer.auth_bytes.decode().split(",")[1])

    assert await salt("nobody") == await salt("nobody") != await salt("somebody")
    assert await salt("billing") == await salt("billing")


async def test_wrong_passwords_are_answered_ever_later_and_right_ones_at_once(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taken_s(password: str) -> float:
        start = time.monotonic()
        async with await Talk.to(guarded.broker.port) as talk:
            await sign_in(talk, "billing", password)
        return time.monotonic() - start

    first, second = await taken_s("wrong"), await taken_s("wrong")
    monkeypatch.setattr(broker_sign_in, "FIRST_DELAY_S", 600.0)
    monkeypatch.setattr(broker_sign_in, "MAX_DELAY_S", 600.0)
    wrong = [asyncio.create_task(taken_s("wrong")) for _ in range(5)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(60):  # a delayed answer would take ten times as long
        await taken_s(guarded.reader_password)
    late = [task for task in wrong if task.done()]
    for task in wrong:
        task.cancel()

    assert first >= 0.5
    assert second >= 1.0
    assert late == []


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=billing",
        b"n,,n=billing,r=",
        b"n,a=veristream,n=billing,r=x",
        b"p=tls-unique,,n=billing,r=x",
        b"n,,n=bill=ing,r=x",
        b"n,,n=billing,r=x,tokenauth=true",
        b"n,,m=ext,n=billing,r=x",
        b"n,,n=" + b"b" * 3000 + b",r=x",
    ],
)
async def test_a_malformed_first_message_is_refused(guarded: Guarded, message: bytes) -> None:
    async with await Talk.to(guarded.broker.port) as talk:
        await talk.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        words: Any = load_request_schema(36, 2)
        assert (await talk.ask(words(auth_bytes=message))).error_code is ErrorCode.sasl_authentication_failed
        assert await talk.closed()


async def test_a_proof_of_an_earlier_sign_in_is_worth_nothing(guarded: Guarded) -> None:
    """The server's part of the nonce is fresh, so what was overheard cannot be sent again."""
    words: Any = load_request_schema(36, 2)
    nonces = set()
    for _ in range(3):
        async with await Talk.to(guarded.broker.port) as talk:
            await talk.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
            first = await talk.ask(words(auth_bytes=b"n,,n=billing,r=same"))
            nonces.add(first.auth_bytes.split(b",")[0])
    assert len(nonces) == 3


async def test_an_unserved_mechanism_is_shown_what_is_served(guarded: Guarded) -> None:
    async with await Talk.to(guarded.broker.port) as talk:
        answer = await talk.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")


async def test_nobody_signs_in_twice_or_skips_the_handshake(guarded: Guarded) -> None:
    words: Any = load_request_schema(36, 2)
    async with guarded.talk("billing") as talk:
        again = await talk.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        skipped = await talk.ask(words(auth_bytes=b"n,,n=veristream,r=x"))
    async with await Talk.to(guarded.broker.port) as talk:
        early = await talk.ask(words(auth_bytes=b"n,,n=veristream,r=x"))

    assert {again.error_code, skipped.error_code, early.error_code} == {ErrorCode.illegal_sasl_state}


async def test_a_large_frame_of_one_who_has_not_signed_in_is_not_waited_for(guarded: Guarded) -> None:
    async with await Talk.to(guarded.broker.port) as talk:
        talk.writer.write((100_000).to_bytes(4, "big"))
        assert await talk.closed()


async def test_one_who_does_not_sign_in_is_disconnected(tmp_path: Path) -> None:
    async with (
        guarded_broker(tmp_path, deadline_s=0.3) as guarded,
        guarded.talk("billing") as signed_in,
        await Talk.to(guarded.broker.port) as outsider,
    ):
        assert await outsider.closed()
        assert (await signed_in.ask(fetch_request(READABLE, 0))).responses


async def test_many_who_do_not_sign_in_keep_nobody_out(tmp_path: Path) -> None:
    """The oldest of them have to go at once, long before their time to sign in is over."""
    async with (
        guarded_broker(tmp_path, max_unauthenticated=5, deadline_s=600.0) as guarded,
        AsyncExitStack() as stack,
    ):
        signed_in = await stack.enter_async_context(guarded.talk("billing"))
        idle = [await stack.enter_async_context(await Talk.to(guarded.broker.port)) for _ in range(20)]
        async with asyncio.timeout(60):
            for outsider in idle[:15]:
                assert await outsider.closed()
        async with guarded.talk("billing") as later:
            assert (await later.ask(fetch_request(READABLE, 0))).responses
        assert (await signed_in.ask(fetch_request(READABLE, 0))).responses


async def test_a_deleted_user_is_disconnected_and_signs_in_no_more(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        guarded.files.delete("billing")
        assert await talk.closed()
    async with await Talk.to(guarded.broker.port) as talk:
        error = await sign_in(talk, "billing", guarded.reader_password)
    assert error is ErrorCode.sasl_authentication_failed


async def test_a_user_made_anew_does_not_inherit_a_connection(guarded: Guarded) -> None:
    async with guarded.talk("billing") as talk:
        guarded.files.delete("billing")
        fresh = guarded.files.create("billing", datetime.now(UTC))
        assert await talk.closed()
    async with await Talk.to(guarded.broker.port) as talk:
        assert await sign_in(talk, "billing", fresh) is ErrorCode.none


def test_the_files_are_their_owners_alone_and_hold_no_password_of_a_reader(tmp_path: Path) -> None:
    files = UserFiles(tmp_path / "users")
    owner = files.ensure_owner(datetime.now(UTC))
    reader = files.create("billing", datetime.now(UTC))

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "users").iterdir()}
    assert modes == {"users.json": 0o600, "password": 0o600, "lock": 0o600}
    assert stat.S_IMODE((tmp_path / "users").stat().st_mode) == 0o700
    stored = "".join(path.read_text() for path in (tmp_path / "users").iterdir())
    assert reader not in stored
    assert owner not in files.path.read_text()
    assert files.ensure_owner(datetime.now(UTC)) == files.owner_password() == owner


def test_an_owners_password_that_fits_no_longer_is_drawn_anew_and_readers_stay(tmp_path: Path) -> None:
    files = UserFiles(tmp_path)
    owner = files.ensure_owner(datetime.now(UTC))
    files.create("billing", datetime.now(UTC))
    (tmp_path / "password").write_text("of another backup")

    assert files.ensure_owner(datetime.now(UTC)) not in {owner, "of another backup"}
    assert list(files.readers()) == ["billing"]


@pytest.mark.parametrize(
    "name", ["", "Billing", "1st", "a.b", "veristream", "veristream-v1", "a" * 64, "a,b", "a\n"]
)
def test_a_name_that_could_be_mistaken_is_refused(tmp_path: Path, name: str) -> None:
    files = UserFiles(tmp_path)
    files.ensure_owner(datetime.now(UTC))
    with pytest.raises(UsersUnusable):
        files.create(name, datetime.now(UTC))


def test_a_name_is_given_once_and_the_owner_is_not_deleted(tmp_path: Path) -> None:
    files = UserFiles(tmp_path)
    files.ensure_owner(datetime.now(UTC))
    files.create("billing", datetime.now(UTC))
    with pytest.raises(UserNameTaken):
        files.create("billing", datetime.now(UTC))
    for name in (OWNER, "nobody"):
        with pytest.raises(UserUnknown):
            files.delete(name)


def test_a_damaged_file_is_named_and_not_replaced(tmp_path: Path) -> None:
    files = UserFiles(tmp_path)
    files.ensure_owner(datetime.now(UTC))
    files.path.write_text(json.dumps({"users": {}}))
    with pytest.raises(UsersUnusable, match=r"users\.json"):
        files.ensure_owner(datetime.now(UTC))


@BOTH
async def test_messages_without_a_request_around_them_sign_in_too(
    guarded: Guarded, mechanism: Mechanism
) -> None:
    """As clients do that know only version 0 of the handshake (KIP-43)."""
    async with await Talk.to(guarded.broker.port) as talk:
        handshake = await talk.ask(OldHandshake(mechanism=mechanism.value))
        assert handshake.error_code is ErrorCode.none
        challenge = (await bare(talk, b"n,,n=billing,r=nonce")).decode()
        proof, expected = proofs("n=billing,r=nonce", challenge, guarded.reader_password, mechanism)
        nonce = challenge.split(",")[0]
        assert await bare(talk, f"c=biws,{nonce},p={proof}".encode()) == f"v={expected}".encode()
        assert (await talk.ask(fetch_request(READABLE, 0))).responses


async def test_a_wrong_message_without_a_request_around_it_ends_the_connection(guarded: Guarded) -> None:
    async with await Talk.to(guarded.broker.port) as talk:
        await talk.ask(OldHandshake(mechanism="SCRAM-SHA-256"))
        await bare(talk, b"n,,n=billing,r=nonce")
        talk.writer.write(framed(b"c=biws,r=nonce,p=AAAA"))
        assert await talk.closed()


async def bare(talk: Talk, message: bytes) -> bytes:
    """Send a frame and return the next one."""
    talk.writer.write(framed(message))
    length = int.from_bytes(await talk._reader.readexactly(4), "big")
    return await talk._reader.readexactly(length)


async def test_one_reader_opens_only_so_many_connections(guarded: Guarded) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(MAX_READER_CONNECTIONS):
            await stack.enter_async_context(guarded.talk("billing"))
        async with await Talk.to(guarded.broker.port) as one_more:
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await sign_in(one_more, "billing", guarded.reader_password)
        async with guarded.talk(OWNER) as talk:
            assert (await talk.ask(fetch_request(READABLE, 0))).responses
