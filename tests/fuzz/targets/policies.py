"""The reader of policies, from bytes to a compiled one."""

from contextlib import suppress

from schemas.problems import Refused
from streams.policies.compiling import compile_policy
from streams.policies.loading import first_text, load
from streams.policies.printing import print_policy
from tests.bench.fifty_rules import policy_text

SEEDS = (first_text(), policy_text(), b"policy: transactions\nfeatures: []\nchecks: []\nrules: []\n")


def target(data: bytes) -> None:
    """Read the bytes; what is read is printed and read again as the same."""
    with suppress(Refused):
        document = load(data)
        compile_policy(document, 1, "fuzz").evaluate({}, {}, {})
        if load(print_policy(document)) != document:
            raise AssertionError("printed and read again, it is another policy")
