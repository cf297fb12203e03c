"""Open the lists of a process: those of the deployment, and each tenant's own as they are asked for."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from app.adapters.files.list_snapshots import ListSnapshots
from app.composition.stores import Deployment, new_id, now
from app.kafka.list_changes import ListChanges, announcing
from app.lists.publishing import PublishList
from app.lists.serving import DeploymentLists, published, serving_lists
from app.names.process import NamesProcess, open_names
from app.settings import Settings
from schemas.ids import PLATFORM, TenantId
from streams.audit.commit import Commit
from streams.lists.current import CurrentLists
from streams.lists.handler import Announce
from streams.lists.listed_names import index_nothing
from streams.lists.storage import ListStorage
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter

WITHOUT_LISTS: Final = "live payments and names that are screened wait"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessLists:
    """The lists that a process serves, and how it tells others that one changed."""

    snapshots: ListSnapshots
    storage: ListStorage
    deployment: DeploymentLists
    current: CurrentLists
    announce: Announce
    names: NamesProcess | None
    """None in a process that compares no names."""

    def publishing(self, commit: Commit) -> PublishList:
        """Return the use case that loads lists of the deployment."""
        return PublishList(
            self.snapshots, self.storage, commit, now, new_id, self.announce, self.deployment.refresh
        )


def storage_of(deployment: Deployment) -> ListStorage:
    """Return where the lists of a deployment are stored."""
    stores = deployment.stores
    return ListStorage(stores.records, stores.journal, stores.vault)


@asynccontextmanager
async def open_lists(
    settings: Settings, deployment: Deployment, writer: LogWriter, access: LogAccess, *, whole: bool
) -> AsyncIterator[ProcessLists]:
    """Serve lists for the length of the context; those of the deployment are built when it is entered.

    Names are in a process of their own. Without `whole` there is none: this process screens no names, and has
    only the entries with wallets.
    """
    storage = storage_of(deployment)
    async with AsyncExitStack() as stack:
        snapshots = ListSnapshots(settings.data_dir)
        names = await stack.enter_async_context(open_names()) if whole else None
        index = index_nothing if names is None else names
        served = await stack.enter_async_context(serving_lists(snapshots, now, storage, index))
        if whole and not published(served.lists):
            log.info("lists.none_loaded", means=WITHOUT_LISTS, fix="veristream lists --help")
        current = CurrentLists(served.lists, storage, index=index)

        def forget(tenant_id: TenantId) -> None:
            if tenant_id == PLATFORM:
                served.look_now()
            current.forget(tenant_id)

        changes = ListChanges(access, deployment.record_keys, forget)
        served.is_notified = changes.listening.is_set
        await stack.enter_async_context(changes)
        yield ProcessLists(snapshots, storage, served, current, announcing(writer, forget), names)
