"""docker-compose.yml and the Dockerfile hold their rules, and the rules would notice if they did not.

No container engine runs these files here; what they hand to Kafka and Cassandra is tried on the real ones in
tests/engines/test_deploy_files.py.
"""

import asyncio
import copy
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from app.adapters.security.crypto import RootKey
from app.cli.main import app as command_line
from app.composition.agents import AGENTS
from app.settings import PREFIX, Settings
from tests.architecture import compose_rules as rules
from tests.architecture import dockerfile_rules as image
from tests.architecture.compose_rules import RULES, Rule, Stack, bytes_of
from tests.documentation import marked

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES = ("kafka", "cassandra", "principals", "roles", "migrate", "front", "worker", "sender")


@cache
def read_stack() -> Stack:
    """The file in the repository, and what the program knows; `changed` makes another of it."""
    read: Any = yaml.safe_load  # untyped
    commands: Any = get_command(command_line)
    secret = {
        f"{PREFIX}{n.upper()}" for n, f in Settings.model_fields.items() if "Secret" in str(f.annotation)
    }
    return Stack(
        compose=read((ROOT / "docker-compose.yml").read_text(encoding="utf-8")),
        settings=frozenset({f"{PREFIX}{name.upper()}" for name in Settings.model_fields})
        | {f"{name}_FILE" for name in secret},
        secret_settings=frozenset(secret),
        commands=frozenset(commands.commands),
        streams=frozenset(AGENTS),
    )


def changed(name: str, **what: Any) -> Stack:
    """The stack with other values in one service; None takes a key away."""
    stack = read_stack()
    compose = copy.deepcopy(dict(stack.compose))
    service = compose["services"][name] = {**compose["services"][name], **what}
    for key in [key for key, value in service.items() if value is None]:
        del service[key]
    return replace(stack, compose=compose)


def configured(name: str, **variables: str) -> Stack:
    """The stack with other variables in one service."""
    return changed(name, environment={**read_stack().environment(name), **variables})


def test_the_stack_is_what_the_tests_look_at() -> None:
    assert tuple(read_stack().compose["services"]) == SERVICES


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_s69_every_service_holds_every_rule(rule: Rule, name: str) -> None:
    assert rule(read_stack(), name) is None


