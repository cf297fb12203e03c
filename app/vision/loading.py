"""Load and warm up the configured engines, in the forker."""

from app.vision.engines import EngineChoice
from app.vision.faces.engine import build_face_engine
from app.vision.jobs import EngineFacts, Facts
from app.vision.liveness import MMOD_BOX, YUNET_BOX, build_liveness_engine
from app.vision.ocr import RapidTextReader
from app.vision.serving import Loaded


def load(choice: EngineChoice) -> tuple[Loaded, Facts]:
    """Load the models, run each of them once, and return them with their facts.

    Raises:
        ModelUnusable: A model is missing, altered or not of its contract; the message says how to fix it.
        EngineFailed: A model broke on its first run.
    """
    text = RapidTextReader()
    faces = build_face_engine(choice.faces, pass_at=choice.face_accept_at, fail_at=choice.face_reject_above)
    liveness = build_liveness_engine(choice.liveness, MMOD_BOX if choice.faces is None else YUNET_BOX)
    text.warm()
    faces.warm()
    alive = None
    if liveness is not None:
        liveness.warm()
        alive = EngineFacts(
            model_version=liveness.model_version, pass_at=liveness.pass_at, fail_at=liveness.fail_at
        )
    facts = Facts(text_version=text.model_version, faces=faces.facts, liveness=alive)
    return Loaded(text, faces, liveness), facts
