"""What a front wrote to its audit log, by the operation that was asked for, and what its routes promise."""

import re
from typing import TYPE_CHECKING, Final

from app.http.bodies import BodyBudget
from app.http.endpoints import Endpoint
from app.http.server import endpoints_of
from schemas.audit import AuditAction

if TYPE_CHECKING:
    from tests.http.support import Front

ANYWHERE: Final = {AuditAction.ACCESS_DENIED}
"""What every operation may lead to, for it may refuse."""

_ROUTES: Final[list[tuple[re.Pattern[str], Endpoint]]] = []
"""Every route with the form of its path; made by the first front of the process."""


def written_by_operation(front: "Front") -> dict[str, set[AuditAction]]:
    """The actions of the rows of each request that was asked of the front, by operation."""
    written: dict[str, set[AuditAction]] = {}
    for rows in front.shelves.audit.values():
        for row in rows.values():
            if (asked := front.asked.get(row.correlation_id or "")) is not None:
                operation = operation_of(front, *asked)
                written.setdefault(operation, set()).add(row.action)
    return {operation: actions - ANYWHERE for operation, actions in written.items()}


def promised(front: "Front") -> dict[str, set[AuditAction]]:
    """What each route says it may write."""
    return {f"{one.method} {one.path}": set(one.audits) for _, one in _routes(front) if one.audits}


def unpromised(front: "Front") -> dict[str, set[AuditAction]]:
    """What was written by operations that do not say so."""
    known = promised(front)
    found = {name: done - known.get(name, set()) for name, done in written_by_operation(front).items()}
    return {name: actions for name, actions in found.items() if actions}


def operation_of(front: "Front", method: str, path: str) -> str:
    """The method and the path of the route that takes a request."""
    plain = path.partition("?")[0]
    for form, endpoint in _routes(front):
        if endpoint.method == method and form.fullmatch(plain):
            return f"{method} {endpoint.path}"
    return f"{method} {plain}"


def _routes(front: "Front") -> list[tuple[re.Pattern[str], Endpoint]]:
    if not _ROUTES:
        for endpoint in endpoints_of(front.ports, front.settings, BodyBudget(1)):
            form = re.escape(endpoint.path)
            for name, part in endpoint.path_forms.items():
                form = form.replace(re.escape(f"{{{name}}}"), f"(?:{part})")
            _ROUTES.append((re.compile(form), endpoint))
    return _ROUTES
