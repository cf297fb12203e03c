"""The commands `veristream policy`: validate, show, backtest and publish the file of a transaction policy."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from app.cli.options import AsJson
from app.process.output import err, say_json, say_pairs, say_rows
from app.process.startup import CannotStart
from schemas.problems import Refused

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from schemas.policy_documents import PolicyDocument

policies = typer.Typer(
    no_args_is_help=True, help="Policies of transactions, as files: check, try and publish them."
)

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The policy, YAML or JSON; - is stdin.")]
Key = Annotated[
    str, typer.Option("--key", envvar="VERISTREAM_KEY", help="A tenant's key with policies:write.")
]
Url = Annotated[str, typer.Option("--url", envvar="VERISTREAM_URL", help="Address of the running service.")]
_URL: Final = "http://127.0.0.1:8080"
_REFUSED: Final = 1
"""Exit status of a policy with errors; 2 is a command that could not do its work."""
_ANSWER_S: Final = 30.0
"""How long one answer may take."""
_LOOK_S: Final = 0.5
"""Between two looks at a backtest."""


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
    key: Key,
    url: Url = _URL,
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


@policies.command("backtest")
def policy_backtest(
    file: PolicyFile,
    key: Key,
    url: Url = _URL,
    days: Annotated[int, typer.Option("--days", min=1, max=400, help="How far back it looks.")] = 30,
    subject: Annotated[
        str | None, typer.Option("--subject", help="Transactions of one subject alone.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a file the draft of a running service and decide the stored transactions again by it.

    Nothing else changes: it prints how many decisions would have been others. Live or test data, as the key.

    Try:

      veristream policy backtest policy.yaml --days 7 --url https://id.example.org
    """
    text, now = _read(file), datetime.now(UTC)
    _loaded(file, text, as_json=as_json)
    asked = {"from": (now - timedelta(days=days)).isoformat(), "to": now.isoformat()}
    if subject is not None:
        asked["subject_id"] = subject
    backtest = asyncio.run(_backtest(file, text, url, key, asked, as_json=as_json))
    if backtest["status"] != "DONE":
        raise CannotStart(f"the backtest is {backtest['status']}: {backtest['failure']}")
    if as_json:
        say_json(backtest)
    else:
        _say_result(backtest)


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
    async with _service(url, key) as service:
        await service.draft(file, text, as_json=as_json)
        return await service.ask("POST", "publish", json={})


async def _backtest(
    file: Path, text: bytes, url: str, key: str, asked: dict[str, Any], *, as_json: bool
) -> dict[str, Any]:
    async with _service(url, key) as service:
        await service.draft(file, text, as_json=as_json)
        backtest = await service.ask("POST", "backtests", json={"draft": True, **asked})
        path = f"backtests/{backtest['backtest_id']}"
        while backtest["finished_at"] is None:
            await asyncio.sleep(_LOOK_S)
            backtest = await service.ask("GET", path)
            progress = backtest["progress"]
            if not as_json and progress["total"]:
                err.print(f"{progress['done']} of {progress['total']} transactions", highlight=False)
    return backtest


@dataclass(frozen=True, slots=True)
class _Service:
    """A running service, asked with a tenant's key."""

    session: "ClientSession"
    url: str

    async def ask(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        """Return what was answered about the policy.

        Raises:
            CannotStart: It was refused.
        """
        answered = await self._answer(method, path, sent)
        if "code" in answered:
            raise CannotStart(f"{self.url} refused it: {answered['code']}: {answered.get('detail')}")
        return answered

    async def draft(self, file: Path, text: bytes, *, as_json: bool) -> None:
        """Make the text the draft; one that the service refuses ends the command with every error."""
        sent = {"data": text, "headers": {"Content-Type": "application/yaml"}}
        answered = await self._answer("PUT", "draft", sent)
        if answered.get("code") == "POLICY_INVALID":
            _end_refused(file, answered["errors"], as_json=as_json)
        if "code" in answered:
            raise CannotStart(f"{self.url} refused it: {answered['code']}: {answered.get('detail')}")

    async def _answer(self, method: str, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        async with self.session.request(method, f"/v1/policies/transactions/{path}", **sent) as answer:
            answered: dict[str, Any] = await answer.json(content_type=None)
        return answered if answer.ok else {"code": str(answer.status), **answered}


@asynccontextmanager
async def _service(url: str, key: str) -> AsyncIterator[_Service]:
    from aiohttp import ClientError, ClientSession, ClientTimeout

    own, limit = {"Authorization": f"Bearer {key}"}, ClientTimeout(total=_ANSWER_S)
    try:
        async with ClientSession(url, headers=own, timeout=limit) as session:
            yield _Service(session, url)
    except (ClientError, TimeoutError, ValueError) as error:
        raise CannotStart(f"{url} does not answer as the service would: {error}") from error


def _say_result(backtest: dict[str, Any]) -> None:
    """Print how the text differs, for a person."""
    result = backtest["result"]
    say_pairs({name: result[name] for name in ("evaluated", "changed", "unknown")}, as_json=False)
    rows = [(before, after, n) for before, row in result["matrix"].items() for after, n in row.items()]
    say_rows(("BEFORE", "AFTER", "TRANSACTIONS"), rows)
    say_rows(("RULE", "HITS", "BEFORE"), [tuple(one.values()) for one in result["rules"]])
