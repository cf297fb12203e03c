"""Build the aiohttp application: every endpoint behind authentication and the outermost middleware."""

import time
from collections.abc import Iterable

from aiohttp import web

from app.http.auth import Gate
from app.http.bodies import BodyBudget, BodyReader
from app.http.connections import ConnectionLimits
from app.http.console import Console
from app.http.cursors import Cursors
from app.http.denials import DENIALS, Denials
from app.http.endpoints import CALL, Endpoint
from app.http.middlewares import Handler, Watch
from app.http.ports import MAX_CONNECTIONS, FrontPorts, FrontSettings
from app.http.presented_transactions import PresentedTransactions
from app.http.presenters import CaseTexts, Presenter
from app.http.protocol import FrontRunner, ProtocolDependencies
from app.http.rate_limits import RateLimiter
from app.http.responses import standing_headers
from app.http.routes.api_keys import KeyRoutes, key_endpoints
from app.http.routes.audit import AuditRoutes, audit_endpoints
from app.http.routes.audit_chain import AuditChainRoutes, audit_chain_endpoints
from app.http.routes.backtests import BacktestRoutes, backtest_endpoints
from app.http.routes.capture.endpoints import capture_endpoints
from app.http.routes.capture.routes import CaptureRoutes
from app.http.routes.catalog import CatalogRoutes, catalog_endpoints
from app.http.routes.console.administration import platform_page_endpoints
from app.http.routes.console.endpoints import console_endpoints
from app.http.routes.control_mfa import sign_in_endpoints
from app.http.routes.description import asyncapi_endpoints, with_description
from app.http.routes.dispositions import DispositionRoutes, disposition_endpoints
from app.http.routes.document_numbers import NumberRoutes, number_endpoints
from app.http.routes.documentation import page_endpoints
from app.http.routes.events import EventRoutes, event_endpoints
from app.http.routes.evidence import EvidenceRoutes, evidence_endpoints
from app.http.routes.explanations import ExplanationRoutes, explanation_endpoints
from app.http.routes.flows.preview import PreviewRoutes, preview_endpoints
from app.http.routes.flows.routes import FlowRoutes, flow_endpoints
from app.http.routes.health import HealthRoutes, health_endpoints
from app.http.routes.lists.platform import PlatformListRoutes, platform_list_endpoints
from app.http.routes.lists.routes import ListRoutes, list_endpoints
from app.http.routes.members import MemberRoutes, member_endpoints
from app.http.routes.name_screenings import NameScreeningRoutes, name_screening_endpoints
from app.http.routes.people import PeopleRoutes, people_endpoints
from app.http.routes.policies import PolicyRoutes, policy_endpoints
from app.http.routes.privacy import PrivacyRoutes, privacy_endpoints
from app.http.routes.reference import problem_endpoints, reference_endpoints
from app.http.routes.review_cases.queue import QueueRoutes
from app.http.routes.review_cases.routes import CaseRoutes, case_endpoints
from app.http.routes.sessions.list import SessionListRoutes, session_list_endpoints
from app.http.routes.sessions.routes import SessionRoutes, session_endpoints
from app.http.routes.settings import SettingsRoutes, changing_settings, settings_endpoints
from app.http.routes.shadow_policies import ShadowPolicyRoutes, shadow_policy_endpoints
from app.http.routes.subject_export import SubjectExportRoutes, subject_export_endpoints
from app.http.routes.subjects import SubjectRoutes, subject_endpoints
from app.http.routes.tenants import TenantRoutes, tenant_endpoints
from app.http.routes.transaction_history import HistoryRoutes, history_endpoints
from app.http.routes.transactions import TransactionRoutes, transaction_endpoints
from app.http.routes.verifications import VerificationRoutes, verification_endpoints
from app.http.routes.wallets.routes import WalletRoutes, wallet_endpoints
from app.http.routes.webhooks.deliveries import webhook_endpoints
from app.http.tenant_limits import TenantLimits
from schemas.problems import ProblemCode, Refused
from streams.catalog.handler import Catalogue
from streams.policies.in_use import KnownListNames
from streams.retention.erasure_requests import ErasureRequests
from streams.transactions.reinstating import Reinstate


def create_app(
    ports: FrontPorts, settings: FrontSettings, limiter: RateLimiter | None = None
) -> web.Application:
    """Build the front; nothing runs and nothing is opened. A limiter is given to be shared with others."""
    budget = BodyBudget(settings.body_budget_bytes)
    denials = Denials(ports.commit, ports.clock, ports.fresh_uuid, ports.metrics.denials_lost)
    watch = Watch(
        settings=settings,
        standing=standing_headers(settings.base_url),
        metrics=ports.metrics,
        budget=budget,
        fresh_uuid=ports.fresh_uuid,
        now=time.monotonic,
        denials=denials,
    )

    @web.middleware
    async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await watch.answer(request, handler)

    app = web.Application(middlewares=[watched])
    app[DENIALS] = denials
    app.cleanup_ctx.append(denials.running)
    limits = TenantLimits(ports.stores.records, settings.rate_limits)
    gate = Gate(
        ports,
        settings,
        time.monotonic,
        limiter or RateLimiter(settings.rate_limits),
        tenant_limits=limits,
    )
    attach(app, gate, endpoints_of(ports, settings, budget, limits))
    return app


