"""Loading policies: each error with its rule and place, hostile texts refused, and what is read as what."""

import json

import pytest

from schemas.policies import FeatureValue, FieldValue, PolicyFault
from schemas.problems import FieldProblem, Refused
from streams.policies.loading import digest, first_policy, first_text, load
from streams.policies.reading.nodes import BadNumber, resolve_plain

RULE = "{id: a, mode: ACTIVE, when: {field: type, op: EQ, value: CARD}, then: {score: 1, reason: %s}}"
REASON = "{code: POLICY_A, message: m}"
EMPTY = b"policy: transactions\nfeatures: []\nchecks: []\nrules: []\n"
FIRST_SHA256 = "23ad235cb11fe7a2cfad8ee06bc6242d08c7d8fa3e69787b7018996aefc64b01"


def problems(text: str | bytes, lists: frozenset[str] | None = None) -> list[FieldProblem]:
    """What is wrong with a text."""
    with pytest.raises(Refused) as refused:
        load(text.encode() if isinstance(text, str) else text, lists)
    return list(refused.value.refusal.errors)


def policy(rule: str = RULE % REASON, features: str = "", checks: str = "", more: str = "") -> str:
    """A policy, each of its parts on a line of its own."""
    parts = f"policy: transactions\nfeatures: [{features}]\nchecks: [{checks}]\nrules: [{rule}]\n"
    return f"{parts}{more}\n"


def rule(when: str = "{field: type, op: EQ, value: CARD}", then: str = "", more: str = "") -> str:
    """One rule."""
    then = then or f"{{score: 1, reason: {REASON}}}"
    return f"{{id: a, mode: ACTIVE, when: {when}, then: {then}{more}}}"


def leaf(field: str, op: str, value: str) -> str:
    """A policy whose one rule has this comparison."""
    return policy(rule(f"{{field: {field}, op: {op}, value: {value}}}"))


NAMES = (
    "{check: SANCTIONS, targets: [subject], match: 0.85, possible: 0.7, "
    "on_match: %s, on_possible: FLAG, on_error: %s}"
)
COUNT = "{name: n, metric: COUNT, window: 1h, key: subject_id}"
TEST = "tests: [{name: t, fields: {type: %s}, expect: {decision: %s}}]"
USES_N = rule("{feature: n, op: GT, value: 1}")

ONE_OF_EACH = {
    PolicyFault.YAML_SYNTAX: f"{policy()}tests: [\n¶",
    PolicyFault.YAML_FORBIDDEN: policy(more="description: ¶&a x"),
    PolicyFault.DEPTH: policy(rule("{not: {not: {not: {not: ¶{not: {field: type, op: NOT_NULL}}}}}}")),
    PolicyFault.KEY_UNKNOWN: policy(more="¶colour: red"),
    PolicyFault.KEY_MISSING: policy(rule(then="¶{score: 1}")),
    PolicyFault.KEY_DUPLICATE: policy(more="¶rules: []"),
    PolicyFault.VALUE_TYPE: leaf("amount", "GT", "¶1500"),
    PolicyFault.VALUE_RANGE: leaf("direction", "EQ", "¶UP"),
    PolicyFault.CHECK_UNKNOWN: policy(checks=NAMES.replace("SANCTIONS", "¶SANCTION") % ("BLOCK", "HOLD")),
    PolicyFault.CHECK_NOT_HERE: leaf("¶checks.LIVENESS.subject", "EQ", "MATCH"),
    PolicyFault.OP_UNKNOWN: leaf("amount", "¶ABOVE", "'1'"),
    PolicyFault.OP_TYPE: leaf("direction", "¶GT", "INBOUND"),
    PolicyFault.METRIC_UNKNOWN: policy(USES_N, COUNT.replace("COUNT", "¶COUNTS")),
    PolicyFault.WINDOW_UNKNOWN: policy(USES_N, COUNT.replace("1h", "¶2h")),
    PolicyFault.FIELD_UNKNOWN: leaf("¶ammount", "GT", "'1'"),
    PolicyFault.FEATURE_UNKNOWN: policy(USES_N.replace("feature: n", "feature: ¶n")),
    PolicyFault.FEATURE_UNUSED: policy(features=COUNT.replace("name: ", "name: ¶")),
    PolicyFault.FEATURE_DUPLICATE: policy(USES_N, f"{COUNT},\n {COUNT.replace('name: ', 'name: ¶')}"),
    PolicyFault.LIST_UNKNOWN: leaf("device.ip", "IN_LIST", "¶tor"),
    PolicyFault.DECISION_UNKNOWN: policy(checks=NAMES % ("¶BLOK", "HOLD")),
    PolicyFault.DECISION_NOT_HERE: policy(checks=NAMES % ("BLOCK", "¶ALLOW")),
    PolicyFault.RULE_DUPLICATE: policy(f"{rule()},\n {rule().replace('id: ', 'id: ¶')}"),
    PolicyFault.THRESHOLDS_ORDER: policy(more="score: ¶{BLOCK: 10, FLAG: 20}"),
    PolicyFault.PLACEHOLDER_UNKNOWN: policy(RULE % "{code: POLICY_A, message: ¶'{subject.name}'}"),
    PolicyFault.REASON_RESERVED: policy(RULE % "{code: ¶POLICY_UNAVAILABLE, message: m}"),
    PolicyFault.TEST_FAILED: policy(more=(TEST % ("CARD", "BLOCK")).replace("expect: ", "expect: ¶")),
}
"""A policy for each rule of the closed list, the place of its one error marked."""


