"""Read and change a tenant's settings; a change writes one audit row (G43, G87)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from schemas.audit import Actor, AuditAction
from schemas.base import Frozen
from schemas.ids import TenantId
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.tenant_settings import Enforcement, FourEyes, PolicyChoice, TenantSettings
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records
from streams.tenants.handler import Clock, NewId

SETTINGS: Final = "tenant"
"""The id of a tenant's one record of settings."""


async def read_settings(records: Records, tenant_id: TenantId) -> TenantSettings:
    """Return the settings, with defaults for what was never set."""
    return (await load_settings(records, tenant_id)).settings


@dataclass(frozen=True, slots=True)
class VersionedSettings:
    """The settings and the version of their record."""

    settings: TenantSettings
    version: int
    """0: nothing was ever set."""


async def load_settings(records: Records, tenant_id: TenantId) -> VersionedSettings:
    """Return the settings and their version."""
    try:
        record = await records.get(tenant_id, RecordKind.SETTINGS, SETTINGS)
    except NotFound:
        return VersionedSettings(TenantSettings(), 0)
    return VersionedSettings(TenantSettings.from_bytes(record.body), record.version)


POLICY: Final = "/verification_policy"


_POINTED_AT: Final = ("required_checks", "minimum_age", "duplicate_faces")
"""The changed fields of a policy in the order in which an error points at them."""


@dataclass(frozen=True, slots=True)
class SettingsChanges:
    """Changes to the settings; None leaves a field unchanged."""

    four_eyes: FourEyes | None = None
    require_evidence_view: bool | None = None
    policy_four_eyes: bool | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `PolicyChoice` by name; its revision is never among them."""
    retention: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Retention` by name."""
    rate_limits: Mapping[str, int | None] = field(default_factory=dict)
    """Fields of `TenantRateLimits` by name; None takes a limit of the tenant's own back."""
    enforcement: Enforcement | None = None

    def of(self, standing: TenantSettings) -> dict[str, Any]:
        """Return the settings that differ from the current ones, by name."""
        names = ("four_eyes", "require_evidence_view", "policy_four_eyes", "enforcement")
        wanted = {name: getattr(self, name) for name in names}
        differs: dict[str, Any] = {
            n: v for n, v in wanted.items() if v is not None and v != getattr(standing, n)
        }
        policy = standing.verification_policy
        chosen = _differing(self.policy, policy)
        if chosen:
            update = {**chosen, "revision": policy.revision + 1}
            differs["verification_policy"] = policy.model_copy(update=update)
        if retained := _differing(self.retention, standing.retention):
            differs["retention"] = standing.retention.model_copy(update=retained)
        if limited := _differing(self.rate_limits, standing.rate_limits):
            differs["rate_limits"] = standing.rate_limits.model_copy(update=limited)
        return differs


def _differing(wanted: Mapping[str, Any], standing: Frozen) -> dict[str, Any]:
    """Return the values that differ from the current ones."""
    return {name: value for name, value in wanted.items() if _differs(value, getattr(standing, name))}


def _differs(wanted: object, standing: object) -> bool:
    """Return whether two values differ; the order of checks and of subjects on hold does not count."""
    if isinstance(wanted, tuple) and isinstance(standing, tuple):
        return set(wanted) != set(standing)
    return wanted != standing


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Change the settings of a tenant."""

    records: Records
    commit: Commit
    clock: Clock
    new_id: NewId
    load_policy: Callable[[PolicyChoice], object]
    """Load the policy of a choice, or raise `pydantic.ValidationError`."""

    async def __call__(
        self, tenant_id: TenantId, changes: SettingsChanges, seen: int | None, actor: Actor
    ) -> VersionedSettings:
        """Change the settings and return them; without a difference nothing is written.

        Raises:
            Conflict: `seen` is not their version any more.
            Refused: VALIDATION_FAILED, the policy would not load.
        """
        row_id = self.new_id("aud")
        while True:
            current = await load_settings(self.records, tenant_id)
            if seen is not None and seen != current.version:
                raise Conflict(SETTINGS)
            standing = current.settings.verification_policy
            self._require_loads(standing.model_copy(update=dict(changes.policy)), changes)
            differs = changes.of(current.settings)
            if not differs:
                return current
            changed = VersionedSettings(current.settings.model_copy(update=differs), current.version + 1)
            row_changes = _row_changes(current.settings, changed.settings, differs)
            if await self._store(tenant_id, changed, row_changes, actor, row_id):
                return changed

    async def _store(
        self,
        tenant_id: TenantId,
        changed: VersionedSettings,
        row_changes: dict[str, Any],
        actor: Actor,
        row_id: str,
    ) -> bool:
        """Commit the settings; return False on a conflict."""
        now = self.clock()
        row = write_row(
            row_id, AuditAction.TENANT_SETTINGS_CHANGED, actor, tenant_id, now,
            detail="The settings were changed.", changes=row_changes,
        )  # fmt: skip
        body = changed.settings.to_bytes()
        record = Record(tenant_id, RecordKind.SETTINGS, SETTINGS, body, now, version=changed.version)
        try:
            return (await self.commit(Change(tenant_id, (record,), (row,)))).won
        except Conflict:
            return False

    def _require_loads(self, choice: PolicyChoice, changes: SettingsChanges) -> None:
        """Raise unless the policy would load, for example when a check has no engine (G6)."""
        if not changes.policy:
            return
        try:
            self.load_policy(choice)
        except ValidationError as error:
            message = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            pointer = f"{POLICY}/{min(changes.policy, key=_POINTED_AT.index)}"
            raise Refused.at(
                pointer, ProblemCode.VALIDATION_FAILED, f"The policy does not load: {message}."
            ) from None


def _row_changes(before: TenantSettings, after: TenantSettings, differs: dict[str, Any]) -> dict[str, Any]:
    """Return the audit row's changes; of legal holds, the subjects added and removed."""
    named = after.model_dump(mode="json")
    row_changes = {name: named[name] for name in differs}
    if "retention" in row_changes:
        on_hold, was = set(after.retention.legal_hold), set(before.retention.legal_hold)
        holds = {"held": sorted(on_hold - was), "released": sorted(was - on_hold)}
        row_changes["retention"] = {**row_changes["retention"], "legal_hold": holds}
    return row_changes
