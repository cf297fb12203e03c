"""How the settings name a Cassandra, and what is refused before anything is asked."""

from pathlib import Path

import pytest

from app.composition.cassandra import address_of, replication_of
from app.settings import Settings, SettingsRefused, blobs_dir_of, read_settings


def settings(**given: object) -> Settings:
    """Settings with a Cassandra."""
    return Settings.model_validate({"cassandra_contact_points": "one"} | given)


def test_without_contact_points_there_is_no_cassandra() -> None:
    assert address_of(Settings()) is None


@pytest.mark.parametrize(
    ("listed", "points"),
    [
        ("one", [("one", 9042)]),
        ("one, two:19042,", [("one", 9042), ("two", 19042)]),
        ("10.0.0.1:9043,[::1]:9044,[fe80::1]", [("10.0.0.1", 9043), ("::1", 9044), ("fe80::1", 9042)]),
    ],
)
def test_contact_points_are_hosts_with_or_without_ports(listed: str, points: list[tuple[str, int]]) -> None:
    address = address_of(settings(cassandra_contact_points=listed))

    assert address is not None
    assert list(address.contact_points) == points


@pytest.mark.parametrize("listed", ["one:two", "one two", ",", "http://one", "one:123456", "one:0"])
def test_other_contact_points_are_refused(listed: str) -> None:
    with pytest.raises(SettingsRefused, match="SERVICE_CASSANDRA_CONTACT_POINTS"):
        address_of(settings(cassandra_contact_points=listed))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"cassandra_username": "u"}, "SERVICE_CASSANDRA_PASSWORD"),
        ({"cassandra_password": "kept-to-itself"}, "SERVICE_CASSANDRA_USERNAME"),
        ({"cassandra_tls_ca_file": "/nowhere"}, "SERVICE_CASSANDRA_TLS is off"),
        ({"cassandra_tls": "on", "cassandra_tls_ca_file": "/nowhere"}, "CASSANDRA_TLS_CA_FILE"),
        ({"cassandra_tls": "on", "cassandra_tls_cert_file": "/nowhere"}, "CASSANDRA_TLS_KEY_FILE"),
        (
            {"cassandra_tls": "on", "cassandra_tls_cert_file": "/no", "cassandra_tls_key_file": "/no"},
            "CASSANDRA_TLS_CERT_FILE",
        ),
    ],
)
def test_settings_that_contradict_are_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsRefused, match=named) as refused:
        address_of(settings(**given))

    assert "kept-to-itself" not in str(refused.value)


def test_a_password_may_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("from a file\n")
    monkeypatch.setenv("SERVICE_CASSANDRA_PASSWORD_FILE", str(tmp_path / "password"))

    address = address_of(read_settings(cassandra_contact_points="one", cassandra_username="u"))

    assert address is not None
    assert (address.username, address.password) == ("u", "from a file")


@pytest.mark.parametrize(
    ("asked", "copies"), [("3", {"datacenter1": 3}), ('{"east": 3, "west": 2}', {"east": 3, "west": 2})]
)
def test_copies_are_counted_by_data_centre(asked: str, copies: dict[str, int]) -> None:
    assert replication_of(settings(cassandra_replication=asked)) == copies


@pytest.mark.parametrize("asked", ["", "0", "-1", "many", "[3]", "{}", '{"east": "3"}', "true", "1.5"])
def test_other_copies_are_refused(asked: str) -> None:
    with pytest.raises(SettingsRefused, match="SERVICE_CASSANDRA_REPLICATION"):
        replication_of(settings(cassandra_replication=asked))


def test_large_evidence_lies_in_the_data_folder_unless_set_otherwise() -> None:
    result = Settings(data_dir=Path("data"), blobs_dir=Path("mounted"))

    assert [blobs_dir_of(one) for one in (Settings(data_dir=Path("data")), result)] == [
        Path("data/blobs"),
        Path("mounted"),
    ]
