"""Which stage of the pipeline a stack of frames belongs to, for the sampler of `tests.bench.staged`."""

from types import CodeType, FrameType
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """Code that belongs to a stage."""

    path: str
    """Part of the file's path."""
    stage: str
    functions: frozenset[str] = frozenset()
    """Empty: all of the file."""
    claims: bool = False
    """Whether everything it calls belongs to the stage as well."""


def _named(*names: str) -> frozenset[str]:
    return frozenset(names)


RULES: Final = (
    Rule("/app/broker/", "broker", claims=True),
    Rule("/structlog/", "log and metrics", claims=True),
    Rule("/logging/", "log and metrics", claims=True),
    Rule("/prometheus_client/", "log and metrics", claims=True),
    Rule("/app/observability/metrics.py", "log and metrics", claims=True),
    Rule("/app/observability/logging.py", "log and metrics", claims=True),
    Rule("/streams/runtime/tables.py", "changelog", claims=True),
    Rule("/faust/tables/", "changelog", claims=True),
    Rule("/streams/runtime/replies.py", "reply", claims=True),
    Rule("/app/kafka/request_reply.py", "reply", _named("_pump", "_settle", "_read_answer"), claims=True),
    Rule("/streams/tenants/", "auth", claims=True),
    Rule("/streams/reviewers/", "auth", claims=True),
    Rule("/streams/sign_in/", "auth", claims=True),
    Rule("/app/http/auth.py", "auth"),
    Rule("/app/http/rate_limits.py", "auth"),
    Rule("/app/http/tenant_limits.py", "auth"),
    Rule("/app/http/bodies.py", "parse", claims=True),
    Rule("/app/intake/images.py", "parse", claims=True),
    Rule("/app/http/responses.py", "serialise"),
    Rule("/app/http/presenters.py", "serialise", claims=True),
    Rule("/app/adapters/sqlite/engine.py", "look up", _named("_find", "_read", "_stage"), claims=True),
    Rule("/app/adapters/sqlite/", "commit"),
    Rule("/app/adapters/cassandra/", "commit"),
    Rule("/cassandra/", "commit"),
    Rule("/app/adapters/security/at_rest.py", "seal"),
    Rule("/app/adapters/security/crypto.py", "seal"),
    Rule("/app/adapters/security/message_authentication.py", "seal"),
    Rule("/app/adapters/security/keyring.py", "seal"),
    Rule("/app/http/routes/flows/bodies.py", "intake"),
    Rule("/app/http/", "front"),
    Rule("/app/intake/verifications.py", "intake"),
    Rule("/app/intake/body.py", "intake"),
    Rule("/app/vision/", "exchange images"),
    Rule("/streams/runtime/producer.py", "produce"),
    Rule("/streams/runtime/record_batches.py", "produce"),
    Rule("/aiokafka/producer/", "produce"),
    Rule("/aiokafka/consumer/", "fetch"),
    Rule("/streams/runtime/consumer.py", "fetch"),
    Rule("/streams/runtime/consumer_thread.py", "fetch"),
    Rule("/streams/runtime/bookkeeping.py", "fetch"),
    Rule("/faust/transport/", "fetch"),
    Rule("/mode/threads.py", "fetch"),
    Rule("/streams/runtime/authentication.py", "decode"),
    Rule("/streams/runtime/guard.py", "decode"),
    Rule("/streams/runtime/replays.py", "decode"),
    Rule("/streams/runtime/", "runtime"),
    Rule("/streams/audit/", "audit"),
    Rule("/streams/webhooks/", "webhooks"),
    Rule("/streams/deliveries/", "webhooks"),
    Rule("/streams/", "handle"),
    Rule("/faust/", "faust"),
    Rule("/mode/", "faust"),
    Rule("/aiohttp/", "http"),
)
"""The innermost frame that a rule names decides, unless one around it claims what it calls."""

LAST_RESORT: Final = (
    Rule("/aiokafka/", "wire"),
    Rule("/concurrent/futures/", "threads"),
    Rule("/asyncio/", "loop"),
    Rule("/selectors.py", "loop"),
    Rule("/uvloop/", "loop"),
)
"""Where no rule names any frame."""

OTHER: Final = "other"

_found: dict[CodeType, Rule | None] = {}


def stage_of(frame: FrameType | None) -> str:
    """Return the stage of a stack, its innermost frame given."""
    innermost, outer, walked = None, None, frame
    while walked is not None:
        rule = _rule_of(walked.f_code)
        if rule is not None:
            if rule.claims:
                return rule.stage
            if rule in LAST_RESORT:
                outer = outer or rule
            else:
                innermost = innermost or rule
        walked = walked.f_back
    found = innermost or outer
    return found.stage if found is not None else OTHER


def _rule_of(code: CodeType) -> Rule | None:
    try:
        return _found[code]
    except KeyError:
        rule = next((one for one in (*RULES, *LAST_RESORT) if _fits(one, code)), None)
        return _found.setdefault(code, rule)


def _fits(rule: Rule, code: CodeType) -> bool:
    return rule.path in code.co_filename and (not rule.functions or code.co_name in rule.functions)
