"""What docker-compose.yml must hold: a rule takes one service and returns what is wrong with it, or None."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Service = Mapping[str, Any]
Rule = Callable[["Stack", str], str | None]

_UNITS: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE: Final = re.compile(r"(\d+)([bkmg]?)b?", re.IGNORECASE)
_HEAPS: Final = {
    "KAFKA_HEAP_OPTS": re.compile(r"-Xmx(\d+[kmg])"),
    "MAX_HEAP_SIZE": re.compile(r"(\d+[KMG])"),
}
_DIRECT: Final = re.compile(r"-XX:MaxDirectMemorySize=(\d+[kmg])")
_PINNED: Final = re.compile(r"[a-z0-9./-]+:\d+\.\d+\.\d+[a-z0-9.-]*(@sha256:[0-9a-f]{64})?")
_SHARED: Final = {"SERVICE_KAFKA_BOOTSTRAP", "SERVICE_CASSANDRA_CONTACT_POINTS"}
_SENDING: Final = frozenset({"webhooks", "deliveries"})
_SECRET_WORDS: Final = ("PASSWORD", "SECRET", "TOKEN", "ROOT_KEY", "SENDER_KEY")

HEAP_SHARE_MOST: Final = 0.6
"""A Java process needs room beside its heap: threads, code, direct buffers, pages of files it maps."""

STOP_MOST_S: Final = 10
"""What a stop of the service may take; the engine's patience must be longer."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The file, and what the program it starts knows."""

    compose: Mapping[str, Any]
    settings: frozenset[str]
    """`SERVICE_*` variables that exist, those of secrets with their `_FILE`."""
    secret_settings: frozenset[str]
    """`SERVICE_*` variables that hold a secret."""
    commands: frozenset[str]
    """First words that the program takes."""
    streams: frozenset[str]
    """What a worker can run."""

    def service(self, name: str) -> Service:
        """Return one service."""
        found: Service = self.compose["services"][name]
        return found

    def environment(self, name: str) -> Mapping[str, str]:
        """Return what a service is reported."""
        found: Mapping[str, str] = self.service(name).get("environment", {})
        return found

    def is_ours(self, name: str) -> bool:
        """Whether a service runs our own image."""
        return str(self.service(name)["image"]).startswith("veristream:")

    def streams_of(self, name: str) -> frozenset[str]:
        """Return what a service of ours runs as a worker."""
        match self.service(name).get("command"):
            case ["worker"]:
                return self.streams
            case ["worker", "--streams", str(chosen)]:
                return frozenset(chosen.split(","))
        return frozenset()

    def runs_once(self, name: str) -> bool:
        """Whether a service ends by itself."""
        return self.service(name).get("restart") == "no"


def bytes_of(size: str) -> int:
    """Read `1g`, `512m` or `1024M`; a size of another form is a `ValueError`."""
    found = _SIZE.fullmatch(size)
    if found is None:
        raise ValueError(size)
    return int(found[1]) * _UNITS[found[2].lower() or "b"]


def image_is_pinned(stack: Stack, name: str) -> str | None:
    """An image is named by its exact version, so that tomorrow's start is today's."""
    image = str(stack.service(name).get("image", ""))
    return None if _PINNED.fullmatch(image) else f"{image!r} is not pinned to a version"


def nobody_is_root(stack: Stack, name: str) -> str | None:
    """A process runs under a number that is not root's, whatever its image says."""
    user = str(stack.service(name).get("user", ""))
    return None if re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) else f"user is {user!r}"


def root_filesystem_is_only_read(stack: Stack, name: str) -> str | None:
    """Nothing in an image can be changed by who runs in it."""
    return None if stack.service(name).get("read_only") is True else "read_only is not set"


def drops_capabilities(stack: Stack, name: str) -> str | None:
    """A process has no power of root's, and cannot gain one."""
    service = stack.service(name)
    if service.get("cap_drop") != ["ALL"] or service.get("cap_add") or service.get("privileged"):
        return "capabilities are kept"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        return "privileges can be gained"
    return None


def memory_is_bounded(stack: Stack, name: str) -> str | None:
    """One service cannot take the memory of the host, by swapping neither."""
    service = stack.service(name)
    limit = service.get("mem_limit")
    if limit is None or bytes_of(limit) <= 0:
        return "mem_limit is missing"
    return None if service.get("memswap_limit") == limit else "memswap_limit differs from mem_limit"


