"""Writes face_reference.json and the chips beside it, once, with dlib itself as the oracle.

Needs an environment of its own with dlib 20.0.1 (a C++ build), numpy and Pillow; the suite only reads what
this wrote. Call it with the folder of the weights and the two public-domain photographs:

    python make_face_reference.py MODELS_FOLDER ASTRONAUT_PNG GRACE_HOPPER_JPG
"""

import json
import sys
from pathlib import Path
from typing import Any

import dlib  # type: ignore[import-not-found]  # the oracle is no dependency of the project
import numpy as np
from PIL import Image, ImageDraw

HERE = Path(__file__).parent
CHIP_SIDE = 150


def drawn_chip(skin: str, eyes: str, mouth_height: int, *, noise: int) -> Image.Image:
    """Draw something a network takes for a face, with seeded noise over it."""
    chip = Image.new("RGB", (CHIP_SIDE, CHIP_SIDE), "#5a6b7c")
    draw = ImageDraw.Draw(chip)
    draw.ellipse((25, 8, 125, 146), fill=skin)
    for x in (52, 98):
        draw.ellipse((x - 10, 55, x + 10, 67), fill="white")
        draw.ellipse((x - 5, 56, x + 5, 66), fill=eyes)
        draw.line((x - 12, 46, x + 12, 44), fill=eyes, width=4)
    draw.polygon([(75, 62), (66, 95), (84, 95)], fill="#b07050")
    draw.ellipse((55, 110, 95, 110 + mouth_height), fill="#903030")
    grain = np.random.default_rng(noise).integers(-12, 13, (CHIP_SIDE, CHIP_SIDE, 3))
    return Image.fromarray(np.clip(np.asarray(chip, np.int16) + grain, 0, 255).astype(np.uint8))


def photographed(models: Path, photo: Path) -> tuple[dict[str, Any], Image.Image]:
    """Return what dlib finds on a photograph of one face, and its chip."""
    pixels = np.asarray(Image.open(photo).convert("RGB"))
    detector = dlib.cnn_face_detection_model_v1(str(models / "mmod_human_face_detector.dat"))
    predictor = dlib.shape_predictor(str(models / "shape_predictor_5_face_landmarks.dat"))
    (found,) = detector(pixels, 0)
    shape = predictor(pixels, found.rect)
    edges = [found.rect.left(), found.rect.top(), found.rect.right() + 1, found.rect.bottom() + 1]
    points = [[point.x, point.y] for point in shape.parts()]
    chip = Image.fromarray(dlib.get_face_chip(pixels, shape, size=CHIP_SIDE))
    return {"box": edges, "score": found.confidence, "points": points}, chip


def main(models: Path, photos: dict[str, Path]) -> None:
    """Write the chips and what dlib answers to each."""
    chips = {
        "drawn_light": drawn_chip("#e8c0a0", "#203050", 10, noise=1),
        "drawn_dark": drawn_chip("#6b4428", "#100804", 18, noise=2),
        "drawn_smiling": drawn_chip("#c89070", "#304020", 26, noise=3),
    }
    seen = {}
    for name, photo in photos.items():
        seen[name], chips[name] = photographed(models, photo)
    embedder = dlib.face_recognition_model_v1(str(models / "dlib_face_recognition_resnet_model_v1.dat"))
    vectors = {}
    for name, chip in chips.items():
        chip.save(HERE / f"chip_{name}.png", optimize=True)
        vectors[name] = [round(value, 7) for value in embedder.compute_face_descriptor(np.asarray(chip))]
    written = {"dlib": dlib.__version__, "photos": seen, "embeddings": vectors}
    (HERE / "face_reference.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), {"astronaut": Path(sys.argv[2]), "grace_hopper": Path(sys.argv[3])})