def endpoints_of(
    ports: FrontPorts, settings: FrontSettings, budget: BodyBudget, limits: TenantLimits | None = None
) -> tuple[Endpoint, ...]:
    """Return every route of the front; `limits` are those its gate uses."""
    limits = limits or TenantLimits(ports.stores.records, settings.rate_limits)
    bodies = BodyReader(budget, settings.body_timeout_s)
    cursors = Cursors(settings.cursor_keys)
    presenter, case_texts = Presenter(ports.stores.vault), CaseTexts(ports.stores.vault)
    known_lists = KnownListNames(ports.lists.storage)
    health = HealthRoutes(ports.probes, ports.registry, settings.probe_timeout_s, settings.start_id)
    endpoints = (
        *verification_endpoints(VerificationRoutes(ports, bodies, cursors, presenter)),
        *wallet_endpoints(WalletRoutes(ports, bodies, cursors, settings.base_url)),
        *name_screening_endpoints(NameScreeningRoutes(ports, bodies, cursors)),
        *disposition_endpoints(DispositionRoutes(ports, bodies, cursors)),
        *transaction_endpoints(
            TransactionRoutes(ports, bodies, cursors, PresentedTransactions(ports.stores))
        ),
        *history_endpoints(HistoryRoutes(ports, bodies)),
        *subject_endpoints(
            SubjectRoutes(
                ports,
                bodies,
                Reinstate(
                    ports.stores.records,
                    ports.commit,
                    ports.stores.vault,
                    ports.transactions.hashes,
                    ports.clock,
                ),
            )
        ),
        *explanation_endpoints(ExplanationRoutes(ports)),
        *number_endpoints(NumberRoutes(ports, bodies)),
        *audit_endpoints(AuditRoutes(ports, cursors, standing_headers(settings.base_url))),
        *audit_chain_endpoints(AuditChainRoutes(ports)),
        *flow_endpoints(FlowRoutes(ports, bodies, cursors)),
        *preview_endpoints(
            PreviewRoutes(
                SessionRoutes(ports, bodies, settings.base_url),
                Catalogue(ports.stores.records, ports.commit, ports.clock),
            )
        ),
        *policy_endpoints(PolicyRoutes(ports, bodies, cursors, known_lists)),
        *shadow_policy_endpoints(ShadowPolicyRoutes(ports, bodies)),
        *backtest_endpoints(BacktestRoutes(ports, bodies, cursors, known_lists)),
        *list_endpoints(ListRoutes(ports, bodies, cursors)),
        *platform_list_endpoints(PlatformListRoutes(ports, bodies)),
        *case_endpoints(
            CaseRoutes(ports, bodies, case_texts), QueueRoutes(ports, bodies, cursors, case_texts)
        ),
        *evidence_endpoints(EvidenceRoutes(ports)),
        *subject_export_endpoints(SubjectExportRoutes(ports, standing_headers(settings.base_url))),
        *session_endpoints(SessionRoutes(ports, bodies, settings.base_url)),
        *session_list_endpoints(SessionListRoutes(ports.stores.records, cursors)),
        *capture_endpoints(CaptureRoutes(ports, bodies, settings.base_url)),
        *reference_endpoints(),
        *event_endpoints(EventRoutes(ports, cursors)),
        *asyncapi_endpoints(),
        *catalog_endpoints(
            CatalogRoutes(ports, bodies, Catalogue(ports.stores.records, ports.commit, ports.clock))
        ),
        *sign_in_endpoints(ports, bodies, settings),
        *member_endpoints(MemberRoutes(ports, bodies, cursors)),
        *people_endpoints(PeopleRoutes(ports, bodies)),
        *key_endpoints(KeyRoutes(ports, bodies, cursors)),
        *settings_endpoints(SettingsRoutes(ports, bodies, changing_settings(ports), limits)),
        *privacy_endpoints(
            PrivacyRoutes(ports, bodies, ErasureRequests(ports.stores, ports.commit, ports.clock))
        ),
        *tenant_endpoints(TenantRoutes(ports, bodies, cursors)),
        *webhook_endpoints(ports, bodies, cursors, settings),
        *problem_endpoints(),
        *page_endpoints(),
        *console_endpoints(Console(ports.stores.records, ports.clock)),
        *platform_page_endpoints(configured=settings.operator_token is not None),
        *health_endpoints(health, metrics_by_token=settings.metrics_by_token),
    )
    return with_description(endpoints, settings.base_url)


def attach(app: web.Application, gate: Gate, endpoints: Iterable[Endpoint]) -> None:
    """Give the application its routes; a GET route answers HEAD as well."""
    for endpoint in endpoints:
        handler = _gated(gate, endpoint)
        if endpoint.method == "GET":
            app.router.add_get(endpoint.pattern, handler, expect_handler=_later)
        else:
            app.router.add_route(endpoint.method, endpoint.pattern, handler, expect_handler=_later)


def make_runner(
    app: web.Application,
    ports: FrontPorts,
    settings: FrontSettings,
    max_connections: int = MAX_CONNECTIONS,
    shutdown_timeout_s: float = 10.0,
) -> FrontRunner:
    """Return what serves the application: `await runner.setup()`, then a `web.SockSite` or `TCPSite`."""
    around = ProtocolDependencies(
        base_url=settings.base_url,
        standing=dict(standing_headers(settings.base_url)),
        metrics=ports.metrics,
        fresh_uuid=ports.fresh_uuid,
        limits=ConnectionLimits(
            total=max_connections,
            per_address=settings.connections_per_address,
            trusted=settings.trusted_proxies,
            write_timeout_s=settings.write_timeout_s,
        ),
    )
    return FrontRunner(app, around, shutdown_timeout_s)


def _gated(gate: Gate, endpoint: Endpoint) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        call = request[CALL]
        call.endpoint = endpoint
        await gate.admit(call, endpoint)
        try:
            return await endpoint.handler(call)
        except Refused as refused:
            if refused.refusal.code is ProblemCode.CREDENTIALS_INVALID:
                gate.count_rejection(call)
            raise

    return handler


async def _later(_: web.Request) -> None:
    """Invite no body yet (`Expect: 100-continue`); its reader does, once it is needed."""