@pytest.mark.parametrize("fault", ONE_OF_EACH, ids=str)
def test_an_error_stands_alone_with_its_rule_and_place(fault: PolicyFault) -> None:
    before, after = ONE_OF_EACH[fault].split("¶")
    place = before.count("\n") + 1, len(before) - before.rfind("\n")

    reported = problems(before + after, frozenset({"known"}))

    assert [(one.rule, (one.line, one.column)) for one in reported] == [(fault, place)]


def test_every_rule_of_the_closed_list_has_an_example() -> None:
    assert {*ONE_OF_EACH, PolicyFault.SIZE} == set(PolicyFault)


def test_forty_errors_are_forty() -> None:
    rules = ",\n".join(
        rule(f"{{field: amount{n}, op: NOT_NULL}}").replace("id: a", f"id: r{n}") for n in range(40)
    )

    reported = problems(policy(rules))

    assert [(one.rule, one.pointer, one.line) for one in reported] == [
        ("FIELD_UNKNOWN", f"/rules/{n}/when/field", 4 + n) for n in range(40)
    ]
    assert all("`amount`" in one.message for one in reported)


def test_more_than_a_hundred_errors_are_the_first_hundred() -> None:
    more = "\n".join(f"key_{n}: 1" for n in range(150))

    reported = problems(policy(more=more))

    assert [one.line for one in reported] == list(range(5, 105))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", PolicyFault.YAML_SYNTAX),
        (b"rules:\n\t- a", PolicyFault.YAML_SYNTAX),
        (b"\x80", PolicyFault.YAML_SYNTAX),
        (b"policy: \x00", PolicyFault.YAML_SYNTAX),
        (b"\xff\xfe\x00", PolicyFault.YAML_SYNTAX),
        (b"[" * 100_000, PolicyFault.DEPTH),
        (b"- " * 9_000, PolicyFault.DEPTH),
        (b"{a: " * 40_000, PolicyFault.DEPTH),
        (b"x" * 10_000_000, PolicyFault.SIZE),
        (b"a: [" + b"1," * 30_000 + b"]", PolicyFault.SIZE),
        (b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", PolicyFault.YAML_FORBIDDEN),
        (b"a: 1\n---\nb: 2", PolicyFault.YAML_FORBIDDEN),
        (b"? {a: [b]}\n: c", PolicyFault.VALUE_TYPE),
        (b"just a text", PolicyFault.VALUE_TYPE),
        (EMPTY.replace(b"[]", b"!!python/object/apply:os.system [x]", 1), PolicyFault.YAML_FORBIDDEN),
    ],
    ids=lambda value: value[:12].hex() if isinstance(value, bytes) else str(value),
)
@pytest.mark.timeout(60)
def test_a_hostile_text_is_refused(text: bytes, fault: PolicyFault) -> None:
    assert fault in [one.rule for one in problems(text)]