BROKEN: tuple[tuple[Rule, str, Callable[[], Stack]], ...] = (
    (rules.image_is_pinned, "kafka", lambda: changed("kafka", image="apache/kafka:latest")),
    (rules.image_is_pinned, "kafka", lambda: changed("kafka", image="apache/kafka")),
    (rules.image_is_pinned, "cassandra", lambda: changed("cassandra", image="cassandra:5.0")),
    (rules.nobody_is_root, "front", lambda: changed("front", user="0:0")),
    (rules.nobody_is_root, "front", lambda: changed("front", user="10001:0")),
    (rules.nobody_is_root, "front", lambda: changed("front", user="veristream")),
    (rules.nobody_is_root, "front", lambda: changed("front", user=None)),
    (rules.root_filesystem_is_only_read, "worker", lambda: changed("worker", read_only=False)),
    (rules.root_filesystem_is_only_read, "worker", lambda: changed("worker", read_only=None)),
    (rules.drops_capabilities, "worker", lambda: changed("worker", cap_drop=["NET_RAW"])),
    (rules.drops_capabilities, "worker", lambda: changed("worker", cap_add=["SYS_ADMIN"])),
    (rules.drops_capabilities, "worker", lambda: changed("worker", privileged=True)),
    (rules.drops_capabilities, "worker", lambda: changed("worker", security_opt=[])),
    (rules.memory_is_bounded, "roles", lambda: changed("roles", mem_limit=None)),
    (rules.memory_is_bounded, "roles", lambda: changed("roles", memswap_limit="1g")),
    (rules.heap_fits, "kafka", lambda: changed("kafka", mem_limit="400m", memswap_limit="400m")),
    (rules.heap_fits, "kafka", lambda: configured("kafka", KAFKA_HEAP_OPTS="-Xmx1g")),
    (rules.heap_fits, "cassandra", lambda: configured("cassandra", MAX_HEAP_SIZE="2G")),
    (rules.heap_fits, "cassandra", lambda: changed("cassandra", environment={})),
    (rules.processes_are_bounded, "kafka", lambda: changed("kafka", pids_limit=-1)),
    (rules.health_is_looked_at, "worker", lambda: changed("worker", healthcheck=None)),
    (rules.health_is_looked_at, "worker", lambda: changed("worker", healthcheck={"disable": True})),
    (rules.it_comes_back, "front", lambda: changed("front", restart=None)),
    (rules.signals_reach_it, "front", lambda: changed("front", init=False)),
    (rules.signals_reach_it, "front", lambda: changed("front", stop_grace_period="10s")),
    (rules.signals_reach_it, "front", lambda: changed("front", stop_grace_period=None)),
    (rules.logs_are_bounded, "kafka", lambda: changed("kafka", logging={"driver": "json-file"})),
    (rules.secrets_are_files, "front", lambda: configured("front", SERVICE_KAFKA_PASSWORD="in the open")),  # noqa: S106 - to be found
    (rules.secrets_are_files, "front", lambda: configured("front", SERVICE_ROOT_KEY="in the open")),
    (rules.secrets_are_files, "cassandra", lambda: configured("cassandra", CASSANDRA_PASSWORD="x")),  # noqa: S106 - to be found
    (rules.secrets_are_files, "front", lambda: changed("front", secrets=["root_key"])),
    (rules.settings_exist, "worker", lambda: configured("worker", SERVICE_VISON_WORKERS="2")),
    (rules.settings_exist, "worker", lambda: configured("worker", SERVICE_PORT_FILE="/run/secrets/root_key")),
    (
        rules.nothing_is_for_developers,
        "worker",
        lambda: configured("worker", SERVICE_WEBHOOKS_ALLOW_INSECURE="false"),
    ),
    (rules.it_works_on_the_engines, "front", lambda: changed("front", environment={})),
    (rules.command_exists, "worker", lambda: changed("worker", command=["wroker"])),
    (rules.command_exists, "worker", lambda: changed("worker", command=[])),
    (
        rules.every_stream_is_run,
        "worker",
        lambda: changed("worker", command=["worker", "--streams", "audit"]),
    ),
    (rules.every_stream_is_run, "sender", lambda: changed("sender", command=["worker", "--streams", "post"])),
    (rules.every_stream_is_run, "front", lambda: changed("sender", command=["worker", "--streams", "audit"])),
    (rules.only_the_sender_reaches_out, "worker", lambda: changed("worker", command=["worker"])),
    (rules.only_the_sender_reaches_out, "sender", lambda: changed("sender", command=["worker"])),
    (rules.only_the_sender_reaches_out, "sender", lambda: changed("sender", networks=["engines"])),
    (
        rules.only_the_sender_reaches_out,
        "worker",
        lambda: changed("worker", networks=["engines", "receivers"]),
    ),
    (rules.only_the_front_is_published, "sender", lambda: changed("sender", ports=["9:9"])),
    (rules.only_the_front_is_published, "kafka", lambda: changed("kafka", ports=["9092:9092"])),
    (rules.only_the_front_is_published, "worker", lambda: changed("worker", networks=["published"])),
    (rules.only_the_front_is_published, "worker", lambda: changed("worker", networks=None)),
    (rules.only_the_front_is_published, "front", lambda: changed("front", ports=["8080:8080"])),
    (rules.it_waits_for_what_it_needs, "front", lambda: changed("front", depends_on=None)),
    (
        rules.it_waits_for_what_it_needs,
        "front",
        lambda: changed("front", depends_on={"migrate": {"condition": "service_started"}}),
    ),
    (rules.mounts_are_declared, "kafka", lambda: changed("kafka", volumes=["/etc:/host"])),
    (rules.mounts_are_declared, "front", lambda: changed("front", secrets=["another"])),
    (rules.mounts_are_declared, "kafka", lambda: changed("kafka", configs=[{"source": "x", "target": "/x"}])),
    (rules.keys_are_given_by_need, "sender", lambda: changed("sender", secrets=["sender_key", "root_key"])),
    (rules.keys_are_given_by_need, "sender", lambda: changed("sender", secrets=["root_key"])),
    (rules.keys_are_given_by_need, "worker", lambda: changed("worker", secrets=["sender_key"])),
    (rules.keys_are_given_by_need, "kafka", lambda: changed("kafka", secrets=["root_key"])),
    (
        rules.its_name_at_kafka_is_its_own,
        "sender",
        lambda: configured("sender", SERVICE_KAFKA_USERNAME="worker"),
    ),
    (rules.its_name_at_kafka_is_its_own, "front", lambda: changed("front", environment={})),
    (
        rules.its_name_at_kafka_is_its_own,
        "sender",
        lambda: changed("sender", secrets=["sender_key", "kafka_sender_password", "kafka_worker_password"]),
    ),
    (rules.its_proxies_are_named, "front", lambda: configured("front", SERVICE_TRUSTED_PROXIES="0.0.0.0/0")),
    (rules.its_proxies_are_named, "front", lambda: configured("front", SERVICE_TRUSTED_PROXIES="")),
)


