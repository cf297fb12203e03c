"""A verification runs the policy its tenant chose, and without a policy that loads nothing is decided."""

import pytest

from schemas.enums import CheckKind, DecisionOutcome, VerificationStatus
from schemas.reasons import ReasonCode
from schemas.tenant_settings import USUAL_CHECKS, PolicyChoice, TenantSettings
from streams.ports.records import Change, Record, RecordKind
from streams.tenants.settings import SETTINGS
from streams.verification.policy import VerificationPolicy
from tests.builders import ACME, GLOBEX, NOW, build_fields, build_findings
from tests.handlers.verification_stage import Scene, Stage

EVERYTHING = VerificationPolicy(required_checks=(*VerificationPolicy().required_checks, CheckKind.LIVENESS))


async def settle(
    stage: Stage, *checks: CheckKind, revision: int = 2, tenant_id: str = ACME, minimum_age: int | None = None
) -> None:
    """Keep settings as they stand in the store, whatever checks they name."""
    choice = PolicyChoice(revision=revision, required_checks=checks, minimum_age=minimum_age)
    body = TenantSettings(verification_policy=choice).to_bytes()
    record = Record(tenant_id, RecordKind.SETTINGS, SETTINGS, body, NOW)  # type: ignore[arg-type]  # a plain str
    await stage.stores.journal.commit(Change(record.tenant_id, (record,)))


async def test_the_checks_are_those_the_tenant_chose() -> None:
    stage = Stage()
    await settle(stage, CheckKind.FACE_MATCH, revision=7)

    await stage.submit()

    stored = await stage.stored()
    assert [check.kind for check in stored.checks] == [CheckKind.FACE_MATCH]
    assert str(stored.verification.model_version).endswith("+thr.7")


async def test_a_tenant_that_chose_nothing_has_the_policy_of_the_deployment() -> None:
    stage = Stage(policy=EVERYTHING)

    await stage.submit()

    assert [check.kind for check in (await stage.stored()).checks] == [*EVERYTHING.required_checks]


async def test_another_tenants_choice_is_its_own() -> None:
    stage = Stage()
    await settle(stage, CheckKind.FACE_MATCH, tenant_id=GLOBEX)

    await stage.submit()

    assert len((await stage.stored()).checks) == len(VerificationPolicy().required_checks)


async def test_s75_a_policy_that_does_not_load_holds_and_never_approves() -> None:
    stage = Stage()
    await settle(stage, CheckKind.DOCUMENT_AUTHORITY)

    await stage.submit()

    verification = (await stage.stored()).verification
    assert (verification.status, verification.decision) == (VerificationStatus.FAILED, DecisionOutcome.HOLD)
    assert {reason.code for reason in verification.reasons} == {ReasonCode.POLICY_UNAVAILABLE}


async def test_a_sessions_checks_are_its_revisions_whatever_the_tenant_chose() -> None:
    stage = Stage()
    await settle(stage, CheckKind.DOCUMENT_AUTHORITY)

    await stage.submit(required_checks=(CheckKind.AUTHENTICITY,))

    assert [check.kind for check in (await stage.stored()).checks] == [CheckKind.AUTHENTICITY]


@pytest.mark.parametrize("of_session", [(), USUAL_CHECKS], ids=["submitted by the tenant", "of a session"])
async def test_r10_a_person_below_the_tenants_minimum_age_is_rejected(
    of_session: tuple[CheckKind, ...],
) -> None:
    child = build_findings(fields=build_fields(date_of_birth=f"{NOW.year - 11}-01-01"))
    stage = Stage(Scene(findings=child))
    await settle(stage, *USUAL_CHECKS, minimum_age=18)

    await stage.submit(required_checks=of_session)

    verification = (await stage.stored()).verification
    assert (verification.status, verification.decision) == (
        VerificationStatus.REJECTED,
        DecisionOutcome.BLOCK,
    )
    assert [reason.code for reason in verification.reasons] == [ReasonCode.UNDER_AGE]
