"""Table of audit actions by operation, for the OpenAPI description."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from app.http.endpoints import Endpoint
from schemas.audit import AuditAction

FAMILY: Final = "Audit"
"""The tag whose description holds the table."""

WITHOUT_AN_OPERATION: Final[Mapping[AuditAction, str]] = MappingProxyType(
    {
        AuditAction.ACCESS_DENIED: "any operation that refuses its caller; one row a minute",
        AuditAction.ROOT_KEY_ROTATED: "`veristream root-key rotate`",
        AuditAction.ROOT_KEY_REMOVED: "`veristream root-key remove`",
        AuditAction.SERVICE_STARTED: "the start of a process",
        AuditAction.SESSION_EXPIRED: "a session that reached its end",
        AuditAction.WEBHOOK_DISABLED: "an endpoint that answered 410, or failed every attempt for five days",
        AuditAction.EVIDENCE_DELETED: "evidence whose retention period is over",
        AuditAction.PRIVACY_EXECUTED: "an erasure that was carried out",
        AuditAction.VERIFICATION_REDACTED: "a verification of whose evidence nothing is stored any more",
    }
)
"""What the service writes by itself, and when."""

_HEAD: Final = """\
Which operation writes which action. A command of the command line writes what its operation would write.

| action | written by |
|---|---|
"""


def audit_table(endpoints: Iterable[Endpoint]) -> str:
    """Return the table as Markdown: every action, and every operation that may write it."""
    writers: dict[AuditAction, list[str]] = {}
    for endpoint in endpoints:
        for action in endpoint.audits:
            writers.setdefault(action, []).append(f"`{endpoint.method} {endpoint.path}`")
    for action, when in WITHOUT_AN_OPERATION.items():
        writers.setdefault(action, []).append(when)
    rows = (f"| `{action}` | {', '.join(writers[action])} |" for action in AuditAction if action in writers)
    return _HEAD + "\n".join(rows)