@pytest.mark.parametrize(("rule", "name", "broken"), BROKEN)
def test_a_broken_rule_is_noticed(rule: Rule, name: str, broken: Callable[[], Stack]) -> None:
    assert rule(broken(), name) is not None


def test_every_rule_is_known_to_notice_something() -> None:
    assert {rule.__name__ for rule, _, _ in BROKEN} == {rule.__name__ for rule in RULES}


HARMLESS = {"image", "build", "deploy", "tmpfs", "volumes"}
"""What a service may lack without a rule; the image decides by which rules it is judged."""


@pytest.mark.parametrize("key", sorted(set(read_stack().service("front")) - HARMLESS))
def test_whatever_is_taken_away_from_the_front_is_missed(key: str) -> None:
    without = changed("front", **{key: None})

    assert [rule.__name__ for rule in RULES if rule(without, "front")]


@given(number=st.integers(1, 10**6), unit=st.sampled_from(["", "k", "m", "g", "K", "M", "G", "mb"]))
def test_a_size_is_read_as_the_engine_reads_it(number: int, unit: str) -> None:
    powers = {"": 0, "k": 1, "m": 2, "g": 3}

    assert bytes_of(f"{number}{unit}") == number * 1024 ** powers[unit.lower().removesuffix("b")]


@given(st.text(min_size=1).filter(lambda text: not re.fullmatch(r"\d+[bkmgBKMG]?[bB]?", text)))
def test_a_size_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        bytes_of(text)


def test_engines_have_no_way_out() -> None:
    assert read_stack().compose["networks"]["engines"] == {"internal": True}


def test_secrets_come_from_the_folder_that_git_and_docker_ignore() -> None:
    files = [secret["file"] for secret in read_stack().compose["secrets"].values()]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert {str(Path(file).parent) for file in files} == {"secrets"}
    assert "secrets/" in ignored
    assert "*" in sent
    assert "!secrets" not in sent


def test_what_is_mounted_from_the_repository_is_there() -> None:
    configs = read_stack().compose["configs"].values()

    assert [c["file"] for c in configs if not (ROOT / c["file"]).is_file()] == []


def test_what_is_kept_is_kept_in_named_volumes() -> None:
    stack = read_stack()
    stored = {name: stack.service(name).get("volumes", []) for name in SERVICES}

    assert stored["kafka"] == ["kafka:/var/lib/kafka/data"]
    assert stored["cassandra"] == ["cassandra:/var/lib/cassandra"]
    blobs = f"blobs:{stack.environment('front')['SERVICE_BLOBS_DIR']}"
    assert stored["front"] == stored["sender"] == [blobs]
    assert stored["worker"] == [blobs, "checkpoints:/var/lib/veristream/audit-checkpoints"]


def test_a_worker_is_asked_at_the_port_it_answers_on() -> None:
    stack = read_stack()
    ports = {"front": stack.environment("front")["SERVICE_PORT"]}
    for name in ("worker", "sender"):
        ports[name] = stack.environment(name)["SERVICE_HEALTH_PORT"]

    for name, port in ports.items():
        assert f"http://127.0.0.1:{port}/readyz" in stack.service(name)["healthcheck"]["test"][-1]


@pytest.mark.parametrize("rule", image.DOCKERFILE_RULES, ids=lambda rule: rule.__name__)
def test_s69_the_image_holds_every_rule(rule: Callable[..., str | None]) -> None:
    assert rule(image.read_dockerfile(DOCKERFILE)) is None