def test_pointers_stay_short_below_long_keys() -> None:
    text = b"? " + b"k" * 100_000 + b"\n: [" + b"{a: 1}," * 4_000 + b"]"

    assert all(len(one.pointer or "") <= 200 and len(one.message) < 200 for one in problems(text))


@pytest.mark.parametrize(
    "text",
    [
        EMPTY,
        EMPTY.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + EMPTY,
        EMPTY.decode().encode("utf-16"),
        json.dumps({"policy": "transactions", "features": [], "checks": [], "rules": []}).encode(),
        json.dumps(
            {"policy": "transactions", "features": [], "checks": [], "rules": []}, indent="\t"
        ).encode(),
    ],
)
def test_the_same_policy_in_another_form_reads_the_same(text: bytes) -> None:
    assert load(text) == load(EMPTY)


@pytest.mark.parametrize("word", ["NO", "on", "Yes", "1:30", "1_000", "0b1", "+", "1e", "=", "2026-01-01"])
def test_words_that_yaml_1_1_took_for_something_else_are_texts(word: str) -> None:
    assert resolve_plain(word) == word


@pytest.mark.parametrize("number", [".inf", "-.INF", ".nan", "1e999", "9" * 41, "9" * 5_000])
def test_a_number_beyond_all_use_is_out_of_range(number: str) -> None:
    assert resolve_plain(number) == BadNumber()
    assert [one.rule for one in problems(leaf("hour", "EQ", number))] == ["VALUE_RANGE"]


@pytest.mark.parametrize(
    "money",
    [
        "1e3",
        "+5",
        " 5",
        "5.",
        ".5",
        "NaN",
        "Infinity",
        "\uff11\uff15",
        "1_000",
        "1" * 40,
        "-5",
        "",
        "0x10",
        "1,5",
        "007",
    ],
)
def test_no_other_form_of_money_is_taken(money: str) -> None:
    assert [one.rule for one in problems(leaf("amount", "GT", json.dumps(money)))] == ["VALUE_RANGE"]


def test_a_key_that_is_forbidden_or_double_does_not_hide_what_comes_after() -> None:
    text = policy(more="<<: {a: b}\nrules: 5\ndescription: 5")

    assert [one.rule for one in problems(text)] == ["YAML_FORBIDDEN", "KEY_DUPLICATE", "VALUE_TYPE"]


def test_a_check_that_the_policy_does_not_make_cannot_be_read() -> None:
    text = leaf("checks.PEP.subject", "EQ", "MATCH")

    assert [one.rule for one in problems(text)] == ["FIELD_UNKNOWN"]


def test_a_list_needs_to_be_known_only_where_lists_are_known() -> None:
    text = leaf("device.ip", "IN_LIST", "tor").encode()

    assert load(text).rules[0].id == "a"
    assert load(text, frozenset({"tor"})) == load(text)
    assert [one.message for one in problems(text, frozenset({"tor_ips"}))] == [
        "`tor` is no list. Did you mean `tor_ips`?"
    ]


def test_a_test_tells_what_it_came_to() -> None:
    text = policy(more="tests: [{name: card, fields: {type: PAYMENT}, expect: {decision: ALLOW, hits: [a]}}]")

    assert [one.message for one in problems(text)] == ["card: no rule hits."]


def test_the_first_policy_loads_and_never_changes() -> None:
    """Who has never published keeps revision 1 as it was; another text is another revision."""
    assert digest(first_text()) == FIRST_SHA256
    assert (first_policy().revision, first_policy().sha256) == (1, FIRST_SHA256)


def test_the_first_policy_warns_holds_and_flags() -> None:
    fields: dict[str, FieldValue] = {"type": "PAYMENT", "direction": "OUTBOUND", "base_amount": 600}
    features = {
        "transactions_15m": FeatureValue(5),
        "outbound_1h": FeatureValue(10),
        "average_30d": FeatureValue(100),
    }

    results = first_policy().evaluate(fields, features, {})

    assert [(one.id, one.result, one.decision) for one in results] == [
        ("many_in_15_minutes", "HIT", "WARN"),
        ("many_outbound_in_an_hour", "HIT", "HOLD"),
        ("far_above_average", "HIT", "FLAG"),
    ]
