"""Hash a rule with the features it reads, to tell a changed rule from the one that was judged; pure."""

import hashlib
import json

from schemas.policy_documents import FeatureMultiple, PolicyDocument
from streams.policies.compiling import leaves_of
from streams.policies.printing import plain_rule


def rule_sha256(document: PolicyDocument, rule_id: str) -> str | None:
    """Return the hash of a rule, whatever its mode is, or None when the policy has no such rule."""
    rule = next((rule for rule in document.rules if rule.id == rule_id), None)
    if rule is None:
        return None
    leaves = tuple(leaves_of(rule.when))
    read = {leaf.name for leaf in leaves if leaf.is_feature}
    read |= {leaf.value.feature for leaf in leaves if isinstance(leaf.value, FeatureMultiple)}
    plain = plain_rule(document, rule, read)
    plain["rule"]["mode"] = None
    canonical = json.dumps(plain, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()
