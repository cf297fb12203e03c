"""A client that an ordinary generator makes from the served description works against the service."""

import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.http.session_steps import open_page, publish_flow
from tests.http.support import PATH, TEST, Front, build_body, open_front

PACKAGE = "generated_veristream_client"

CONFIG = {
    "package_name_override": PACKAGE,
    "post_hooks": [],
    "content_type_overrides": {
        "application/yaml": "application/json",
        "application/x-ndjson": "application/octet-stream",
        "text/csv": "application/octet-stream",
    },
}
"""Nothing of the generator's own is changed but the name, the hooks, which would format the code, and that it
does not know YAML, NDJSON and CSV."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.CompletedProcess[str]]:
    """The run of the generator over the served description; its client can be imported."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_bytes(asyncio.run(served_description()))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    command = [
        sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--path",
        "openapi.json", "--config", "config.json", "--output-path", PACKAGE,
    ]  # fmt: skip
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield run
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


async def served_description() -> bytes:
    """The bytes of `/v1/openapi.json`."""
    async with open_front() as front:
        return (await front.ask("GET", "/v1/openapi.json", None)).body


def part(name: str) -> ModuleType:
    """A module of the generated client."""
    return importlib.import_module(f"{PACKAGE}.{name}")


def client_of(front: Front, token: str) -> Any:
    """A generated client that presents a token; no proxy of this machine is asked."""
    return part("client").AuthenticatedClient(
        base_url=front.url, token=token, httpx_args={"trust_env": False}
    )


def test_the_generator_makes_a_client_without_a_warning(
    generated: subprocess.CompletedProcess[str],
) -> None:
    assert (generated.returncode, generated.stderr) == (0, "")
    assert "arning" not in generated.stdout


@pytest.mark.usefixtures("generated")
async def test_the_generated_client_posts_a_verification_and_gets_its_decision(front: Front) -> None:
    body = part("models").SubmitBody.from_dict(build_body("sim:reject:DOCUMENT_EXPIRED"))

    with client_of(front, TEST) as client:
        post = part("api.verifications.post_verifications").sync_detailed
        first = await asyncio.to_thread(post, client=client, body=body, idempotency_key="k-1")
        again = await asyncio.to_thread(post, client=client, body=body, idempotency_key="k-1")
        read = part("api.verifications.get_verifications_verification_id").sync
        found = await asyncio.to_thread(read, first.parsed.verification_id, client=client)

    assert (int(first.status_code), int(again.status_code)) == (201, 200)
    assert (str(first.parsed.status), str(first.parsed.decision)) == ("REJECTED", "BLOCK")
    assert [str(reason.code) for reason in first.parsed.reasons] == ["DOCUMENT_EXPIRED"]
    assert first.parsed == again.parsed == found


@pytest.mark.usefixtures("generated")
async def test_the_generated_client_reads_a_problem_as_one(front: Front) -> None:
    body = part("models").SubmitBody.from_dict(build_body("sim:approved", selfie_image_base64="@"))

    with client_of(front, TEST) as client:
        post = part("api.verifications.post_verifications").sync
        result = await asyncio.to_thread(post, client=client, body=body)

    assert (str(result.code), result.errors[0].pointer) == ("IMAGE_UNDECODABLE", "/selfie_image_base64")


@pytest.mark.usefixtures("generated")
async def test_the_generated_client_sends_the_picture_of_a_document(front: Front) -> None:
    page = await open_page(front, await publish_flow(await front.sign_in()))
    await page.consent()
    body = part("models").CaptureImageBody.from_dict(build_body()["document"])

    with client_of(front, page.opened["client_token"]) as client:
        put = part("api.capture.put_capture_document").sync_detailed
        result = await asyncio.to_thread(put, client=client, body=body)

    assert int(result.status_code) == 200
    assert (await page.view())["document"]["accepted"] == result.parsed.accepted


@pytest.mark.usefixtures("generated")
async def test_the_generated_client_gets_evidence_as_bytes(front: Front) -> None:
    owner = await front.sign_in()
    made = (await front.ask("POST", PATH, TEST, json=build_body())).json
    image = next(one for one in made["evidence"] if one["kind"] == "IMAGE")
    cookies = {"service_session": owner.cookie}

    with part("client").Client(
        base_url=front.url, cookies=cookies, httpx_args={"trust_env": False}
    ) as client:
        get = part("api.verifications.get_verifications_verification_id_evidence_evidence_id").sync
        result = await asyncio.to_thread(get, made["verification_id"], image["id"], client=client)

    content = result if isinstance(result, bytes) else result.payload.read()
    assert content.startswith(b"\x89PNG")


TWO_BODIES = {"policies.put_policies_name_draft", "policies.post_policies_name_validate"}
"""Routes that take YAML or JSON: the generator forgets to import `Unset` where a body has two media types."""


@pytest.mark.usefixtures("generated")
def test_every_module_of_the_generated_client_can_be_imported() -> None:
    folder = Path(str(part("api").__file__)).parent
    names = [".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")]

    assert len(names) > 80
    assert set(names) >= TWO_BODIES
    for name in sorted(set(names) - TWO_BODIES):
        part(f"api.{name}".removesuffix(".__init__"))
