"""Cassandra's own `nodetool`, one Java process for each command."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.engines.cassandra_java import opened_modules
from tests.engines.cassandra_server import CassandraServer
from tests.engines.jvm import java_command
from tests.engines.maven import CASSANDRA_JARS, resolve

TOOL_S: Final = 120.0
"""How long a command may take on a busy machine; two seconds are usual."""


@dataclass(frozen=True, slots=True)
class NodeTool:
    """Runs `nodetool` beside a server that is `managed`."""

    jars: Path
    folder: Path
    port: int

    @classmethod
    def at(cls, server: CassandraServer) -> Self:
        """The tool of this server; its history is written to the server's folder. May wait for Maven."""
        return cls(resolve(CASSANDRA_JARS), server.folder, server.management_port)

    async def __call__(self, *arguments: str) -> str:
        """Run a command to its end and return what it printed; one that fails is an assertion."""
        options = (
            "-Xmx96m",
            *opened_modules(),
            f"-Duser.home={self.folder}",
            "org.apache.cassandra.tools.NodeTool",
        )
        command = java_command(self.jars, *options, "-h", "127.0.0.1", "-p", str(self.port), *arguments)
        pipe, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=both)
        try:
            async with asyncio.timeout(TOOL_S):
                out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, out.decode()
        return out.decode()