BROKEN_IMAGES = (
    (image.bases_are_pinned, "FROM python:3.11.14-slim-bookworm AS build", "FROM python:latest AS build"),
    (image.bases_are_pinned, "FROM python:3.11.14-slim-bookworm\n", "FROM python:3.11-slim\n"),
    (image.it_ends_as_nobody, "USER 10001:10001", "USER root"),
    (image.it_ends_as_nobody, "USER 10001:10001\n", ""),
    (image.it_ends_as_nobody, "USER 10001:10001", "USER 0:0"),
    (image.nothing_is_fetched, "COPY app app", "ADD https://example.test/app.tar.gz app"),
    (image.nothing_is_fetched, "WORKDIR /src", "RUN curl -o x https://example.test/x"),
    (image.packages_have_hashes, "--require-hashes -r", "-r"),
    (image.packages_have_hashes, "--no-deps .", "."),
    (image.no_compiler_is_in_the_image, "USER 10001", "RUN apt-get install -y gcc\nUSER 10001"),
    (image.it_starts_the_program, 'ENTRYPOINT ["veristream"]', "ENTRYPOINT veristream"),
    (image.no_secret_is_baked_in, "PYTHONUNBUFFERED=1", "SERVICE_ROOT_KEY=0123"),
    (image.health_is_asked_elsewhere, "USER 10001", "HEALTHCHECK CMD true\nUSER 10001"),
)


@pytest.mark.parametrize(("rule", "original", "broken"), BROKEN_IMAGES)
def test_a_broken_image_is_noticed(rule: Callable[..., str | None], original: str, broken: str) -> None:
    assert original in DOCKERFILE
    assert rule(image.read_dockerfile(DOCKERFILE.replace(original, broken))) is not None


def test_every_rule_of_the_image_is_known_to_notice_something() -> None:
    assert {rule.__name__ for rule, _, _ in BROKEN_IMAGES} == {r.__name__ for r in image.DOCKERFILE_RULES}


def test_the_image_sets_only_variables_the_program_knows() -> None:
    text = " ".join(image.of(image.read_dockerfile(DOCKERFILE), "ENV"))
    variables = set(re.findall(rf"\b{PREFIX}\w+", text))

    assert variables
    assert variables <= read_stack().settings


@pytest.mark.parametrize("text", ["", "RUN true", "FROM x:1.2.3\nfetch it", "FROM x:1.2.3\nRUN a \\"])
def test_a_file_the_reader_does_not_understand_is_refused(text: str) -> None:
    with pytest.raises(image.NotUnderstood):
        image.read_dockerfile(text)


def test_the_image_and_its_label_are_of_this_version() -> None:
    version = re.search(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert version is not None

    assert f'image.version="{version[1]}"' in DOCKERFILE
    assert read_stack().service("front")["image"] == f"veristream:{version[1]}"


async def test_the_documented_block_makes_every_secret_and_never_replaces_one(tmp_path: Path) -> None:
    """Its files can be read in a container, under any user; the folder only by its owner."""
    command = tmp_path / ".venv" / "bin" / "veristream"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m app "$@"\n', encoding="ascii")
    command.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    async def run() -> dict[str, str]:
        made = await asyncio.create_subprocess_exec(
            "bash", "-euc", marked("secrets").text, cwd=tmp_path, env=environment
        )
        assert await made.wait() == 0
        return {
            path.name: path.read_text(encoding="ascii").strip() for path in (tmp_path / "secrets").iterdir()
        }

    first, again = await run(), await run()

    assert first == again
    assert set(first) == set(read_stack().compose["secrets"])
    assert {len(bytes.fromhex(secret)) for secret in first.values()} == {32}
    assert len(set(first.values())) == len(first)
    root_key = RootKey(bytes.fromhex(first["root_key"]))
    assert bytes.fromhex(first["sender_key"]) == root_key.sender_key().secret
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()} == {0o444}


async def test_images_are_pinned_by_the_digests_their_registries_tell(tmp_path: Path) -> None:
    """The script is run with a stand-in for Docker, for there is no registry here."""
    (tmp_path / "deploy").mkdir()
    for name in ("docker-compose.yml", "Dockerfile", "deploy/pin-images.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    digest = "sha256:" + "0f" * 32
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho {digest}\n", encoding="ascii")
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    for _ in range(2):
        run = await asyncio.create_subprocess_exec(
            "sh", "deploy/pin-images.sh", cwd=tmp_path, env=environment
        )
        assert await run.wait() == 0

    compose = (tmp_path / "docker-compose.yml").read_text(encoding="utf-8")
    dockerfile = (tmp_path / "Dockerfile").read_text(encoding="utf-8")
    assert compose.count(f"@{digest}") == 2
    assert dockerfile.count(f"python:3.11.14-slim-bookworm@{digest}") == 2
    read: Any = yaml.safe_load  # untyped
    stack = replace(read_stack(), compose=read(compose))
    assert {rules.image_is_pinned(stack, name) for name in SERVICES} == {None}
    assert image.bases_are_pinned(image.read_dockerfile(dockerfile)) is None
