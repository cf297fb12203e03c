"""Track the tenant of the record being handled, for log lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from schemas.ids import TenantId


@dataclass(slots=True)
class _Scope:
    """Emptied at its end: tasks that outlive a record inherit its context, and must not name its tenant."""

    tenant_id: TenantId | None


_SCOPE: ContextVar[_Scope | None] = ContextVar("tenant_scope", default=None)


@contextmanager
def tenant_scope(tenant_id: TenantId | None) -> Iterator[None]:
    """Set the tenant of log lines within the block."""
    scope = _Scope(tenant_id)
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        scope.tenant_id = None
        _SCOPE.reset(token)


def tenant_in_work() -> TenantId | None:
    """Return the tenant of the innermost block that has not ended."""
    scope = _SCOPE.get()
    return None if scope is None else scope.tenant_id
