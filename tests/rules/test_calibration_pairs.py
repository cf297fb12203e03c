"""pairs.csv as operators write it: what is read, and which row is refused for what."""

import os
from pathlib import Path

import pytest

from app.calibration.pairs import CalibrationRefused, Pair, read_pairs

HEADER = "first,second,label\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with four files that could be photographs, beside one that is not in it."""
    made = tmp_path / "photographs"
    (made / "ada").mkdir(parents=True)
    for name in ("ada/passport.jpg", "ada/selfie.jpg", "obi.jpg", "eze [2].jpg"):
        (made / name).write_bytes(b"")
    (tmp_path / "outside.jpg").write_bytes(b"")
    return made


def write(folder: Path, rows: str, header: str = HEADER) -> Path:
    """Put pairs into a folder."""
    (folder / "pairs.csv").write_text(header + rows, encoding="utf-8")
    return folder


def refusal(folder: Path) -> str:
    """Why the pairs of a folder are refused."""
    with pytest.raises(CalibrationRefused) as refused:
        read_pairs(folder)
    return str(refused.value)


def test_rows_are_read_with_their_lines_as_spreadsheets_write_them(folder: Path) -> None:
    header = "\ufeffNote, Label ,First,Second\r\n"
    same = '"two\r\nlines",Same,ada/passport.jpg,./ada/selfie.jpg\r\n'
    rows = f"{same}\r\n,different,obi.jpg,ada/../eze [2].jpg\r\n"
    labelled = read_pairs(write(folder, rows, header))

    assert labelled.pairs == (
        Pair(2, "ada/passport.jpg", "ada/selfie.jpg", mated=True),
        Pair(5, "obi.jpg", "eze [2].jpg", mated=False),
    )
    assert labelled.photographs == ("ada/passport.jpg", "ada/selfie.jpg", "obi.jpg", "eze [2].jpg")
    assert labelled.people == 3


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("ada/passport.jpg,nobody.jpg,same", "second: there is no file nobody.jpg"),
        ("ada/passport.jpg,obi.jpg,maybe", "label: maybe is neither same nor different"),
        ("ada/passport.jpg,obi.jpg", "label:  is neither same nor different"),
        (",obi.jpg,same", "first: is empty"),
        ("ada/passport.jpg,ada,same", "second: ada is no file"),
        ("ada/passport.jpg,/etc/hostname,same", "second: /etc/hostname is absolute"),
        ("../outside.jpg,obi.jpg,same", "first: ../outside.jpg leads out of the folder"),
        ("link.jpg,obi.jpg,same", "first: link.jpg leads out of the folder"),
        ("loop.jpg,obi.jpg,same", "first: loop.jpg cannot be looked at"),
        ("a\0b,obi.jpg,same", "first: a\N{REPLACEMENT CHARACTER}b cannot be looked at"),
        ("obi.jpg,ada/../obi.jpg,same", "first and second are one file"),
        ("obi.jpg,twin.jpg,same", "first and second are one file"),
        ("ada/selfie.jpg,ada/passport.jpg,same", "line 2 has the same two photographs already"),
        ("ada/selfie.jpg,twin.jpg,different", "line 3 has the same two photographs already"),
    ],
)
def test_a_wrong_row_is_named_by_its_line_and_column(folder: Path, row: str, text: str) -> None:
    (folder / "link.jpg").symlink_to(folder.parent / "outside.jpg")
    (folder / "loop.jpg").symlink_to("loop.jpg")
    (folder / "twin.jpg").symlink_to("obi.jpg")
    good = "ada/passport.jpg,ada/selfie.jpg,same\nada/selfie.jpg,obi.jpg,different\n"
    said = refusal(write(folder, f"{good}{row}\n"))

    assert f"line 4, {text}" in said.replace("first, second: ", "")
    assert "1 row is wrong" in said


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    (folder / "link.jpg").symlink_to("ada/selfie.jpg")
    moved = folder.parent / "link"
    moved.symlink_to(folder)

    assert read_pairs(write(moved, "obi.jpg,link.jpg,different\n")).pairs == (
        Pair(2, "obi.jpg", "ada/selfie.jpg", mated=False),
    )


def test_a_label_that_other_labels_contradict_is_refused(folder: Path) -> None:
    same = "ada/passport.jpg,ada/selfie.jpg,same\nada/selfie.jpg,obi.jpg,same\n"
    rows = f"ada/passport.jpg,obi.jpg,different\n{same}"
    said = refusal(write(folder, rows))

    assert "line 2, label: is different, but rows labelled same make both photographs one person's" in said
    assert "1 row is wrong" in said


def test_many_wrong_rows_are_counted_and_the_first_twenty_named(folder: Path) -> None:
    said = refusal(write(folder, "".join(f"none-{number}.jpg,obi.jpg,same\n" for number in range(50))))

    assert "50 rows are wrong" in said
    assert (said.count("there is no file"), "line 21," in said, "line 22," in said) == (20, True, False)
    assert said.endswith("and 30 more")


@pytest.mark.parametrize(
    "header", ["", "first;second;label\n", "first,second\n", "first,first,second,label\n"]
)
def test_a_file_without_its_columns_is_refused_with_an_example(folder: Path, header: str) -> None:
    said = refusal(write(folder, "", header))

    assert "line 1: no column " in said
    assert "ada/passport.jpg,ada/selfie.jpg,same" in said


def test_a_folder_without_pairs_is_shown_what_they_look_like(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert "No such file or directory" in (said := refusal(folder))
        assert HEADER.strip() in said


def test_bytes_that_are_no_text_are_refused(folder: Path) -> None:
    (folder / "pairs.csv").write_bytes(HEADER.encode() + b"obi.jpg,\xff\xfe,same\n")

    assert "is no CSV file in UTF-8" in refusal(folder)


def test_a_name_full_of_control_characters_cannot_write_on_the_terminal(folder: Path) -> None:
    said = refusal(write(folder, "obi.jpg,\x1b[2Jgone.jpg,same\n"))

    assert "\x1b" not in said
    assert os.linesep not in said.partition("line 2")[2]
