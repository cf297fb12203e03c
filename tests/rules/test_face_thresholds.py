"""The thresholds of the default face engine, as a deployment sets them and a calibration recommends."""

import json
from typing import Any, Final

import pytest

from app.calibration.error_rates import Band, Comparisons
from app.calibration.photographs import Photograph
from app.calibration.report import Report, make_report
from app.calibration.report_text import say_report
from app.composition.engines import choice_of
from app.process.output import out
from app.settings import SettingsRefused, read_settings

FACES: Final = {
    "detector": {"path": "d.onnx", "sha256": "0" * 64},
    "embedder": {"kind": "sface", "path": "e.onnx", "sha256": "1" * 64, "pass_at": 0.3, "fail_at": 0.6},
}


def set_to(monkeypatch: pytest.MonkeyPatch, **given: object) -> None:
    """Set variables, by their names behind the prefix."""
    for name, value in given.items():
        monkeypatch.setenv(f"SERVICE_{name}", str(value))


def report(accept_at: float, reject_above: float, *, default_engine: bool = True) -> Report:
    """What a calibration found that recommends a band."""
    return make_report(
        model_version="engine@00000000",
        default_engine=default_engine,
        people=2,
        seen=[Photograph("ada.jpg"), Photograph("obi.jpg")],
        compared=[],
        comparisons=Comparisons([0.1, 0.2], [0.7, 0.8]),
        wanted=(0.1, 0.1),
        advised=Band(accept_at, reject_above),
        in_force=Band(0.5, 0.65),
    )


def said(answer: Report) -> str:
    """What is printed of a report."""
    with out.capture() as printed:
        say_report(answer)
    return printed.get()


def test_without_settings_the_default_engine_has_the_thresholds_it_was_measured_with() -> None:
    choice = choice_of(read_settings())

    assert (choice.face_accept_at, choice.face_reject_above) == (0.5, 0.65)


def test_what_a_calibration_prints_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.strip() for line in said(report(0.41, 0.58)).splitlines()]
    for line in lines:
        if line.startswith("SERVICE_"):
            monkeypatch.setenv(*line.split("=", 1))

    choice = choice_of(read_settings())

    assert (choice.face_accept_at, choice.face_reject_above) == (0.41, 0.58)


def test_more_than_may_be_accepted_is_not_recommended_as_a_setting() -> None:
    printed = said(report(0.57, 0.6))

    assert "SERVICE_FACE_ACCEPT_AT=0.5\n" in printed
    assert "SERVICE_FACE_REJECT_ABOVE=0.6\n" in printed
    assert "0.5 is the most that may be accepted" in printed


def test_for_an_embedder_of_ones_own_the_report_names_its_thresholds() -> None:
    printed = said(report(0.41, 0.58, default_engine=False))

    assert '"pass_at": 0.41, "fail_at": 0.58' in printed
    assert "SERVICE_FACE_" not in printed


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"FACE_ACCEPT_AT": 0}, "SERVICE_FACE_ACCEPT_AT"),
        ({"FACE_ACCEPT_AT": 0.51}, "SERVICE_FACE_ACCEPT_AT"),
        ({"FACE_ACCEPT_AT": "nan"}, "SERVICE_FACE_ACCEPT_AT"),
        ({"FACE_ACCEPT_AT": "close"}, "SERVICE_FACE_ACCEPT_AT"),
        ({"FACE_REJECT_ABOVE": 0.49}, "SERVICE_FACE_REJECT_ABOVE"),
        ({"FACE_REJECT_ABOVE": 2.1}, "SERVICE_FACE_REJECT_ABOVE"),
        ({"FACE_REJECT_ABOVE": "inf"}, "SERVICE_FACE_REJECT_ABOVE"),
        ({"FACE_ACCEPT_AT": 0.4, "FACE_REJECT_ABOVE": 0.39}, "SERVICE_FACE_REJECT_ABOVE"),
        ({"FACE_ACCEPT_AT": 0.4, "FACES": json.dumps(FACES)}, "SERVICE_FACE_ACCEPT_AT"),
        ({"FACE_REJECT_ABOVE": 0.7, "FACES": json.dumps(FACES)}, "SERVICE_FACE_REJECT_ABOVE"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], named: str
) -> None:
    set_to(monkeypatch, **given)

    with pytest.raises(SettingsRefused, match=f"^{named}: "):
        read_settings()


def test_an_embedder_of_ones_own_keeps_its_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to(monkeypatch, FACES=json.dumps(FACES))

    assert choice_of(read_settings()).faces is not None
