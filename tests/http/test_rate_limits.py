"""A key may ask so often a minute, and is reported how it stands."""

import re

import pytest

from app.configuration.front import RateLimits, parse_rate_limits
from app.http.rate_limits import WINDOW_S, RateLimiter, Standing
from tests.http.support import FOREIGN, PATH, Front, open_front


def ask(limiter: RateLimiter, key: str, now: float, limit: str = "key") -> Standing:
    """Count one request against one limit."""
    (standing,) = limiter.count([(limit, key)], now)
    return standing


def test_a_window_allows_its_quota_and_no_more() -> None:
    limiter = RateLimiter(RateLimits(key=3))
    results = [ask(limiter, "a", 1.0).exceeded for _ in range(5)]

    assert results == [False, False, False, True, True]


def test_a_window_ends_a_minute_after_it_was_opened() -> None:
    limiter = RateLimiter(RateLimits(key=1))
    ask(limiter, "a", 5.0)

    assert ask(limiter, "a", 5.0 + WINDOW_S - 0.01).exceeded
    assert not ask(limiter, "a", 5.0 + WINDOW_S).exceeded


def test_a_standing_tells_what_remains_and_when_it_resets() -> None:
    limiter = RateLimiter(RateLimits(key=10))
    ask(limiter, "a", 0.0)
    standing = ask(limiter, "a", 12.5)

    assert (standing.remaining, standing.resets_in_s) == (8, 48)


def test_keys_and_limits_are_counted_apart() -> None:
    limiter = RateLimiter(RateLimits(key=1, verifications=1))
    ask(limiter, "a", 0.0)

    assert not ask(limiter, "b", 0.0).exceeded
    assert not ask(limiter, "a", 0.0, "verifications").exceeded


def test_a_request_refused_by_one_limit_uses_up_no_other() -> None:
    limiter = RateLimiter(RateLimits(key=5, verifications=1))
    for _ in range(3):
        standings = limiter.count([("key", "a"), ("verifications", "a")], now=0.0)

    assert [(s.name, s.remaining, s.exceeded) for s in standings] == [
        ("key", 4, False),
        ("verifications", 0, True),
    ]


def test_memory_is_bounded_by_forgetting_the_oldest() -> None:
    limiter = RateLimiter(RateLimits(key=1), max_tracked=2)
    for key in ("a", "b", "c"):
        ask(limiter, key, 0.0)

    assert not ask(limiter, "a", 0.0).exceeded
    assert ask(limiter, "c", 0.0).exceeded


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("on", RateLimits()),
        (" ON ", RateLimits()),
        ("off", None),
        ('{"key": 5}', RateLimits(key=5)),
        ('{"key": 5, "verifications": 2}', RateLimits(key=5, verifications=2)),
    ],
)
def test_the_setting_is_on_off_or_numbers(setting: str, expected: RateLimits | None) -> None:
    assert parse_rate_limits(setting) == expected


@pytest.mark.parametrize("setting", ["maybe", "{", '{"key": 0}', '{"speed": 5}', '{"key": "x"}', "5"])
def test_any_other_setting_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match="neither on, off nor"):
        parse_rate_limits(setting)


async def test_a_key_over_its_limit_is_429_until_the_window_ends() -> None:
    async with open_front(rate_limits=RateLimits(key=2)) as front:
        responses = [await front.ask("GET", PATH) for _ in range(3)]

    assert [one.status for one in responses] == [200, 200, 429]
    assert responses[2].code == "RATE_LIMITED"
    assert responses[2].json["type"].endswith("/problems/rate-limited")
    (reported_t,) = re.findall(r'"key";r=0;t=(\d+)', responses[2].headers["RateLimit"])
    assert int(responses[2].headers["Retry-After"]) >= int(reported_t)


async def test_every_answer_tells_how_the_key_stands() -> None:
    async with open_front(rate_limits=RateLimits(key=5)) as front:
        response = await front.ask("GET", PATH)

    assert response.headers["RateLimit-Policy"] == '"key";q=5;w=60, "tenant";q=1200;w=60'
    assert response.headers["RateLimit"] == '"key";r=4;t=60, "tenant";r=1199;t=60'


async def test_submitting_has_a_limit_of_its_own() -> None:
    async with open_front(rate_limits=RateLimits(verifications=1)) as front:
        submitted = [(await front.submit()).status for _ in range(2)]
        read = await front.ask("GET", PATH)

    assert (submitted, read.status) == ([201, 429], 200)


async def test_one_keys_limit_is_not_anothers() -> None:
    async with open_front(rate_limits=RateLimits(key=1)) as front:
        responses = [(await front.ask("GET", PATH, key)).status for key in ("idv_test_acme", FOREIGN)]

    assert responses == [200, 200]


async def test_a_refused_request_is_counted_before_its_body_is_read() -> None:
    async with open_front(rate_limits=RateLimits(verifications=1)) as front:
        await front.ask("POST", PATH, data=b"{", headers={"Content-Type": "application/json"})
        response = await front.submit()

    assert response.status == 429


async def test_without_limits_nothing_is_reported(front: Front) -> None:
    assert "RateLimit" not in (await front.ask("GET", PATH)).headers
