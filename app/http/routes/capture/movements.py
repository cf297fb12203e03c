"""`/v1/capture/challenge`: the movements that a person is asked to make (G77, P12, P13, P15)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web

from app.http.endpoints import Call
from app.http.headers import idempotency_key
from app.http.idempotent_create import REPLAYED
from app.http.responses import json_answer
from app.http.routes.capture.routes import CaptureRoutes
from app.http.routes.sessions.bodies import DrawChallengeBody, SkipMovementsBody
from schemas.captures import ChallengeDrawn, FrameJudged
from schemas.ids import ChallengeId, derive_id
from schemas.movements import Challenge
from schemas.sessions import AddFrame, DrawChallenge, SessionCommandBase, SkipMovements, StoredSession
from streams.sessions import movements, rules

CommandT = TypeVar("CommandT", bound=SessionCommandBase)


@dataclass(frozen=True, slots=True)
class MovementRoutes:
    """What the subject's page may do about movements."""

    capture: CaptureRoutes

    async def draw(self, call: Call) -> web.Response:
        """Draw movements; those drawn before are void. The same key gets the first answer again."""
        body = await self.capture.bodies.read(call, DrawChallengeBody)
        stored = await self.capture.stored(call)
        said = {"double_time": body.double_time, "challenge_id": _named_by_key(call)}
        command = await self._command(call, DrawChallenge, attempt=rules.attempt_of(stored), **said)
        before = movements.drawn_before(stored, command)
        if before is not None:
            call.headers[REPLAYED] = "true"
            return json_answer(_first_of(before))
        movements.require_drawing(stored)
        await self.capture.request(command)
        return json_answer(_first_of(_challenge(await self.capture.stored(call))), HTTPStatus.CREATED)

    async def frame(self, call: Call) -> web.Response:
        """Judge a frame; of one session only one is taken in at a time."""
        return await self.capture.one_at_a_time(call, self._judge(call))

    async def skip(self, call: Call) -> web.Response:
        """Go on without the movements; a person then looks at the images."""
        await self.capture.bodies.read(call, SkipMovementsBody)
        stored = await self.capture.stored(call)
        movements.require_movements(stored)
        await self._send(call, SkipMovements, attempt=rules.attempt_of(stored))
        return await self.capture.answer_view(call)

    async def _judge(self, call: Call) -> web.Response:
        ports, step = self.capture.ports, int(call.path_value("step"))
        image = await self.capture.read_image(call)
        stored = await self.capture.stored(call)
        challenge = movements.require_frame(stored, step, ports.clock())
        evidence_id = await ports.capture.keep_frame(call.subject_page.tenant_id, stored, image)
        sent = {"challenge_id": challenge.challenge_id, "step": step, "evidence_id": evidence_id}
        after = _challenge(await self._send(call, AddFrame, attempt=rules.attempt_of(stored), **sent))
        said = after.said
        if said is None or said.evidence_id != evidence_id:
            raise movements.over()  # another device has gone on meanwhile
        judged = FrameJudged(
            accepted=said.accepted,
            hint=said.hint,
            step=after.step,
            movement=None if after.is_done else after.movements[after.step - 1],
            done=after.is_done,
            expires_at=after.expires_at,
        )
        return json_answer(judged.model_dump_json().encode())

    async def _send(self, call: Call, kind: type[SessionCommandBase], **said: object) -> StoredSession:
        """Send a command about the session, and return the session afterwards."""
        await self.capture.request(await self._command(call, kind, **said))
        return await self.capture.stored(call)

    async def _command(self, call: Call, kind: type[CommandT], **said: object) -> CommandT:
        page = call.subject_page
        common = {"tenant_id": page.tenant_id, "session_id": page.session_id}
        moment = {"actor": await self.capture.actor(call), "requested_at": self.capture.ports.clock()}
        return kind.model_validate({**common, **moment, **said})


def _named_by_key(call: Call) -> ChallengeId | None:
    """Return the id of what the request's key draws in its session."""
    key = idempotency_key(call.request)
    page = call.subject_page
    return None if key is None else ChallengeId(derive_id("chl", page.tenant_id, page.session_id, "key", key))


def _first_of(challenge: Challenge) -> bytes:
    """Return what is said of movements that were just drawn."""
    drawn = ChallengeDrawn(
        challenge_id=challenge.challenge_id,
        step=1,
        steps=len(challenge.movements),
        movement=challenge.movements[0],
        expires_at=challenge.expires_at,
    )
    return drawn.model_dump_json().encode()


def _challenge(stored: StoredSession) -> Challenge:
    challenge = stored.movements.challenge if stored.movements is not None else None
    if challenge is None:
        raise movements.over()
    return challenge
