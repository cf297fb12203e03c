"""Look up the fields and features that a policy names, and note which features are used (G112)."""

from collections.abc import Mapping

from schemas.enums import CheckKind
from schemas.policies import PolicyFault
from schemas.policy_fields import FIELDS, METADATA_PREFIX, POLICY_CHECKS, FieldSpec, MetadataType, field_spec
from streams.policies.reading.features import KnownFeature
from streams.policies.reading.nodes import Node
from streams.policies.reading.problems import show
from streams.policies.reading.values import Values


class Names:
    """The fields and features that the rules and tests of a policy may name."""

    def __init__(
        self,
        values: Values,
        features: Mapping[str, KnownFeature],
        metadata: Mapping[str, MetadataType],
        checked: frozenset[str] | None,
    ) -> None:
        """Take what may be named.

        Args:
            values: The readers of single values.
            features: The features of the policy.
            metadata: The declared keys of metadata.
            checked: The fields of the checks that the policy makes; None when its checks have errors.
        """
        self._values = values
        self.features = features
        self._metadata = metadata
        self._checked = checked
        self.used: set[str] = set()
        """The features that were named so far."""

    def spec(self, node: Node, *, is_feature: bool) -> FieldSpec | None:
        """Return what is known of the field or feature that is named here."""
        name = self._values.text(node)
        if name is None:
            return None
        if not is_feature:
            return self._field_spec(node, name)
        known = self.feature(node, name)
        return FieldSpec(known.type) if known and known.type else None

    def feature(self, node: Node, name: str) -> KnownFeature | None:
        """Return a feature by name and note that it is used."""
        self.used.add(name)
        if name not in self.features:
            self._values.problems.unknown(PolicyFault.FEATURE_UNKNOWN, node, "feature", name, self.features)
        return self.features.get(name)

    def _field_spec(self, node: Node, name: str) -> FieldSpec | None:
        spec = field_spec(name, self._metadata)
        problems = self._values.problems
        if spec is None:
            self._unknown_field(node, name)
        elif name.startswith("checks.") and self._checked is not None and name not in self._checked:
            problems.add(PolicyFault.FIELD_UNKNOWN, node, f"The policy makes no such check: {show(name)}.")
            return None
        return spec

    def _unknown_field(self, node: Node, name: str) -> None:
        problems = self._values.problems
        prefix, _, rest = name.partition(".")
        check = rest.partition(".")[0]
        if prefix == "checks" and check not in {str(kind) for kind in CheckKind}:
            problems.unknown(PolicyFault.CHECK_UNKNOWN, node, "check", check, POLICY_CHECKS)
        elif prefix == "checks" and check not in POLICY_CHECKS:
            problems.add(PolicyFault.CHECK_NOT_HERE, node, f"{check} is a check of verifications.")
        elif name.startswith(METADATA_PREFIX):
            message = f"Declare {show(rest)} under `metadata` with its type."
            problems.add(PolicyFault.FIELD_UNKNOWN, node, message)
        else:
            problems.unknown(PolicyFault.FIELD_UNKNOWN, node, "field", name, FIELDS)
