"""Convert a model's schema to that of its responses: fields that are None are left out."""

from typing import Any, Final

Json = dict[str, Any]

_NULLABLE: Final = frozenset({("Verification", "document")})
"""Always written, null when there is none (G13)."""

_WHOLE: Final = frozenset(
    {
        "Flow", "FlowConfiguration", "FlowDocument", "FlowRevision", "ReviewCase", "Conclusion",
        "VerificationSession", "SessionDetail", "WebhookEndpoint", "Delivery", "Attempt",
        "Preferences", "QueueSummary",
    }
)  # fmt: skip
"""Models given with every field, null where there is nothing (2.1-2.5, G35, G38, G89, P19, P21)."""

_TIMES: Final = frozenset({"created_at", "updated_at", "timestamp"})

_NULL: Final = {"type": "null"}


def as_answered(name: str, schema: Json) -> Json:
    """Return the schema of a model as an answer carries it.

    A field that may be None is not null but absent, every other one is always there, and further
    fields may come (G63).
    """
    if schema.get("type") != "object" or "properties" not in schema:
        return schema
    properties, required = {}, []
    for field, given in schema["properties"].items():
        shown = {key: value for key, value in given.items() if key not in {"default", "title"}}
        may_lack = "default" in given and given["default"] is None
        always = name in _WHOLE or (name, field) in _NULLABLE
        if may_lack and not always and shown != _NULL:
            shown = _without_null(shown)
        else:
            required.append(field)
        if field in _TIMES and shown.get("type") == "string":
            shown["format"] = "date-time"
        properties[field] = shown
    rest = {key: value for key, value in schema.items() if key not in {"additionalProperties", "title"}}
    return {**rest, "properties": properties, "required": required}


def _without_null(schema: Json) -> Json:
    choices = [one for one in schema.get("anyOf", []) if one != _NULL]
    if not choices:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**choices[0], **rest} if len(choices) == 1 else {**rest, "anyOf": choices}
