"""The console's webhooks: endpoints, the delivery log, and a delivery with its attempts."""

import re
from html import unescape

import pytest

from schemas.people import Role
from schemas.webhooks import StoredDelivery
from streams.ports.records import RecordKind
from tests.builders import ACME
from tests.http.console import HTML, enter, open_page
from tests.http.support import FOREIGN, Front
from tests.http.test_deliveries import ANSWERED, failed
from tests.http.test_webhooks import SECRET, create

PATH = "/console/webhooks"
CANARY = '<img src=x onerror="alert(1)">'


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.REVIEWER])
async def test_endpoints_are_shown_in_their_mode_and_as_text(front: Front, role: Role) -> None:
    who = await enter(front, role)
    endpoint = await create(front, description=CANARY, url='https://receiver.example/"><img/src=x>')

    live, test = await open_page(who, PATH), await open_page(who, f"{PATH}?livemode=false")
    one = await open_page(who, f"{PATH}/{endpoint['endpoint_id']}")

    assert [page.status for page in (live, test, one)] == [200, 200, 200]
    assert endpoint["endpoint_id"] not in live.body.decode()
    assert endpoint["endpoint_id"] in test.body.decode()
    for page in (test, one):
        assert "<img" not in page.body.decode().replace('<img src="/assets', "")
        assert "&lt;img src=x onerror" in page.body.decode()
        assert SECRET not in page.body.decode()


async def test_a_log_shows_what_was_sent_by_status_and_a_delivery_its_answer(front: Front) -> None:
    who = await enter(front)
    endpoint = await create(front)
    page = f"{PATH}/{endpoint['endpoint_id']}"
    delivery_id = await failed(front, endpoint, answer=f"{ANSWERED} {CANARY}")

    log = (await open_page(who, page)).body.decode()
    none = (await open_page(who, f"{page}?status=DELIVERED")).body.decode()
    sent = await open_page(who, f"{PATH}/deliveries/{delivery_id}")

    assert (log.count("data-row="), none.count("data-row=")) == (1, 0)
    assert ANSWERED not in log
    assert (sent.status, sent.body.decode().count("data-attempt")) == (200, 1)
    assert ANSWERED in sent.body.decode()
    assert "<img src=x" not in sent.body.decode()
    stored = await front.stores.records.get(ACME, RecordKind.DELIVERY, delivery_id)
    payload = StoredDelivery.from_bytes(stored.body).payload
    shown = re.search(r'data-slot="body"><bdi>(.*?)</bdi>', sent.body.decode())
    assert shown is not None
    assert (unescape(shown[1]), "verification.completed" in payload) == (payload, True)
    assert f'data-send="POST /v1/webhooks/deliveries/{delivery_id}/replay"' in sent.body.decode()


async def test_older_deliveries_follow_with_the_same_status(front: Front) -> None:
    who = await enter(front)
    endpoint = await create(front)
    for number in range(26):
        await failed(front, endpoint, f"number {number}")

    first = (await open_page(who, f"{PATH}/{endpoint['endpoint_id']}?status=FAILED")).body.decode()
    link = first.partition('<div class="under">')[2].partition('href="')[2].partition('"')[0]
    second = (await open_page(who, link.replace("&amp;", "&"))).body.decode()

    assert (first.count("data-row="), second.count("data-row=")) == (25, 1)


async def test_what_is_not_the_tenants_is_not_found_and_a_wrong_status_refused(front: Front) -> None:
    who = await enter(front)
    own, foreign = await create(front), await create(front, FOREIGN)

    hidden = await open_page(who, f"{PATH}/{foreign['endpoint_id']}")
    refused = await open_page(who, f"{PATH}/{own['endpoint_id']}?status=LOST")

    assert (hidden.status, refused.status, refused.headers["Content-Type"]) == (404, 422, HTML)
