"""Build the AsyncAPI 3.0 description of the decision topic from models and topics (G73)."""

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from app.http.schemas_out import as_answered
from schemas.events import API_VERSION, DecisionEvent, EventType
from schemas.topics import TOPICS, Topic

Json = dict[str, Any]

_REFERENCE: Final = "#/components/schemas/{model}"

_KEY: Final = "DecisionKey"

_DAY_MS: Final = 86_400_000

_ABOUT: Final = """\
Every decision event of every tenant, for any Kafka consumer: begin at the earliest offset, in a consumer \
group of your own.

Delivery is at least once: an event may be in the topic twice, and a consumer may be given it again; know it \
by its `id`. A record is written once its event is committed, a moment later as a rule and as often as \
needed; all of a tenant's events are at `GET /v1/events` too.

Records of one key are in one partition, as a rule in the order in which things happened; one that was told \
late stands behind newer ones. `sequence` rises with each change of the resource an event is about: keep the \
highest you have seen of a resource, and drop what is below it.

The topic holds all tenants: who may read it reads them all. Bodies name ids, statuses and codes, never a \
person. Fields and types are only ever added; ignore those you do not know."""

_ABOUT_KEY: Final = """\
`tenant:subject`, in UTF-8. What concerns no subject has the id of the flow or of the webhook endpoint in \
place of the subject; nothing stands there when it concerns neither."""

_KEY_FORM: Final = r"^ten_[0-9a-hjkmnp-tv-z]{26}:[A-Za-z0-9._:@-]{0,128}$"


def describe_decisions() -> Json:
    """Return the document."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Veristream decisions",
            "version": API_VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {"decisions": _channel()},
        "operations": {
            "tellDecision": {
                "action": "send",
                "channel": {"$ref": "#/channels/decisions"},
                "summary": "Veristream tells what happened.",
                "messages": [{"$ref": "#/channels/decisions/messages/decision"}],
            }
        },
        "components": {"messages": {"decision": _message()}, "schemas": _schemas()},
    }


def _channel() -> Json:
    spec = next(spec for spec in TOPICS if spec.topic is Topic.DECISIONS)
    return {
        "address": str(spec.topic),
        "title": "Decision events",
        "description": f"Kept for {spec.retention_ms // _DAY_MS} days.",
        "messages": {"decision": {"$ref": "#/components/messages/decision"}},
        "bindings": {
            "kafka": {
                "topic": str(spec.topic),
                "partitions": spec.partitions,
                "topicConfiguration": {"cleanup.policy": ["delete"], "retention.ms": spec.retention_ms},
                "bindingVersion": "0.5.0",
            }
        },
    }


def _message() -> Json:
    return {
        "name": "decision",
        "title": "A decision event",
        "summary": f"One of {len(EventType)} types; it has no headers.",
        "contentType": "application/json",
        "payload": {"$ref": _REFERENCE.format(model=DecisionEvent.__name__)},
        "bindings": {"kafka": {"key": {"$ref": _REFERENCE.format(model=_KEY)}, "bindingVersion": "0.5.0"}},
    }


def _schemas() -> Json:
    _, made = models_json_schema([(DecisionEvent, "serialization")], ref_template=_REFERENCE)
    shown = {name: as_answered(name, schema) for name, schema in made["$defs"].items()}
    key = {"type": "string", "pattern": _KEY_FORM, "description": _ABOUT_KEY}
    return dict(sorted({**shown, _KEY: key}.items()))
