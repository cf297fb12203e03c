"""What is known of the transactions before the one that is decided: its subject's, and by other keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.policies import Feature, FeatureKey, FeatureValue
from streams.transactions.features import values
from streams.transactions.row import VelocityEvent, VelocityRow


@dataclass(frozen=True, slots=True)
class Earlier:
    """The earlier transactions, as features see them."""

    row: VelocityRow
    """Of the subject."""
    by_keys: Mapping[str, FeatureValue]
    """Features by other keys, as their actors computed them."""

    def features(self, features: Iterable[Feature], event: VelocityEvent) -> dict[str, FeatureValue]:
        """Return the value of each feature for the transaction."""
        features = tuple(features)
        own = [feature for feature in features if feature.key is FeatureKey.SUBJECT_ID]
        others = {one.name: self.by_keys[one.name] for one in features if one.name in self.by_keys}
        return values(own, self.row, event) | others
