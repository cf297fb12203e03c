"""The gate every call passes: who asks, may they, how often, and do the query parameters exist."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.http.endpoints import ANYONE, Call, Credential, Endpoint
from app.http.headers import bearer, refuse_duplicates
from app.http.ports import Authenticator
from app.http.problems import refused_fields
from app.http.rate_limits import RateLimiter, RateLimits, Standing, headers_of
from app.telemetry import Metrics
from schemas.access import TenantCaller
from schemas.problems import FieldProblem, ProblemCode, Refused, Unauthenticated


@dataclass(frozen=True, slots=True)
class Gate:
    """Admits calls or says why not."""

    authenticate: Authenticator
    limits: RateLimits | None
    metrics: Metrics
    now: Callable[[], float]
    """Monotonic, seconds."""
    limiter: RateLimiter = field(default_factory=RateLimiter)

    async def admit(self, call: Call, endpoint: Endpoint) -> None:
        """Let the call pass, its caller known and its limits counted.

        Raises:
            Unauthenticated: No usable credential.
            Refused: HEADER_DUPLICATED, API_KEY_NOT_ALLOWED, PERMISSION_DENIED, RATE_LIMITED, FILTER_INVALID.
            StoreUnavailable: Nobody can tell who it is for now.
        """
        refuse_duplicates(call.request)
        if endpoint.access != ANYONE:
            call.tenant = await self._tenant(call, endpoint)
            self._count(call, call.tenant, endpoint)
        if endpoint.interface:
            refuse_unknown_parameters(call, endpoint)

    async def _tenant(self, call: Call, endpoint: Endpoint) -> TenantCaller:
        tenant = await self.authenticate(bearer(call.request), call.address)
        if Credential.TENANT_KEY not in endpoint.access.accepts:
            if Credential.REVIEWER_SESSION not in endpoint.access.accepts:
                raise Unauthenticated
            message = "An API key is not accepted here; the route records a person."
            raise Refused.because(ProblemCode.API_KEY_NOT_ALLOWED, message)
        scope = endpoint.access.scope
        if scope is not None and scope not in tenant.scopes:
            raise Refused.because(ProblemCode.PERMISSION_DENIED, f"The key lacks the scope {scope}.")
        return tenant

    def _count(self, call: Call, tenant: TenantCaller, endpoint: Endpoint) -> None:
        if self.limits is None:
            return
        now = self.now()
        standings = [self.limiter.count("key", tenant.key_id, self.limits.key, now)]
        if endpoint.limited_as is not None:
            quota: int = getattr(self.limits, endpoint.limited_as)
            standings.append(self.limiter.count(endpoint.limited_as, tenant.key_id, quota, now))
        call.headers.update(headers_of(standings))
        self._refuse_exceeded(call, [standing for standing in standings if standing.exceeded])

    def _refuse_exceeded(self, call: Call, exceeded: list[Standing]) -> None:
        if not exceeded:
            return
        for standing in exceeded:
            self.metrics.rate_limited.labels(standing.name).inc()
        worst = max(exceeded, key=lambda standing: standing.resets_in_s)
        call.headers["Retry-After"] = str(worst.resets_in_s)
        detail = f"The limit of {worst.quota} requests a minute is used up."
        raise Refused.because(ProblemCode.RATE_LIMITED, detail)


def refuse_unknown_parameters(call: Call, endpoint: Endpoint) -> None:
    """Refuse query parameters the route does not have, and those given twice (G88).

    Raises:
        Refused: FILTER_INVALID, one entry per parameter.
    """
    query = call.request.query
    if not query:
        return
    known = {parameter.name for parameter in endpoint.parameters}
    errors = [_wrong(name, "The route has no such parameter.") for name in set(query) - known]
    errors += [
        _wrong(name, "The parameter was given more than once.")
        for name in known & set(query)
        if len(query.getall(name)) > 1
    ]
    if errors:
        raise refused_fields(sorted(errors, key=lambda error: error.parameter or ""))


def _wrong(parameter: str, message: str) -> FieldProblem:
    return FieldProblem(code=ProblemCode.FILTER_INVALID, message=message, parameter=parameter[:100])
