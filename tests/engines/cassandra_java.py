"""The modules of the JDK that Cassandra and its tools look into, as the command line of Java names them."""

from typing import Final

EXPORTED: Final = (
    "java.base/jdk.internal.misc", "java.base/java.lang.ref", "jdk.unsupported/sun.misc", "java.sql/java.sql",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
)  # fmt: skip
OPENED: Final = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.module", "lang.reflect", "io", "nio", "net")),
    *(f"java.base/java.{name}" for name in ("util", "util.concurrent", "util.concurrent.atomic")),
    *(f"java.base/jdk.internal.{name}" for name in ("loader", "ref", "reflect", "math", "module")),
    "java.base/java.math", "java.base/jdk.internal.util.jar", "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip
"""What Cassandra's own start script opens on Java 17."""


def opened_modules() -> list[str]:
    """Return the options that open them."""
    exported = [f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTED]
    return exported + [f"--add-opens={name}=ALL-UNNAMED" for name in OPENED]
