"""The command `veristream calibrate`: error rates of face comparison on the operator's photographs."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import AsJson, NoDataDir, settings_of
from app.process.output import err, out, say_json
from app.settings import Settings

INTERRUPTED = 130
"""The exit status of who was ended by Ctrl-C: 128 and the signal's number."""

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Photographs, and pairs.csv about them.")]
Output = Annotated[
    Path | None, typer.Option("--output", help="Where the results are put \\[default: FOLDER/calibration].")
]
MaxFmr = Annotated[
    float,
    typer.Option("--max-fmr", min=1e-6, max=0.5, help="Share of different people that may be accepted."),
]
MaxFnmr = Annotated[
    float,
    typer.Option("--max-fnmr", min=1e-6, max=0.5, help="Share of the same people that may be rejected."),
]


def calibrate(
    folder: Folder,
    output: Output = None,
    max_fmr: MaxFmr = 0.001,
    max_fnmr: MaxFnmr = 0.05,
    data_dir: NoDataDir = None,
    as_json: AsJson = False,
) -> None:
    """Measure the face comparison on photographs of your own, and recommend the review band.

    FOLDER holds photographs and pairs.csv, which says of two of them whether they show one person:

      first,second,label

      ada/passport.jpg,ada/selfie.jpg,same

      ada/passport.jpg,obi/selfie.jpg,different

    Paths are relative to FOLDER and may not lead out of it; further columns are ignored. Each photograph is
    looked at as in a verification, by the engine of SERVICE_FACES, on this machine. Printed are the false
    match and false non-match rate (FMR, FNMR; ISO/IEC 19795-1) over thresholds with Clopper-Pearson
    intervals. The results are put into --output in place of earlier ones: calibration.json, comparisons.csv,
    and the distributions and the DET curve as SVG and PNG. No face is stored, and the service and its
    settings are not touched.

    Without options at least 59 pairs labelled same and 2995 labelled different are needed (rule of 3).

    Try:

      veristream calibrate photographs

      veristream calibrate photographs --max-fmr 0.01 --max-fnmr 0.1 --output results --json
    """
    _calibrate(settings_of(data_dir), folder, output, max_fmr, max_fnmr, as_json=as_json)


def _calibrate(
    settings: Settings, folder: Path, output: Path | None, max_fmr: float, max_fnmr: float, *, as_json: bool
) -> None:
    from app.calibration import run as commands
    from app.calibration.report_text import print_report

    into = output if output is not None else folder / commands.OUTPUT
    wanted = commands.Wanted(max_fmr, max_fnmr)
    commands.refuse_output(into)
    try:
        made = asyncio.run(commands.calibrate(settings, folder, wanted))
    except KeyboardInterrupt:
        err.print("stopped; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        say_json(made.report.model_dump(mode="json", exclude_none=True))
    else:
        print_report(made.report)
    for path in commands.write_files(made, into):
        (err if as_json else out).print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)
