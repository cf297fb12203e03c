"""Run the required checks on the engines' ports: which calls, in which order, with which deadline.

Cheap calls come first: a selfie without a face is refused before anything else is done. Then the page is
read while faces are searched for on it and liveness is checked. An engine that breaks or runs out of time
breaks the checks that depend on it and nothing else; `Overloaded` propagates, because then nothing was found
and nothing was stored.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, TypeVar

from schemas.enums import CheckKind
from schemas.problems import EngineFailed, ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.tenant_settings import DuplicateFaces
from schemas.verifications import CheckResult, DeclaredDocument
from streams.verification.engines import (
    Engines,
    area,
    both,
    face_bands,
    name_of,
    turned,
    unless_broken,
    with_margin,
)
from streams.verification.observations import (
    DocumentFindings,
    DocumentPicture,
    Evaluation,
    FacesSeen,
    ReuseFacts,
)
from streams.verification.policy import FaceBands, LivenessBands, VerificationPolicy
from streams.verification.reuse import is_page, worth_reading
from streams.verification.rules import Match, broken, found, is_number, liveness_findings, match, usual
from streams.verification.verdicts import judge_authenticity, judge_consistency, judge_extraction, judge_faces
from streams.vision_ports import Embedding, Face, LivenessEngine, Picture, Sharpness, Turn, deadline

DOCUMENT_POINTER: Final = "/document/image_base64"
SELFIE_POINTER: Final = "/selfie_image_base64"
"""Pointers of the two images in the body of the request (interface section 4.4)."""

One = TypeVar("One")


@dataclass(frozen=True, slots=True)
class FaceView:
    """The faces found on one image."""

    seen: FacesSeen
    face: Face | None = None
    """The best one."""
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True)
class PageView:
    """What was read and measured on the document, without its faces."""

    findings: DocumentFindings
    picture: DocumentPicture
    portrait: bytes | None


@dataclass(frozen=True, slots=True)
class Seen:
    """The results of all engines; None where one broke."""

    page: PageView | None
    shown: FaceView | None
    """The faces on the document."""
    own: FaceView | None
    """The faces on the selfie."""
    distance: float | None
    """None without two faces to compare; it may be NaN when the engine returned an invalid result."""
    liveness: float | None
    reuse: ReuseFacts | None = None
    """Signs of a selfie that is a picture of a picture; None without a selfie."""


class RequiredChecks:
    """Run the checks a policy requires on two decoded images."""

    def __init__(self, engines: Engines, policy: VerificationPolicy) -> None:
        self._engines = engines
        self._policy = policy

    async def __call__(
        self, document: Picture, selfie: Picture | None, declared: DeclaredDocument, today: date
    ) -> Evaluation:
        """Return the result of every required check; without a selfie its checks may not be required.

        Raises:
            Refused: IMAGE_NOT_EVALUABLE without a face on the selfie, DOCUMENT_UNUSABLE when the document
                image holds neither text nor a face (G71).
            Overloaded: An engine has no room.
        """
        return self._judge(await self._see(document, selfie, today), declared, today)

    async def against(self, portrait: Picture, selfie: Picture, today: date) -> Evaluation:
        """Return the result of every required check, of which none may be about a document (G7).

        Raises:
            Refused: IMAGE_NOT_EVALUABLE without a face on the selfie.
            Overloaded: An engine has no room.
        """
        faces = unless_broken("faces", self.look(portrait))
        own, shown = await both(self._look_at_selfie(selfie), faces)
        liveness = await unless_broken("liveness", self._liveness(selfie, own))
        distance = self._distance(shown, own)
        reuse = await self._reuse((portrait, shown), (selfie, own), distance, today)
        seen = Seen(None, shown, own, distance, liveness, reuse)
        return self._judge(seen, DeclaredDocument(), today)

    def _judge(self, seen: Seen, declared: DeclaredDocument, today: date) -> Evaluation:
        distance = seen.distance
        return Evaluation(
            results=tuple(self._check(kind, seen, declared, today) for kind in self._policy.required_checks),
            findings=seen.page.findings if seen.page else None,
            distance=distance if distance is not None and is_number(distance) else None,
            engine_version=self._engines.faces.model_version,
            reuse=seen.reuse,
            face=_face_of(seen),
            portrait=seen.page.portrait if seen.page else None,
            bands=self._bands(),
        )

    def _bands(self) -> dict[str, Any]:
        """Return the thresholds of the policy's engines for the explanation."""
        bands: dict[str, Any] = {}
        if CheckKind.FACE_MATCH in self._policy.required_checks:
            shown = self.face_bands().model_dump(exclude={"duplicate_at"})
            if self._policy.duplicate_faces is not DuplicateFaces.OFF:
                shown["duplicate_at"] = self.face_bands().same_among_many
            bands["face_bands"] = {name_of(self._engines.faces.model_version): shown}
        liveness = self._engines.liveness
        if liveness is not None and CheckKind.LIVENESS in self._policy.required_checks:
            shown = self._liveness_bands(liveness).model_dump()
            bands["liveness_bands"] = {name_of(liveness.model_version): shown}
        return bands

    def face_bands(self) -> FaceBands:
        """Return the thresholds of the face engine: those the policy names for it, or else its own."""
        return face_bands(self._policy, self._engines.faces)

    def _liveness_bands(self, engine: LivenessEngine) -> LivenessBands:
        own_bands = LivenessBands(pass_at=engine.pass_at, fail_below=engine.fail_at)
        return self._policy.liveness_bands.get(name_of(engine.model_version), own_bands)

    def unseen(self) -> Evaluation:
        """Return the evaluation of images that could not be decoded: every check is broken."""
        return Evaluation(results=tuple(broken(kind) for kind in self._policy.required_checks), findings=None)

    async def _look_at_selfie(self, selfie: Picture | None) -> FaceView | None:
        """Find the face on the selfie, which is refused without one."""
        if selfie is None:
            return None
        own = await unless_broken("faces", self.look(selfie))
        if own is not None and own.face is None:
            raise Refused.at(
                SELFIE_POINTER, ProblemCode.IMAGE_NOT_EVALUABLE, "No face was found on the selfie."
            )
        return own

    async def _see(self, document: Picture, selfie: Picture | None, today: date) -> Seen:
        own = await self._look_at_selfie(selfie)
        read, (shown, liveness) = await both(
            unless_broken("text", self._read(document, today)),
            both(
                unless_broken("faces", self.look(document)),
                unless_broken("liveness", self._liveness(selfie, own)),
            ),
        )
        if read is not None and not read[0].legible and shown is not None and shown.face is None:
            raise Refused.at(
                DOCUMENT_POINTER, ProblemCode.DOCUMENT_UNUSABLE, "No document was found on the image."
            )
        distance = self._distance(shown, own)
        page, reuse = await both(
            unless_broken("text", self._view_page(document, read, shown)),
            self._reuse((document, shown), (selfie, own), distance, today),
        )
        return Seen(page, shown, own, distance, liveness, reuse)

    async def _reuse(
        self,
        shown: tuple[Picture, FaceView | None],
        own: tuple[Picture | None, FaceView | None],
        distance: float | None,
        today: date,
    ) -> ReuseFacts | None:
        """Return the signs of reuse on the selfie, or None without a selfie or a face on it."""
        if own[0] is None or own[1] is None or own[1].face is None:
            return None
        same = bool(own[0].digest) and own[0].digest == shown[0].digest
        if same:
            return ReuseFacts(same_pixels=True)
        seen = self._look_for_reuse(shown, (own[0], own[1], own[1].face), distance, today)
        return await unless_broken("reuse", seen) or ReuseFacts(broken=True)

    async def _look_for_reuse(
        self,
        shown: tuple[Picture, FaceView | None],
        own: tuple[Picture, FaceView, Face],
        distance: float | None,
        today: date,
    ) -> ReuseFacts:
        """Compare the photographs of two matching faces, and look for print on the selfie."""
        engines, bands = self._engines, self.face_bands()
        (document, view), (selfie, own_view, face) = shown, own
        alike = distance is not None and match(distance, bands) is not Match.DIFFERENT
        parallax = None
        if alike and view is not None and view.face is not None:
            parallax = await self.call(engines.faces.parallax(document, view.face, selfie, face))
        rows = await self.call(engines.decoder.print_rows(selfie))
        shows_document = False
        if worth_reading(rows, own_view.seen.width_px, min(selfie.width, selfie.height)):
            read = engines.read_document(engines.text, selfie, today)
            findings = await self.call(read, self._policy.reading_deadline_s)
            shows_document = is_page(findings, rows)
        copy_at = engines.faces.copy_at if bands.copy_at is None else bands.copy_at
        return ReuseFacts(shows_document=shows_document, parallax=parallax, copy_at=copy_at)

    async def look(self, picture: Picture, turn: Turn | None = None) -> FaceView:
        """Find the best face, measure it and compute its embedding; with a turn, only one upright at it.

        Raises:
            EngineFailed: An engine broke or ran out of time.
            Overloaded: An engine has no room.
        """
        engines = self._engines
        measured = await self.call(engines.measure_faces(engines.faces, engines.decoder, picture, turn))
        faces = measured.faces
        if not faces:
            return FaceView(FacesSeen(count=0, several_alike=False))
        best = faces[0]
        alike = any(
            area(other.box) >= self._policy.images.like_size_from * area(best.box) for other in faces[1:]
        )
        seen = FacesSeen(len(faces), alike, width_px=best.box[2] - best.box[0], quality=measured.sharpness)
        return FaceView(seen, best, measured.embedding)

    async def _read(self, document: Picture, today: date) -> tuple[DocumentFindings, Sharpness]:
        """Read the page and measure it."""
        read = self._engines.read_document(self._engines.text, document, today)
        measured = self.call(self._engines.decoder.sharpness(document))
        return await both(self.call(read, self._policy.reading_deadline_s), measured)

    async def _view_page(
        self, document: Picture, read: tuple[DocumentFindings, Sharpness] | None, shown: FaceView | None
    ) -> PageView | None:
        """Return what was read and measured, with the portrait cut out; None where nothing was read."""
        if read is None:
            return None
        findings, whole = read
        portrait = None
        if shown is not None and shown.face is not None:
            upright = turned(document, shown.face)
            box = with_margin(shown.face.box, upright)
            portrait = await self.call(self._engines.decoder.encode(upright, box))
        quality = shown.seen.quality if shown else None
        picture = DocumentPicture(whole, quality, min(document.width, document.height))
        return PageView(findings, picture, portrait)

    async def _liveness(self, selfie: Picture | None, own: FaceView | None) -> float | None:
        engine = self._engines.liveness
        wanted = CheckKind.LIVENESS in self._policy.required_checks
        if engine is None or not wanted or selfie is None or own is None or own.face is None:
            return None
        return await self.call(engine.score(selfie, own.face))

    async def call(self, answer: Awaitable[One], deadline_s: float | None = None) -> One:
        """Await an engine's result within a deadline, by default that of a single call.

        Raises:
            EngineFailed: The answer did not come in time.
        """
        try:
            async with deadline(deadline_s or self._policy.engine_deadline_s):
                return await answer
        except TimeoutError as error:
            raise EngineFailed("an engine ran out of time") from error

    def _distance(self, shown: FaceView | None, own: FaceView | None) -> float | None:
        if shown is None or own is None or shown.embedding is None or own.embedding is None:
            return None
        return self._engines.faces.distance(shown.embedding, own.embedding)

    def _check(self, kind: CheckKind, seen: Seen, declared: DeclaredDocument, today: date) -> CheckResult:
        """Return the result of one check by its rules; a check without input is broken."""
        policy, page = self._policy, seen.page
        match kind:
            case CheckKind.DOCUMENT_EXTRACTION if page:
                return judge_extraction(policy, page.findings, page.picture)
            case CheckKind.AUTHENTICITY if page and seen.shown:
                return judge_authenticity(policy, page.findings, seen.shown.seen)
            case CheckKind.DOCUMENT_CONSISTENCY if page:
                return judge_consistency(policy, page.findings, declared, today)
            case CheckKind.FACE_MATCH if seen.shown and seen.own:
                return self._face_match(seen.shown, seen.own, seen.distance)
            case CheckKind.LIVENESS if seen.own:
                return self._alive(seen.liveness)
            case _:
                return broken(kind)

    def _face_match(self, shown: FaceView, own: FaceView, distance: float | None) -> CheckResult:
        if distance is not None and not is_number(distance):
            return broken(CheckKind.FACE_MATCH)
        return judge_faces(self._policy, shown.seen, own.seen, distance, self.face_bands())

    def _alive(self, score: float | None) -> CheckResult:
        engine = self._engines.liveness
        if engine is None:
            return found(
                CheckKind.LIVENESS,
                usual(ReasonCode.MODEL_UNAVAILABLE),
                detail="No liveness engine is configured.",
            )
        if score is None or not is_number(score):
            return broken(CheckKind.LIVENESS)
        bands = self._liveness_bands(engine)
        detail = f"Scored by {engine.model_version}; a still image stops no injected video."
        return found(CheckKind.LIVENESS, liveness_findings(score, bands), score=score, detail=detail)


def _face_of(seen: Seen) -> Embedding | None:
    """Return the embedding of the subject's face: of the selfie, else of the document."""
    view = seen.own or seen.shown
    return view.embedding if view is not None else None
