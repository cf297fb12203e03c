"""S62: the bodies of one tenant never take all the memory that the front has for bodies."""

import asyncio

from tests.http.support import FOREIGN, TEST, build_body, open_front
from tests.http.test_wire import HOST

MEBIBYTE = 1024 * 1024


def unfinished(key: str, sent_bytes: int) -> bytes:
    """A request whose last byte does not come."""
    head = f"POST /v1/verifications HTTP/1.1\r\nAuthorization: Bearer {key}\r\n".encode() + HOST
    fields = f"Content-Type: application/json\r\nContent-Length: {sent_bytes + 1}\r\n\r\n".encode()
    return head + fields + b" " * sent_bytes


async def test_s62_a_tenant_whose_bodies_never_end_leaves_half_of_the_memory_to_others() -> None:
    async with open_front(body_budget_bytes=4 * MEBIBYTE) as front:
        pipes = [await asyncio.open_connection("127.0.0.1", front.port) for _ in range(5)]
        for _, writer in pipes:
            writer.write(unfinished(TEST, MEBIBYTE - 1))
        answers = asyncio.as_completed([reader.readline() for reader, _ in pipes], timeout=60)
        refused = [await next(answers) for _ in range(3)]
        other = await front.submit(build_body(), key=FOREIGN)
        for _, writer in pipes:
            writer.close()

    assert [answer.split()[1] for answer in refused] == [b"503"] * 3
    assert other.status == 201
