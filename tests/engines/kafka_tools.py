"""Kafka's own command line, one Java process for each command."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.engines.jvm import java_command
from tests.engines.kafka_server import LOG4J
from tests.engines.maven import KAFKA_JARS, resolve

TOOL_S: Final = 60.0
"""How long a command may take on a busy machine; a second and a half is usual."""

CLASSES: Final = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "configs": "kafka.admin.ConfigCommand",
    "produce": "org.apache.kafka.tools.ConsoleProducer",
    "consume": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump": "org.apache.kafka.tools.DumpLogSegments",
    "produce-many": "org.apache.kafka.tools.ProducerPerformance",
    "consume-many": "org.apache.kafka.tools.ConsumerPerformance",
}


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """The tools of one Kafka release, as its users run them."""

    jars: Path
    folder: Path
    bootstrap: str

    @classmethod
    def at(cls, bootstrap: str, folder: Path) -> Self:
        """Tools that speak to this broker; the folder is theirs. May wait for Maven."""
        folder.mkdir()
        (folder / "log4j2.properties").write_text(LOG4J)
        return cls(resolve(KAFKA_JARS), folder, bootstrap)

    async def __call__(self, tool: str, *arguments: str, given: str = "", local: bool = False) -> str:
        """Run a tool to its end and return what it printed; `local` ones speak to no broker."""
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        at = () if local else ("--bootstrap-server", self.bootstrap)
        command = java_command(self.jars, "-Xmx96m", log, CLASSES[tool], *at, *arguments)
        pipe, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=both)
        try:
            async with asyncio.timeout(TOOL_S):
                out, _ = await process.communicate(given.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return out.decode()
