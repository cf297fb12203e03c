"""Open what the HTTP front works with: its use cases, and what they need of the process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from uuid_utils.compat import uuid7

from app.adapters.security.crypto import Purpose
from app.adapters.security.passwords import open_passwords
from app.composition.lists import ProcessLists, open_lists
from app.composition.stores import Deployment, new_id, now, people_of
from app.http.listen import Leaving
from app.http.ports import FrontPorts
from app.intake.admission import Admission, open_admission
from app.intake.capture import CaptureTokens, build_capture_intake, open_image_pool
from app.intake.dispositions import DispositionIntake
from app.intake.history import HistoryIntake
from app.intake.name_screenings import NameScreeningIntake
from app.intake.transactions import TransactionIntake
from app.intake.verifications import Intake
from app.kafka.request_reply import RequestReply
from app.lists.serving import ListsProbe
from app.observability.disk_space import places_of
from app.observability.health_probes import Probe, probes_of
from app.observability.metrics import build_metrics, process_registry, watching_loop
from app.settings import Settings
from app.vision.engines import open_forker
from app.vision.forker import Forker
from app.vision.pooled import PooledImageDecoder
from streams.audit.commit import CommitAndPublish
from streams.lists.handler import ChangeLists
from streams.policies.in_use import ListsInUse
from streams.policies.published import PublishedPolicies
from streams.reviewers.context import People
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Figure, Worker
from streams.sign_in.session_cookies import RecogniseReviewer
from streams.tenants.api_keys import TenantKeys
from streams.tenants.handler import Authenticate
from streams.tenants.key_usage import NoteKeyUse
from streams.transactions.keyed_hashes import KeyedHashes
from streams.wallets.handler import AssessWallets
from streams.wallets.judging import NodeNames
from streams.wallets.listed import LoadedWalletLists


@asynccontextmanager
async def open_front_ports(
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    access: LogAccess,
    request_reply: RequestReply,
    leaving: Leaving,
    worker: Worker | None = None,
    forker: Forker | None = None,
    lists: ProcessLists | None = None,
) -> AsyncIterator[FrontPorts]:
    """Open what a front works with."""
    async with AsyncExitStack() as stack:
        figures = [] if worker is None else worker.figures
        registry = process_registry(worker, [*figures, _replies_figure(request_reply)])
        await stack.enter_async_context(watching_loop(registry))
        probes = probes_of(deployment.stores, access, worker, writer, places_of(settings))
        announcer = await stack.enter_async_context(KafkaEventPublisher(writer, deployment.stores))
        commit = CommitAndPublish(deployment.stores.journal, announcer)
        if forker is None:
            forker = await stack.enter_async_context(open_forker())
        images = PooledImageDecoder(await stack.enter_async_context(open_image_pool(forker)))
        people = people_of(deployment, commit, await stack.enter_async_context(open_passwords()), settings)
        noting = NoteKeyUse(deployment.stores.journal.commit)
        stack.push_async_callback(noting.aclose)
        places = settings.verifications_at_once or settings.vision_workers + 2
        admission = await stack.enter_async_context(open_admission(places, settings.answer_timeout_s))
        if lists is None:
            opening = open_lists(settings, deployment, writer, access, whole=False)
            lists = await stack.enter_async_context(opening)
        parts = _Parts(
            settings, deployment, request_reply, people, noting,
            {**probes, "lists": ListsProbe(lists.deployment, now), "front": leaving.probe},
            registry, images, writer, admission, lists,
        )  # fmt: skip
        yield parts.ports()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the use cases of a front are made of."""

    settings: Settings
    deployment: Deployment
    request_reply: RequestReply
    people: People
    noting: NoteKeyUse
    probes: Mapping[str, Probe]
    registry: CollectorRegistry
    images: PooledImageDecoder
    writer: LogWriter
    admission: Admission
    lists: ProcessLists

    def ports(self) -> FrontPorts:
        """Return the ports of a front."""
        stores, people, root_key = self.deployment.stores, self.people, self.deployment.root_key
        pepper = root_key.derive(Purpose.API_KEY_PEPPER)
        hashes = KeyedHashes(root_key.derive(Purpose.TRANSACTION_HASHES))
        tokens = CaptureTokens(root_key.derive(Purpose.CAPTURE_TOKENS), now)
        recognise_reviewer = RecogniseReviewer(
            stores.records, stores.journal, people.cookie_pepper, now, people.session_idle
        )
        screening = (
            self.request_reply, stores.records, stores.vault, hashes, now, self.settings.answer_timeout_s,
        )  # fmt: skip
        return FrontPorts(
            authenticate=Authenticate(stores.records, pepper, now, self.noting),
            recognise_reviewer=recognise_reviewer,
            recognise_capture=tokens.recognise,
            request_reply=self.request_reply,
            intake=self._verifications(),
            transactions=TransactionIntake(self.request_reply, stores.records, stores.vault, hashes, now),
            name_screenings=NameScreeningIntake(*screening),
            dispositions=DispositionIntake(*screening),
            history=HistoryIntake(
                self.request_reply, stores.records, people.commit, stores.vault, hashes, now
            ),
            capture=build_capture_intake(stores.evidence, self.images, now),
            capture_tokens=tokens,
            stores=stores,
            commit=people.commit,
            people=people,
            keys=TenantKeys(stores.records, people.commit, pepper, now, new_id),
            wallets=self._wallets(),
            lists=self._tenant_lists(),
            publish_list=self.lists.publishing(people.commit),
            hand=self.writer.write,
            probes=self.probes,
            clock=now,
            fresh_uuid=uuid7,
            metrics=build_metrics(self.registry),
            registry=self.registry,
        )

    def _verifications(self) -> Intake:
        stores = self.deployment.stores
        return Intake(
            request_reply=self.request_reply,
            records=stores.records,
            evidence=stores.evidence,
            vault=stores.vault,
            images=self.images,
            clock=now,
            admission=self.admission,
            answer_timeout_s=self.settings.answer_timeout_s,
        )

    def _wallets(self) -> AssessWallets:
        listed = LoadedWalletLists(self.lists.current, now)
        names = NodeNames(self.deployment.root_key.derive(Purpose.WALLET_LEDGER))
        return AssessWallets(self.deployment.stores, self.people.commit, listed, names, now)

    def _tenant_lists(self) -> ChangeLists:
        in_use = ListsInUse(PublishedPolicies(self.deployment.stores.records))
        storage, announce = self.lists.storage, self.lists.announce
        return ChangeLists(storage, self.people.commit, now, new_id, in_use, announce)


def _replies_figure(request_reply: RequestReply) -> Figure:
    said = "Answers of agents that were passed over: nobody waited any more, or no agent of ours wrote them."

    def read() -> dict[str, float]:
        return {"late": request_reply.late_answers, "forged": request_reply.forged_answers}

    return Figure("veristream_answers_passed_over_total", said, "reason", read)
