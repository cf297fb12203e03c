"""Hostile images through the running service: refused or evaluated, never a 500."""

from typing import Any

import pytest

from tests.journeys.service import Service, encoded, small_request
from tests.specimens import hostile

pytestmark = pytest.mark.asyncio(loop_scope="session")

REFUSED = hostile.refused()
HEAVY = hostile.heavy()


@pytest.mark.parametrize("name", REFUSED)
async def test_an_undecodable_document_is_a_400_at_its_place(service: Service, name: str) -> None:
    body = small_request("sim:approved@hostile")
    body["document"]["image_base64"] = encoded(REFUSED[name]())

    status, problem, _ = await service.post(body, key=service.test_key)

    assert (status, problem["code"]) == (400, "IMAGE_UNDECODABLE")
    assert problem["errors"][0]["pointer"] == "/document/image_base64"


@pytest.mark.parametrize("name", HEAVY)
async def test_a_costly_image_is_evaluated_or_refused_clearly(service: Service, name: str) -> None:
    body: dict[str, Any] = small_request("sim:approved@heavy")
    body["selfie_image_base64"] = encoded(HEAVY[name]())

    status, answer, _ = await service.post(body, key=service.test_key)

    assert (status, answer.get("code")) in {
        (201, None),
        (400, "IMAGE_UNDECODABLE"),
        (413, "PAYLOAD_TOO_LARGE"),
    }
