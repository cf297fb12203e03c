"""Verification flows: draft, revisions, and the commands that change them (interface sections 2.1-2.6)."""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.catalog import CaptureRequirements
from schemas.enums import CheckKind, DocumentType, FlowStatus, FlowType, ReaderClass
from schemas.ids import FlowId, TenantId, UserId
from schemas.people import SentActor


class FlowDocumentSelection(Frozen):
    """Documents of one country that a flow accepts, by catalogue code."""

    country: str
    capabilities: tuple[str, ...]


class FlowDocument(Frozen):
    """A catalogue entry as it was at publish time: a copy, never a reference."""

    code: str
    country: str
    document_type: DocumentType
    display_name: str
    capture: CaptureRequirements | None = None
    reader: ReaderClass | None = None


class FlowConfiguration(Frozen):
    """The configuration that a revision freezes and that its sessions use."""

    flow_type: FlowType
    required_checks: tuple[CheckKind, ...]
    documents: tuple[FlowDocument, ...]
    return_url: str | None = None


class FlowRevision(Frozen):
    """A published revision, counted from 1."""

    revision: int = Field(ge=0)
    configuration: FlowConfiguration
    published_at: Timestamp
    published_by: UserId


class Flow(Frozen):
    """A flow as its tenant sees it."""

    flow_id: FlowId
    name: str
    status: FlowStatus
    flow_type: FlowType
    documents: tuple[FlowDocumentSelection, ...]
    created_at: Timestamp
    updated_at: Timestamp
    archived_at: Timestamp | None = None
    published: FlowRevision | None = None
    published_at: Timestamp | None = None
    published_revision: int | None = Field(default=None, ge=0)
    return_url: str | None = None


class StoredFlow(Frozen):
    """A stored flow."""

    flow: Flow
    requests: tuple[str, ...] = ()
    """The requests that changed it last, so that a command delivered again changes nothing."""


class FlowDraft(Frozen):
    """The editable fields of a flow."""

    name: str
    flow_type: FlowType
    documents: tuple[FlowDocumentSelection, ...] = ()
    return_url: str | None = None


class FlowCommandBase(Command):
    """The fields of every command about a flow; keyed by flow id."""

    tenant_id: TenantId
    flow_id: FlowId
    actor: SentActor
    requested_at: Timestamp


class CreateFlow(FlowCommandBase):
    """Create a draft."""

    kind: Literal["create"] = "create"
    draft: FlowDraft
    fingerprint: str
    copied_from: FlowId | None = None
    """The flow it duplicates; its selection may name what the catalogue has meanwhile disabled."""


class EditFlow(FlowCommandBase):
    """Change fields of the draft."""

    kind: Literal["edit"] = "edit"
    changes: dict[str, Any]
    """Fields of `FlowDraft`."""
    seen: int | None = None
    """The version the caller saw."""


class PublishFlow(FlowCommandBase):
    """Freeze the draft as the next revision."""

    kind: Literal["publish"] = "publish"
    reviewer_id: UserId
    seen: int | None = None


class ArchiveFlow(FlowCommandBase):
    """Archive the flow; its revisions and sessions remain."""

    kind: Literal["archive"] = "archive"


class FlowCommand(
    RootModel[Annotated[CreateFlow | EditFlow | PublishFlow | ArchiveFlow, Field(discriminator="kind")]]
):
    """Any command about a flow."""


class FlowChanged(Event):
    """The answer to every command about a flow: the change is stored."""

    flow_id: FlowId
    replayed: bool = False
    """An earlier request with the same key had created it."""