def heap_fits(stack: Stack, name: str) -> str | None:
    """A heap leaves room for the rest of its process."""
    environment = stack.environment(name)
    found = [rx.search(str(environment[key])) for key, rx in _HEAPS.items() if key in environment]
    if not found:
        return None if stack.is_ours(name) else "an engine without a bounded heap"
    direct = sum(bytes_of(m[1]) for v in environment.values() if (m := _DIRECT.search(str(v))))
    heap = sum(bytes_of(m[1]) for m in found if m) + direct
    limit = bytes_of(stack.service(name)["mem_limit"])
    return None if 0 < heap <= HEAP_SHARE_MOST * limit else f"{heap} bytes of heap under a limit of {limit}"


def processes_are_bounded(stack: Stack, name: str) -> str | None:
    """One service cannot take all processes of the host."""
    limit = stack.service(name).get("pids_limit")
    return None if isinstance(limit, int) and limit > 0 else "pids_limit is missing"


def health_is_looked_at(stack: Stack, name: str) -> str | None:
    """Who runs on is asked how it is; who runs once tells by its exit."""
    if stack.runs_once(name):
        return None
    check = stack.service(name).get("healthcheck", {})
    complete = {"test", "interval", "timeout", "retries", "start_period"} <= set(check)
    return None if complete and check["test"][0] == "CMD" else "no complete healthcheck"


def it_comes_back(stack: Stack, name: str) -> str | None:
    """Who runs on is started again after a crash; who runs once is not."""
    policy = stack.service(name).get("restart")
    return None if policy in {"no", "unless-stopped"} else f"restart is {policy!r}"


def signals_reach_it(stack: Stack, name: str) -> str | None:
    """The first process passes signals on and reaps, and the stop is given the time it needs."""
    service = stack.service(name)
    if service.get("init") is not True:
        return "init is not set"
    grace = re.fullmatch(r"(\d+)s", str(service.get("stop_grace_period", "")))
    return None if grace and int(grace[1]) > STOP_MOST_S else "stop_grace_period is too short"


def logs_are_bounded(stack: Stack, name: str) -> str | None:
    """Logs cannot fill the disk."""
    options = stack.service(name).get("logging", {}).get("options", {})
    return None if {"max-size", "max-file"} <= set(options) else "the log is not bounded"


def secrets_are_files(stack: Stack, name: str) -> str | None:
    """A secret is a mounted file; the environment, which `inspect` shows to many, names it only."""
    granted = {f"/run/secrets/{secret}" for secret in stack.service(name).get("secrets", [])}
    for variable, value in stack.environment(name).items():
        names_secret = variable in stack.secret_settings or any(w in variable for w in _SECRET_WORDS)
        if not variable.endswith("_FILE") and names_secret:
            return f"{variable} is a value"
        if variable.endswith("_FILE") and names_secret and value not in granted:
            return f"{variable} names a file this service is not given"
    return None


def settings_exist(stack: Stack, name: str) -> str | None:
    """No variable is set that the program does not know: a misspelled one would be ignored in silence."""
    given = {v for v in stack.environment(name) if v.startswith("SERVICE_")}
    unknown = sorted(given - stack.settings)
    return f"unknown: {', '.join(unknown)}" if unknown else None


def nothing_is_for_developers(stack: Stack, name: str) -> str | None:
    """What is allowed for development alone is not allowed here."""
    return "insecure receivers" if "SERVICE_WEBHOOKS_ALLOW_INSECURE" in stack.environment(name) else None


def it_works_on_the_engines(stack: Stack, name: str) -> str | None:
    """A process notified of no engine would quietly keep everything in a folder of its own."""
    if not stack.is_ours(name) or "entrypoint" in stack.service(name):
        return None
    missing = sorted(_SHARED - set(stack.environment(name)))
    return f"not told: {', '.join(missing)}" if missing else None


def command_exists(stack: Stack, name: str) -> str | None:
    """Our own image is started with a command it has."""
    service = stack.service(name)
    if not stack.is_ours(name) or "entrypoint" in service:
        return None
    command = service.get("command") or [""]
    return None if command[0] in stack.commands else f"there is no command {command[0]!r}"


def every_stream_is_run(stack: Stack, name: str) -> str | None:
    """No stream is left without a worker, and none is named that does not exist."""
    if unknown := stack.streams_of(name) - stack.streams:
        return f"no such stream: {', '.join(sorted(unknown))}"
    missing = stack.streams.difference(*(stack.streams_of(each) for each in stack.compose["services"]))
    return f"nobody runs: {', '.join(sorted(missing))}" if missing and stack.is_ours(name) else None


