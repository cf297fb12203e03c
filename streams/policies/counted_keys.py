"""By which kinds of keys a tenant's transactions are counted, as its policies use them; pure (G113)."""

from collections.abc import Iterable

from schemas.policies import Feature, FeatureKey
from schemas.policy_records import CountedKeys


def features_by_key(features: Iterable[Feature]) -> dict[FeatureKey, tuple[Feature, ...]]:
    """Return the features by what they look at."""
    found = dict[FeatureKey, tuple[Feature, ...]]()
    for feature in features:
        found[feature.key] = (*found.get(feature.key, ()), feature)
    return found


def counting(before: CountedKeys, features: Iterable[Feature]) -> CountedKeys:
    """Return the keys that are counted by once these are the features of all texts in use.

    A kind that was not counted by for a while gets another number than before: its rows have a gap.
    """
    used = features_by_key(features).keys() - {FeatureKey.SUBJECT_ID}
    changes = before.changes if used <= before.since.keys() else before.changes + 1
    since = {key: before.since.get(key, changes) for key in FeatureKey if key in used}
    return CountedKeys(changes=changes, since=since)
