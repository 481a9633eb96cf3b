"""The sources file: what is wrong in it is one sentence that names the source and the field."""

from pathlib import Path

import pytest

from opening_signals.feeds import KINDS
from opening_signals.sources_file import SHIPPED, SourcesError, load

GOOD = """
[[source]]
name = "acme"
kind = "greenhouse"
board = "acme"
organization = "Acme"

[[source]]
name = "globex"
kind = "greenhouse"
url = "http://127.0.0.1:8000/v1/boards/globex/jobs"
allow_private = true
"""
ALL = ", ".join(sorted(KINDS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sources.toml"


def test_sources_are_read_in_their_order(path: Path) -> None:
    path.write_text(GOOD)
    acme, globex = load(str(path))
    assert (acme.name, acme.kind, acme.organization, acme.allow_private) == ("acme", "greenhouse", "Acme", False)
    assert acme.url == "https://boards-api.greenhouse.io/v1/boards/acme/jobs"
    assert (globex.url, globex.organization) == ("http://127.0.0.1:8000/v1/boards/globex/jobs", None)
    assert globex.allow_private


def test_a_short_key_cannot_leave_its_place_in_the_address(path: Path) -> None:
    sentence = "source 'acme': 'board' must be letters, digits, spaces, dots, hyphens and underscores"
    for board in ("../../evil?x=", "x#z", "..", ".", "a%2Fb", "a\\\\b", "a\\nb", "user@host"):
        path.write_text(GOOD.replace('board = "acme"', f'board = "{board}"'))
        with pytest.raises(SourcesError) as caught:
            load(str(path))
        assert str(caught.value) == sentence
    path.write_text(GOOD.replace('board = "acme"', 'board = "The_Acme-Co. 2"'))
    assert load(str(path))[0].url == "https://boards-api.greenhouse.io/v1/boards/The_Acme-Co.%202/jobs"


def test_the_shipped_file_has_no_sources_and_its_example_is_good(path: Path) -> None:
    assert load(None) == []
    example = [line.removeprefix("# ") for line in SHIPPED.read_text().splitlines()]
    path.write_text("\n".join(example[example.index("[[source]]") :]))
    assert [source.name for source in load(str(path))] == ["acme", "permits"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'kind = "greenhouse"\nboard',
            'kind = "fax"\nboard',
            f"source 'acme': 'kind' is unknown: 'fax'; it can be {ALL}",
        ),
        (
            'kind = "greenhouse"\nboard',
            "kind = 7\nboard",
            f"source 'acme': 'kind' is unknown: 7; it can be {ALL}",
        ),
        ('kind = "greenhouse"\nboard', "board", "source 'acme': the field 'kind' is missing"),
        ('name = "globex"', 'name = "acme"', "source 'acme': the name is used twice, and it must be unique"),
        ('name = "globex"', 'name = " acme "', "source 'acme': the name is used twice, and it must be unique"),
        ('name = "globex"', "", "source 2: the field 'name' is missing"),
        ('name = "globex"', "name = 7", "source 2: 'name' should be a valid string"),
        ('name = "globex"', 'name = "a\\nb"', "source 'a\\nb': 'name' must be printable"),
        (
            "allow_private = true",
            'allow_private = "yes"',
            "source 'globex': 'allow_private' should be a valid boolean",
        ),
        ("allow_private", "allow_privat", "source 'globex': 'allow_privat' is an unknown field"),
        ('organization = "Acme"', "organization = 7", "source 'acme': 'organization' should be a valid string"),
        (
            'url = "http://127.0.0.1:8000',
            'url = "ftp://secret',
            "source 'globex': 'url' must be an http or https address",
        ),
        ('url = "http://127.0.0.1:8000', 'url = "http://', "source 'globex': 'url' must be an http or https address"),
        (":8000", ":99999", "source 'globex': 'url' must be an http or https address"),
        (
            'board = "acme"',
            'board = "acme"\nurl = "https://boards.example/"',
            "source 'acme': a source of kind greenhouse has either 'board' or 'url', and both are there",
        ),
        (
            'board = "acme"',
            "",
            "source 'acme': a source of kind greenhouse has either 'board' or 'url', and neither is there",
        ),
        ('board = "acme"', 'board = " "', "source 'acme': 'board' must be a text and not empty"),
        ('board = "acme"', 'board = ["acme"]', "source 'acme': 'board' must be a text and not empty"),
    ],
)
def test_a_fault_is_one_sentence(path: Path, old: str, new: str, sentence: str) -> None:
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SourcesError) as caught:
        load(str(path))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[[source]\n", "is not TOML"),
        (b"# caf\xe9\n", "is not TOML: it is not UTF-8"),
        (b'[source]\nname = "acme"\n', "has [source] where [[source]] is meant"),
        (b'[[sources]]\nname = "acme"\n', "has an unknown field 'sources'"),
        (b'source = ["acme"]\n', "source 1: write it as a [[source]] table"),
    ],
)
def test_a_file_that_is_no_list_of_sources_is_refused(path: Path, content: bytes, said: str) -> None:
    path.write_bytes(content)
    with pytest.raises(SourcesError) as caught:
        load(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(SourcesError) as caught:
        load(str(path))
    assert (
        str(caught.value)
        == f"the sources file '{path}' (CRONLEASE_SOURCES) cannot be read: No such file or directory"
    )


def test_an_empty_file_is_no_sources(path: Path) -> None:
    path.write_text("")
    assert load(str(path)) == []


def test_a_source_may_change_what_its_preset_says(path: Path) -> None:
    path.write_text(
        GOOD.replace('organization = "Acme"', 'fields = { title = "upper" }\nquery = { content = "true" }', 1)
    )
    acme, _ = load(str(path))
    assert acme.url.endswith("/acme/jobs?content=true")
    assert acme.feed is not None
    assert (acme.feed.fields.title.text, acme.feed.fields.external_id.text) == ("upper", "id")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ('kind = "recruitee"\ncompany = "a.example/x"', "'company' must be letters, digits, dots and hyphens"),
        ('kind = "socrata"\ndomain = "a@b"\ndataset = "x"', "'domain' must be letters, digits, dots and hyphens"),
        (
            'kind = "socrata"\ndomain = "a.example"',
            "a source of kind socrata has either 'domain' and 'dataset' or 'url', and only 'domain' is there",
        ),
        ('kind = "socrata"\ndomain = "a.example"\ndataset = "x"', "the field 'fields.title' is missing"),
        ('kind = "rss"', "the field 'url' is missing"),
    ],
)
def test_short_keys_and_what_a_preset_leaves_open_are_checked(path: Path, said: str, sentence: str) -> None:
    path.write_text(f'[[source]]\nname = "acme"\n{said}\n')
    with pytest.raises(SourcesError) as caught:
        load(str(path))
    assert str(caught.value).startswith(f"source 'acme': {sentence}")