def only_the_sender_reaches_out(stack: Stack, name: str) -> str | None:
    """Who posts webhooks has a way out and runs nothing else: nobody there looks at an image."""
    reaches, sends = "receivers" in stack.service(name).get("networks", []), stack.streams_of(name) & _SENDING
    if reaches != bool(sends):
        return "it reaches out" if reaches else "it cannot reach a receiver"
    return "it does more than send" if sends and stack.streams_of(name) != _SENDING else None


def keys_are_given_by_need(stack: Stack, name: str) -> str | None:
    """Who sends holds the sender's key alone; who runs on holds a key; nobody else holds one."""
    granted = {"root_key", "sender_key"} & set(stack.service(name).get("secrets", []))
    if not stack.is_ours(name) or stack.runs_once(name):
        return f"it is given {', '.join(sorted(granted))}" if granted else None
    wanted = "sender_key" if stack.streams_of(name) & _SENDING else "root_key"
    variable = f"SERVICE_{wanted.upper()}_FILE"
    right = granted == {wanted} and variable in stack.environment(name)
    return None if right else f"it should be given {wanted} alone"


def its_name_at_kafka_is_its_own(stack: Stack, name: str) -> str | None:
    """Each role that speaks with Kafka has a name and a password nobody else of them has."""
    environment = stack.environment(name)
    user = environment.get("SERVICE_KAFKA_USERNAME")
    passwords = {s for s in stack.service(name).get("secrets", []) if str(s).startswith("kafka_")}
    if name == "kafka":
        return None
    if user is None:
        speaks = stack.is_ours(name) and not stack.runs_once(name)
        return "it has no name at Kafka" if speaks or passwords else None
    if passwords != {f"kafka_{user}_password"}:
        return f"it is given {sorted(passwords)} as {user}"
    others = [other for other in stack.compose["services"] if other != name]
    taken = any(stack.environment(other).get("SERVICE_KAFKA_USERNAME") == user for other in others)
    return f"another is {user} too" if taken else None


def its_proxies_are_named(stack: Stack, name: str) -> str | None:
    """The front knows whose word about callers it may believe, by address and not by a whole network."""
    if name != "front":
        return None
    networks = str(stack.environment(name).get("SERVICE_TRUSTED_PROXIES", ""))
    return None if "/32" in networks and "0.0.0.0/0" not in networks else "its proxies are not named"


def only_the_front_is_published(stack: Stack, name: str) -> str | None:
    """One port is open to the host, on loopback, and it is the front's."""
    service = stack.service(name)
    ports, networks = service.get("ports", []), set(service.get("networks", []))
    if name != "front":
        hidden = not ports and networks in ({"engines"}, {"engines", "receivers"})
        return None if hidden else "it can be reached, or reach out"
    if networks != {"engines", "published"}:
        return "it does not stand between the two networks"
    published = all(str(port).startswith("127.0.0.1:") for port in ports)
    return None if published and len(ports) == 1 else "published on more than loopback"


def it_waits_for_what_it_needs(stack: Stack, name: str) -> str | None:
    """A service of ours starts after what it needs is well, or has ended well."""
    needed = stack.service(name).get("depends_on", {})
    if stack.is_ours(name) and not needed:
        return "it waits for nothing"
    for other, how in needed.items():
        right = "service_completed_successfully" if stack.runs_once(other) else "service_healthy"
        if how.get("condition") != right:
            return f"it does not wait until {other} is {right}"
    return None


def mounts_are_declared(stack: Stack, name: str) -> str | None:
    """Volumes, configurations and secrets are named ones; no folder of the host is mounted."""
    service, top = stack.service(name), stack.compose
    volumes = {str(volume).partition(":")[0] for volume in service.get("volumes", [])}
    configs = {config["source"] for config in service.get("configs", [])}
    wrong = (
        (volumes - set(top["volumes"]))
        | (configs - set(top["configs"]))
        | (set(service.get("secrets", [])) - set(top["secrets"]))
    )
    return f"not declared: {', '.join(sorted(wrong))}" if wrong else None


RULES: Final[tuple[Rule, ...]] = (
    image_is_pinned, nobody_is_root, root_filesystem_is_only_read, drops_capabilities, memory_is_bounded,
    heap_fits, processes_are_bounded, health_is_looked_at, it_comes_back, signals_reach_it, logs_are_bounded,
    secrets_are_files, settings_exist, nothing_is_for_developers, it_works_on_the_engines, command_exists,
    every_stream_is_run, only_the_sender_reaches_out, only_the_front_is_published,
    it_waits_for_what_it_needs, mounts_are_declared, keys_are_given_by_need, its_name_at_kafka_is_its_own,
    its_proxies_are_named,
)  # fmt: skip
