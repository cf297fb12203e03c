"""Policies as they are kept and changed: draft, immutable revisions, commands (G110)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel
from typing_extensions import override

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.ids import TenantId
from schemas.people import SentActor
from schemas.policies import FeatureKey


class PublishedRevision(Frozen):
    """A published revision without its text, counted from 1."""

    revision: Annotated[int, Field(ge=1)]
    sha256: str
    """Of the bytes as uploaded, hexadecimal."""
    published_at: Timestamp | None
    """Null for the revision that every tenant has from the start."""
    published_by: str | None
    """The member or key; null like `published_at`."""


class PolicyDraft(Frozen):
    """The draft without its text."""

    sha256: str
    updated_at: Timestamp


class PolicyShadow(Frozen):
    """The text that runs beside the published one."""

    revision: int | None
    draft: bool
    since: Timestamp


class StoredShadow(PolicyShadow):
    """The shadow as it is stored; its text is in a record of its own and changes no more."""

    sha256: str


class Policy(Frozen):
    """A policy as its tenant sees it."""

    name: str
    published: PublishedRevision
    draft: PolicyDraft | None
    shadow: PolicyShadow | None
    proposed_by: str | None
    """Who asked to publish what a second member must still agree to."""


class PolicyProposal(Frozen):
    """A text that one member wants to publish and another must agree to."""

    sha256: str
    proposed_by: str
    proposed_at: Timestamp


class NullsWritten(Frozen):
    """A model whose nulls are written, because what is shown has them."""

    @override
    def to_bytes(self) -> bytes:
        return self.model_dump_json().encode()


class CountedKeys(Frozen):
    """The kinds of keys beside the subject by which a tenant's transactions are counted."""

    changes: int = 0
    """How often a kind was added."""
    since: dict[FeatureKey, int] = Field(default_factory=dict)
    """Each kind with the number of the change that added it last: from then on there is no gap."""


class StoredPolicy(NullsWritten):
    """The small record of a policy; texts are in records of their own."""

    published: PublishedRevision
    draft: PolicyDraft | None = None
    draft_version: int = 0
    """The version of the record with the draft's text; 0: there is none."""
    proposal: PolicyProposal | None = None
    shadow: StoredShadow | None = None
    shadow_version: int = 0
    """The version of the record with the shadow's text; 0: there is none."""
    counted: CountedKeys = CountedKeys()
    requests: tuple[str, ...] = ()
    """The requests that changed it last, so that a command delivered again changes nothing."""


class _WithText(Frozen):
    """A model with bytes, which JSON holds in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class StoredText(_WithText, NullsWritten):
    """The text of a draft, revision or shadow, byte for byte as uploaded."""

    text: bytes
    revision: PublishedRevision | None = None
    """None: a draft or a shadow."""


class PolicyCommandBase(Command):
    """The fields of every command about a policy; keyed by tenant and policy."""

    tenant_id: TenantId
    policy: str
    actor: SentActor
    requested_at: Timestamp


class DraftPolicy(PolicyCommandBase, _WithText):
    """Replace the draft with a text that loads."""

    kind: Literal["draft"] = "draft"
    text: bytes


class PublishPolicy(PolicyCommandBase):
    """Publish the draft, or the text of an earlier revision again."""

    kind: Literal["publish"] = "publish"
    from_revision: int | None = None


class ShadowPolicy(PolicyCommandBase):
    """Run another text beside the published one: a revision, the draft as it is now, or none any more."""

    kind: Literal["shadow"] = "shadow"
    revision: int | None = None
    draft: bool = False


AnyPolicyCommand = DraftPolicy | PublishPolicy | ShadowPolicy


class PolicyCommand(RootModel[Annotated[AnyPolicyCommand, Field(discriminator="kind")]]):
    """Any command about a policy."""


class PolicyChanged(Event):
    """The answer to every command about a policy: the change is stored."""

    policy: str
    proposed: bool = False
    """Nothing was published; a second member must agree."""


def policy_key(tenant_id: TenantId, policy: str) -> str:
    """Return the key under which the commands of one policy keep their order."""
    return f"{tenant_id}:{policy}"
