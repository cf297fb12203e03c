"""The commands `veristream policy`: validate, show and publish the file of a transaction policy."""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from app.cli.options import AsJson
from app.process.output import say_json, say_pairs
from app.process.startup import CannotStart
from schemas.problems import Refused

if TYPE_CHECKING:
    from schemas.policy_documents import PolicyDocument

policies = typer.Typer(
    no_args_is_help=True, help="Policies of transactions, as files: check and publish them."
)

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The policy, YAML or JSON; - is stdin.")]
_REFUSED: Final = 1
"""Exit status of a policy with errors; 2 is a command that could not do its work."""
_ANSWER_S: Final = 30.0
"""How long one answer may take."""


@policies.command("validate")
def policy_validate(file: PolicyFile, as_json: AsJson = False) -> None:
    """Load a policy and run its tests; needs no deployment. Exit status 1: it has errors, each on a line.

    Try:

      veristream policy validate policy.yaml

      veristream policy validate policy.yaml --json
    """
    text = _read(file)
    document = _loaded(file, text, as_json=as_json)
    say_pairs(_summary(text, document), as_json=as_json)


@policies.command("show")
def policy_show(file: PolicyFile, as_json: AsJson = False) -> None:
    """Print a policy in its normal form: every default written out, no comments. Needs no deployment.

    Try:

      veristream policy show policy.yaml

      veristream policy show policy.yaml --json
    """
    from streams.policies.printing import plain_policy, print_policy

    document = _loaded(file, _read(file), as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps(plain_policy(document), indent=2, default=float) + "\n")
    else:
        sys.stdout.write(print_policy(document).decode())


@policies.command("publish")
def policy_publish(
    file: PolicyFile,
    key: Annotated[
        str,
        typer.Option("--key", envvar="VERISTREAM_KEY", help="A tenant's key with policies:write."),
    ],
    url: Annotated[
        str, typer.Option("--url", envvar="VERISTREAM_URL", help="Address of the running service.")
    ] = "http://127.0.0.1:8080",
    as_json: AsJson = False,
) -> None:
    """Make a file the draft of a running service and publish it; a text in force already changes nothing.

    Try:

      veristream policy publish policy.yaml --url https://id.example.org
    """
    text = _read(file)
    _loaded(file, text, as_json=as_json)
    published = asyncio.run(_publish(file, text, url, key, as_json=as_json))["published"]
    say_pairs({"revision": published["revision"], "sha256": published["sha256"]}, as_json=as_json)


def _read(file: Path) -> bytes:
    from streams.policies.reading.parsing import MOST_BYTES

    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise CannotStart(f"{file} cannot be read: {error.strerror}") from error


def _loaded(file: Path, text: bytes, *, as_json: bool) -> "PolicyDocument":
    from streams.policies.loading import load

    try:
        return load(text)
    except Refused as error:
        problems = [problem.model_dump(exclude_none=True) for problem in error.refusal.errors]
        _end_refused(file, problems, as_json=as_json)


def _end_refused(file: Path, problems: list[dict[str, Any]], *, as_json: bool) -> NoReturn:
    """Print every problem and end with the status of a refused policy."""
    if as_json:
        say_json({"valid": False, "errors": problems})
    for one in () if as_json else problems:
        place = f"{file}:{one.get('line', 1)}:{one.get('column', 1)}"
        sys.stdout.write(f"{place}: {one.get('rule', one['code'])}: {one['message']}\n")
    raise typer.Exit(_REFUSED)


def _summary(text: bytes, document: "PolicyDocument") -> dict[str, Any]:
    from streams.policies.loading import digest

    counts = {name: len(getattr(document, name)) for name in ("features", "checks", "rules", "tests")}
    return {"valid": True, "sha256": digest(text), **counts}


async def _publish(file: Path, text: bytes, url: str, key: str, *, as_json: bool) -> dict[str, Any]:
    from aiohttp import ClientError, ClientSession, ClientTimeout

    own = {"Authorization": f"Bearer {key}"}
    try:
        async with ClientSession(url, headers=own, timeout=ClientTimeout(total=_ANSWER_S)) as session:
            yaml = {"Content-Type": "application/yaml"}
            for method, suffix, sent in (
                ("PUT", "draft", {"data": text, "headers": yaml}),
                ("POST", "publish", {"json": {}}),
            ):
                async with session.request(method, f"/v1/policies/transactions/{suffix}", **sent) as answer:
                    answered: dict[str, Any] = await answer.json(content_type=None)
                if answered.get("code") == "POLICY_INVALID":
                    _end_refused(file, answered["errors"], as_json=as_json)
                if not answer.ok:
                    raise CannotStart(f"{url} refused it: {answered.get('code')}: {answered.get('detail')}")
    except (ClientError, TimeoutError, ValueError) as error:
        raise CannotStart(f"{url} does not answer as the service would: {error}") from error
    return answered
