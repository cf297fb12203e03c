"""The engines under the files that docker-compose.yml hands them, on ports and in folders of a test's own."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from typing_extensions import override

from tests.engines.cassandra_server import CassandraServer
from tests.engines.kafka_server import KafkaServer

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"


class DeployedKafka(KafkaServer):
    """A Kafka under `deploy/kafka.properties`, with the users its start script makes."""

    quorum = ("--standalone",)

    def __init__(self, folder: Path, users: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._users = users

    @property
    @override
    def ports_of_clients(self) -> list[int]:
        return [self.ports[0], self.ports[2]]

    @override
    def _scram(self) -> list[str]:
        return [f"SCRAM-SHA-512=[name={name},password={word}]" for name, word in self._users.items()]

    @override
    def _properties(self) -> str:
        brokers, controller, clients = self.ports
        text = (DEPLOY / "kafka.properties").read_text(encoding="utf-8")
        moved = {"9092": clients, "9093": controller, "9094": brokers}
        text = re.sub(r":(909[234])\b", lambda port: f":{moved[port[1]]}", text)
        text = text.replace("//0.0.0.0:", "//127.0.0.1:").replace("//kafka:", "//127.0.0.1:")
        return text.replace("/var/lib/kafka/data", str(self.folder / "kept"))


class DeployedCassandra(CassandraServer):
    """A Cassandra under `deploy/cassandra.yaml`."""

    @override
    def _settings(self, stored: Path) -> dict[str, object]:
        text = (DEPLOY / "cassandra.yaml").read_text(encoding="utf-8")
        read: Any = yaml.safe_load  # untyped
        here: dict[str, object] = read(text.replace("/var/lib/cassandra", str(stored)))
        seeds = [{"seeds": f"127.0.0.1:{self.ports[1]}"}]
        own = "org.apache.cassandra.locator.SimpleSeedProvider"
        return {
            **here,
            "endpoint_snitch": "SimpleSnitch",  # the other reads a file that the image brings
            "listen_address": self.host,
            "rpc_address": self.host,
            "native_transport_port": self.port,
            "storage_port": self.ports[1],
            "seed_provider": [{"class_name": own, "parameters": seeds}],
        }


def environment_of(service: str) -> dict[str, str]:
    """The variables of one service of docker-compose.yml."""
    read: Any = yaml.safe_load  # untyped
    stack = read((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    found: dict[str, str] = stack["services"][service]["environment"]
    return found
