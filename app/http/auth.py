"""Authenticate and authorise every call, and check its rate limits and query parameters."""

import hashlib
import hmac
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from app.http.endpoints import ANYONE, Call, Credential, Endpoint
from app.http.headers import (
    bearer,
    came_in_the_clear,
    has_bearer,
    refuse_duplicates,
    require_own_origin,
    session_cookie,
)
from app.http.ports import FrontPorts, FrontSettings
from app.http.problems import refused_fields
from app.http.rate_limits import (
    LIVE_AND_TEST_APART,
    NONE_OF_ITS_OWN,
    Counted,
    RateLimiter,
    Standing,
    headers_of,
)
from app.http.rejections import Rejections
from app.http.tenant_limits import TenantLimits
from schemas.access import TenantCaller
from schemas.people import ReviewerCaller
from schemas.problems import FieldProblem, ProblemCode, Refused, Unauthenticated

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""They change nothing (RFC 9110 section 9.2.1)."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Admits calls, or raises the reason not to."""

    ports: FrontPorts
    settings: FrontSettings
    now: Callable[[], float]
    """Monotonic, seconds."""
    limiter: RateLimiter = field(default_factory=RateLimiter)
    rejections: Rejections = field(default_factory=Rejections)
    tenant_limits: TenantLimits | None = None
    """None: every tenant has the deployment's limits."""

    async def admit(self, call: Call, endpoint: Endpoint) -> None:
        """Authenticate and authorise the call, and count its limits.

        Raises:
            NotFound: The platform's routes do not exist here.
            Unauthenticated: No usable credential; too many of them from one address are RATE_LIMITED.
            Refused: HEADER_DUPLICATED, API_KEY_NOT_ALLOWED, MFA_REQUIRED, PERMISSION_DENIED, ORIGIN_REFUSED,
                RATE_LIMITED, FILTER_INVALID.
            StoreUnavailable: The store cannot be read for now.
        """
        refuse_duplicates(call.request)
        if endpoint.interface:
            self._require_tls(call)
        if endpoint.access != ANYONE:
            try:
                counted_as = await self._recognise(call, endpoint)
            except Unauthenticated:
                self.count_rejection(call)
                raise
            await self._count(call, counted_as, endpoint)
        if endpoint.interface:
            refuse_unknown_parameters(call, endpoint)

    def count_rejection(self, call: Call) -> None:
        """Count a refused credential against its address.

        Raises:
            Refused: RATE_LIMITED.
        """
        limits = self.settings.rate_limits
        most = sys.maxsize if limits is None else limits.rejected
        retry_after_s = self.rejections.count(call.address, most, self.now())
        if retry_after_s is None:
            return
        self.ports.metrics.rate_limited.labels("rejected").inc()
        call.headers["Retry-After"] = str(retry_after_s)
        detail = f"More than {most} credentials of this address were refused within a minute."
        raise Refused.because(ProblemCode.RATE_LIMITED, detail)

    def _require_tls(self, call: Call) -> None:
        """Refuse plain http where the public address is https.

        It is not sent on to https: then nobody would notice that a credential travels in the clear.
        """
        settings = self.settings
        secure = settings.base_url.startswith("https://")
        if secure and came_in_the_clear(call.request, settings.trusted_proxies):
            message = "The service is reached over https only; replace a credential sent over plain http."
            raise Refused.because(ProblemCode.ORIGIN_REFUSED, message)

    async def _recognise(self, call: Call, endpoint: Endpoint) -> str:
        """Authenticate the caller and check its rights; return the names its limits are counted under."""
        accepts = endpoint.access.accepts
        if Credential.OPERATOR_TOKEN in accepts:
            self._operator(call)
            return "operator"
        if Credential.CAPTURE_TOKEN in accepts:
            call.capture = self.ports.recognise_capture(bearer(call.request))
            return call.capture.session_id
        if Credential.REVIEWER_SESSION in accepts and not has_bearer(call.request):
            cookie = session_cookie(call.request)
            if cookie is not None:
                call.reviewer = await self._reviewer(call, cookie, endpoint)
                return call.reviewer.session_id
        call.tenant = await self._tenant(call, endpoint)
        return call.tenant.key_id

    def _operator(self, call: Call) -> None:
        token = self.settings.operator_token
        if token is None:
            raise web.HTTPNotFound
        presented, expected = bearer(call.request), token.get_secret_value()
        digests = [hashlib.sha256(text.encode()).digest() for text in (presented, expected)]
        if not hmac.compare_digest(*digests):  # digests, so that not even the length shows (S32)
            raise Unauthenticated

    async def _reviewer(self, call: Call, cookie: str, endpoint: Endpoint) -> ReviewerCaller:
        person = call.reviewer = await self.ports.recognise_reviewer(cookie)
        if call.request.method not in SAFE_METHODS:
            require_own_origin(call.request, self.settings.base_url)
        if not person.satisfied and not endpoint.access.before_factor:
            message = "The second factor of this session is not met; see POST /v1/control/mfa/verify."
            raise Refused.because(ProblemCode.MFA_REQUIRED, message)
        permission = endpoint.access.permission
        if permission is not None and not person.may(permission):
            message = f"The role {person.role} lacks the permission {permission}."
            raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
        return person

    async def _tenant(self, call: Call, endpoint: Endpoint) -> TenantCaller:
        tenant = call.tenant = await self.ports.authenticate(bearer(call.request), call.address)
        if Credential.TENANT_KEY not in endpoint.access.accepts:
            message = "An API key is not accepted here; the route records a person."
            raise Refused.because(ProblemCode.API_KEY_NOT_ALLOWED, message)
        scope = endpoint.access.scope
        if scope is not None and scope not in tenant.scopes:
            raise Refused.because(ProblemCode.PERMISSION_DENIED, f"The key lacks the scope {scope}.")
        return tenant

    async def _count(self, call: Call, counted_as: str, endpoint: Endpoint) -> None:
        if self.settings.rate_limits is None:
            return
        quotas = await self._quotas(call)
        standings = self.limiter.count(_counted(call, counted_as, endpoint), self.now(), quotas)
        call.headers.update(headers_of(standings))
        self._refuse_exceeded(call, [standing for standing in standings if standing.exceeded])

    async def _quotas(self, call: Call) -> Mapping[str, int]:
        """Return the limits that the caller's tenant chose for such a caller; none for a reviewer.

        A tenant's `key` is about its keys: it slows down neither a person's page nor a member, who could not
        set it higher again.
        """
        if self.tenant_limits is None or (call.tenant is None and call.capture is None):
            return NONE_OF_ITS_OWN
        quotas = await self.tenant_limits.of(call.tenant_id)
        if call.capture is not None and quotas:
            return {name: quota for name, quota in quotas.items() if name == "capture"}
        return quotas

    def _refuse_exceeded(self, call: Call, exceeded: list[Standing]) -> None:
        if not exceeded:
            return
        for standing in exceeded:
            self.ports.metrics.rate_limited.labels(standing.name).inc()
        worst = max(exceeded, key=lambda standing: standing.resets_in_s)
        call.headers["Retry-After"] = str(worst.resets_in_s)
        detail = f"The limit of {worst.quota} requests a minute is used up."
        raise Refused.because(ProblemCode.RATE_LIMITED, detail)


def _counted(call: Call, counted_as: str, endpoint: Endpoint) -> list[Counted]:
    """Return the limits a request counts against: those of its caller, and of all its tenant's keys.

    Reviewers and client tokens do not count against their tenant's: a key that runs wild must not keep the
    people out who could revoke it.
    """
    route = endpoint.limited_as
    counted = [("key", counted_as)]
    if route is not None:
        counted.append((route, counted_as))
    tenant = call.tenant
    if tenant is not None:
        whose = tenant.tenant_id if tenant.livemode else tenant.tenant_id + LIVE_AND_TEST_APART
        counted.append(("tenant", whose))
        if route == "verifications":
            counted.append(("tenant_verifications", whose))
    return counted


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
