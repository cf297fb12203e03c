"""Look up the policy of a run: the tenant's current one, or None when it does not load (G6, G15, G70)."""

import structlog
from pydantic import ValidationError

from schemas.reasons import ReasonCode
from schemas.tenant_settings import PolicyChoice
from schemas.verifications import SubmitVerification
from streams.ports.records import Records
from streams.tenants.settings import read_settings
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import found, usual

log = structlog.get_logger(__name__)


async def policy_for(
    records: Records, base: VerificationPolicy, command: SubmitVerification
) -> VerificationPolicy | None:
    """Return the policy of the run; a session's checks come from its revision instead.

    None: the tenant's policy does not load, for example because it names an unimplemented check.
    """
    try:
        settings = await read_settings(records, command.tenant_id)
        if base.faces_kept_days != settings.retention.biometric_days:
            base = base.model_copy(update={"faces_kept_days": settings.retention.biometric_days})
        if command.required_checks:
            return policy_of(base, command, settings.verification_policy)
        return with_choice(base, settings.verification_policy)
    except ValidationError:
        log.error("policy.not_loaded", tenant_id=command.tenant_id)  # noqa: TRY400 - it may quote a value
        return None


def with_choice(base: VerificationPolicy, choice: PolicyChoice) -> VerificationPolicy:
    """Return the policy with the tenant's choices, or the default.

    Raises:
        pydantic.ValidationError: The policy does not load.
    """
    if choice == PolicyChoice():
        return base
    chosen = base.model_copy(update=choice.model_dump())
    return VerificationPolicy.model_validate(chosen.model_dump())


def without_policy(base: VerificationPolicy) -> Evaluation:
    """Return the evaluation of a run without a policy: every check has POLICY_UNAVAILABLE."""
    reasons, said = usual(ReasonCode.POLICY_UNAVAILABLE), "The tenant's policy does not load."
    return Evaluation(
        results=tuple(found(kind, reasons, detail=said) for kind in base.required_checks), findings=None
    )


def policy_of(
    policy: VerificationPolicy, command: SubmitVerification, choice: PolicyChoice
) -> VerificationPolicy:
    """Return the policy of the run: a session's checks come from its revision, the rest from the tenant."""
    if not command.required_checks:
        return policy
    tenants = {"minimum_age": choice.minimum_age, "duplicate_faces": choice.duplicate_faces}
    return policy.model_copy(update={"required_checks": command.required_checks, **tenants})
