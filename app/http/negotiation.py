"""Which media type and language an answer takes (RFC 9110 section 12.5), among the few a route knows."""

from collections.abc import Sequence

from aiohttp import web


def wanted(request: web.Request, offered: Sequence[str]) -> str:
    """Return which of the offered types the request likes best, the first one when it says nothing."""
    return preferred(",".join(request.headers.getall("Accept", ("*/*",))), offered)


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Return the offered type the caller likes best; the first one when nothing fits or all are equal."""
    weights = [_weight(accept, media_type) for media_type in offered]
    return offered[weights.index(max(weights))]


def _weight(accept: str, media_type: str) -> float:
    """Return the weight of the most specific range that covers the type."""
    found: dict[str, float] = {}
    for entry in accept.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        found[name] = next((_quality(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
    group = media_type.partition("/")[0] + "/*"
    return found.get(media_type, found.get(group, found.get("*/*", 0.0)))


def _quality(given: str) -> float:
    try:
        return min(1.0, max(0.0, float(given)))
    except ValueError:
        return 0.0


def language(request: web.Request, offered: Sequence[str]) -> str:
    """Return which of the offered languages `Accept-Language` likes best, the first one when it likes none.

    A dialect counts as its language: `fr-CA` is served by `fr`.
    """
    best, weight = offered[0], 0.0
    for entry in ",".join(request.headers.getall("Accept-Language", ())).split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        code = name.partition("-")[0]
        liked = next((_quality(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
        if code in offered and liked > weight:
            best, weight = code, liked
    return best
