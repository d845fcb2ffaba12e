"""Where texts come from: files and folders each once, libraries when asked, bytes that are text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from afl.errors import UsageError
from afl.lang.compiler import compile_input, compile_sources
from afl.lang.diagnostics import InvalidProgram, ParseError
from afl.lang.emitter import JSONEmitter
from afl.lang.sources import (
    CompilerInput,
    FileOrigin,
    FolderLibrary,
    MongoDBOrigin,
    Origin,
    SourceEntry,
    SourceError,
    SourceRegistry,
    SourceStore,
    TextOrigin,
    declared_namespaces,
    decode,
    find_files,
    load_files,
    read_file,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str = "facet F()") -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def ids(entries: Sequence[SourceEntry]) -> list[str]:
    return [each.source_id for each in entries]


# Files and folders


@pytest.mark.usefixtures("folder")
def test_a_file_is_a_source_named_by_its_path() -> None:
    write("shop/till.afl", "facet Till()")
    (entry,) = load_files(["shop/till.afl"])
    assert entry.text == "facet Till()"
    assert entry.source_id == "file://shop/till.afl"
    assert not entry.is_library


@pytest.mark.usefixtures("folder")
def test_a_file_may_have_any_name() -> None:
    write("program.txt")
    assert ids(load_files(["program.txt"])) == ["file://program.txt"]


@pytest.mark.usefixtures("folder")
def test_a_folder_is_all_its_files_in_a_fixed_order() -> None:
    for name in ("b.afl", "a.afl", "deep/er/c.afl", "notes.md", "z.aflx"):
        write(f"shop/{name}")
    expected = ["file://shop/a.afl", "file://shop/b.afl", "file://shop/deep/er/c.afl"]
    assert ids(load_files(["shop"])) == expected


@pytest.mark.usefixtures("folder")
def test_a_folder_that_is_called_like_a_file_is_a_folder() -> None:
    write("odd.afl/inner.afl")
    assert find_files(Path("odd.afl")) == [Path("odd.afl/inner.afl")]
    assert ids(load_files(["."])) == ["file://odd.afl/inner.afl"]


@pytest.mark.usefixtures("folder")
def test_a_file_named_in_several_ways_is_read_once() -> None:
    write("shop/a.afl")
    Path("link.afl").symlink_to("shop/a.afl")
    entries = load_files(["shop/a.afl", "shop", "./shop/../shop/a.afl", "link.afl"])
    assert ids(entries) == ["file://shop/a.afl"]


@pytest.mark.usefixtures("folder")
def test_files_come_in_the_order_they_are_asked_for() -> None:
    write("b.afl")
    write("a.afl")
    assert ids(load_files(["b.afl", "a.afl"])) == ["file://b.afl", "file://a.afl"]


def test_no_paths_are_no_sources() -> None:
    assert load_files([]) == []


@pytest.mark.usefixtures("folder")
def test_a_missing_file_is_a_wrong_request() -> None:
    with pytest.raises(SourceError, match=r"^File not found: gone\.afl$"):
        load_files(["gone.afl"])
    assert issubclass(SourceError, UsageError)


@pytest.mark.usefixtures("folder")
def test_a_folder_without_afl_is_a_wrong_request() -> None:
    write("empty/readme.md", "nothing")
    with pytest.raises(SourceError, match=r"^No \.afl files in folder: empty$"):
        load_files(["empty"])


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_read_is_a_wrong_request_with_the_reason() -> None:
    Path("dir").mkdir()
    with pytest.raises(SourceError, match=r"^Cannot read dir: Is a directory$"):
        read_file(Path("dir"))


@pytest.mark.usefixtures("folder")
def test_line_ends_are_left_alone() -> None:
    Path("dos.afl").write_bytes(b"facet A()\r\nfacet B()\r\n")
    assert read_file(Path("dos.afl")) == "facet A()\r\nfacet B()\r\n"


# Bytes


def test_bytes_are_utf8() -> None:
    assert decode("facet Käse()".encode(), None) == "facet Käse()"


@pytest.mark.parametrize(
    ("data", "line", "column", "byte"),
    [
        (b"\xff", 1, 1, "byte 0 is 0xff"),
        (b"facet A()\n  \xe4", 2, 3, "byte 12 is 0xe4"),
        (b"a\n\nb\xc3", 3, 2, "byte 4 is 0xc3"),
    ],
)
def test_other_bytes_are_refused_with_their_place(
    data: bytes, line: int, column: int, byte: str
) -> None:
    with pytest.raises(ParseError) as caught:
        decode(data, "file://x.afl")
    (problem,) = caught.value.diagnostics
    assert problem.code == "AFL120"
    assert (problem.line, problem.column, problem.source_id) == (line, column, "file://x.afl")
    assert byte in problem.message
    assert problem.hint


@pytest.mark.usefixtures("folder")
def test_a_file_of_other_bytes_is_named() -> None:
    Path("photo.afl").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with pytest.raises(ParseError) as caught:
        load_files(["photo.afl"])
    assert caught.value.source_id == "file://photo.afl"


# Finding namespaces without parsing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("namespace a { } namespace b.c.d\n", {"a", "b.c.d"}),
        ("namespace\n   a\n{ }", {"a"}),
        ("// namespace a\n/* namespace b */ facet F()", set()),
        ('facet F(x: String = "namespace a { }")', set()),
        ("facet namespaces(mynamespace: Long)", set()),
        ("namespace broken { facet (", {"broken"}),
        ("facet F() script { namespace a }", set()),
    ],
)
def test_namespaces_are_found_in_code_only(text: str, expected: set[str]) -> None:
    assert declared_namespaces(text) == expected


# Libraries on disk


@pytest.fixture
def library(folder: Path) -> Path:
    write("lib/bread.afl", "namespace bread { use flour facet Loaf(f: flour.Bag) }")
    write("lib/deep/flour.afl", "namespace flour { schema Bag { kilos: Long } }")
    write("lib/deep/more.afl", "namespace flour { facet Mill() }")
    write("lib/broken.afl", "namespace broken { facet (")
    return folder


@pytest.mark.usefixtures("library")
def test_a_folder_gives_the_sources_of_a_namespace() -> None:
    found = FolderLibrary(["lib"]).find_namespace("flour")
    assert ids(found) == ["file://lib/deep/flour.afl", "file://lib/deep/more.afl"]
    assert all(each.is_library for each in found)


@pytest.mark.usefixtures("library")
def test_a_folder_knows_its_namespaces_and_no_others() -> None:
    library = FolderLibrary(["lib"])
    assert library.namespaces() == ["bread", "broken", "flour"]
    assert library.find_namespace("butter") == []


@pytest.mark.usefixtures("library")
def test_a_library_may_be_files() -> None:
    assert FolderLibrary(["lib/bread.afl"]).namespaces() == ["bread"]


@pytest.mark.usefixtures("library")
def test_a_library_is_read_when_first_asked_and_then_once() -> None:
    library = FolderLibrary(["lib"])
    write("lib/new.afl", "namespace new { }")
    assert "new" in library.namespaces()
    write("lib/newer.afl", "namespace newer { }")
    assert "newer" not in library.namespaces()


@pytest.mark.usefixtures("library")
def test_a_program_gets_what_it_uses_from_a_folder_through_other_files() -> None:
    main = write("main.afl", "namespace shop { use bread workflow W(l: Json) andThen { } }")
    result = compile_input(CompilerInput(load_files([main])), [FolderLibrary(["lib"])])
    assert result.program is not None
    assert set(result.program.declarations) == {"shop.W", "bread.Loaf", "flour.Bag", "flour.Mill"}
    # What is broken and not needed does not matter.
    assert "file://lib/broken.afl" not in result.registry.sources


@pytest.mark.usefixtures("library")
def test_a_program_that_needs_a_broken_library_is_told_where() -> None:
    main = write("main.afl", "namespace shop { use broken }")
    with pytest.raises(ParseError) as caught:
        compile_sources(load_files([main]), [FolderLibrary(["lib"])])
    assert caught.value.source_id == "file://lib/broken.afl"


@pytest.mark.usefixtures("library")
def test_a_clash_with_a_library_names_both_files() -> None:
    write(
        "lib/twice.afl", "namespace flour.extra { facet Sift() }\nnamespace flour { facet Mill() }"
    )
    main = write("main.afl", "namespace shop { use flour }")
    with pytest.raises(InvalidProgram) as caught:
        compile_sources(load_files([main]), [FolderLibrary(["lib"])])
    (error,) = caught.value.diagnostics
    assert (error.code, error.source_id, error.line) == ("AFL201", "file://lib/twice.afl", 2)
    assert "at line 1 of lib/deep/more.afl" in error.message


@pytest.mark.usefixtures("library")
def test_a_circle_through_a_library_is_shown_in_the_file_that_was_asked_for() -> None:
    write("lib/back.afl", "namespace yeast { use a.shop facet Rise() }")
    main = write("main.afl", "\nnamespace a.shop { use yeast }")
    result = compile_input(CompilerInput(load_files([main])), [FolderLibrary(["lib"])])
    (warning,) = result.warnings
    assert (warning.code, warning.source_id, warning.line) == ("AFL370", "file://main.afl", 2)


# A store of one's own


class Postbox:
    """A store that keeps sources under an origin of its own."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_namespace(self, name: str) -> Sequence[SourceEntry]:
        text = self._sources.get(name)
        return [SourceEntry(text, PostOrigin(name), is_library=True)] if text else []


class PostOrigin:
    def __init__(self, stamp: str) -> None:
        self._stamp = stamp

    def to_source_id(self) -> str:
        return f"post://{self._stamp}"

    def to_provenance(self) -> dict[str, str]:
        return {"type": "post", "stamp": self._stamp}


def test_any_store_can_give_namespaces() -> None:
    store: SourceStore = Postbox({"letters": "namespace letters { facet Write(to: String) }"})
    main = SourceEntry("workflow W() andThen { s = letters.Write() }", TextOrigin("main"))
    result = compile_input(CompilerInput([main]), [store])
    assert result.program is not None
    assert [each.message for each in result.warnings] == ["Facet 'Write' needs parameter 'to'"]
    assert "post://letters" in result.registry.sources


def test_an_origin_says_where_compiled_parts_come_from() -> None:
    store = Postbox({"letters": "namespace letters { facet Write() }"})
    main = SourceEntry("namespace a { use letters }", TextOrigin("main"))
    result = compile_input(CompilerInput([main]), [store])
    emitter = JSONEmitter(include_provenance=True, source_registry=result.registry)
    compiled = emitter.emit_dict(result.require().tree)
    places = {each["name"]: each["location"]["provenance"] for each in compiled["namespaces"]}
    assert places == {
        "a": {"type": "text", "name": "main"},
        "letters": {"type": "post", "stamp": "letters"},
    }


# Values


@pytest.mark.parametrize(
    ("origin", "source_id", "provenance"),
    [
        (FileOrigin("a/b.afl"), "file://a/b.afl", {"type": "file", "path": "a/b.afl"}),
        (
            MongoDBOrigin("c7", "shop"),
            "mongodb://c7/shop",
            {"type": "mongodb", "collectionId": "c7", "displayName": "shop"},
        ),
        (TextOrigin("<stdin>"), "<stdin>", {"type": "text", "name": "<stdin>"}),
    ],
)
def test_origins_have_ids_and_provenance(
    origin: Origin, source_id: str, provenance: dict[str, str]
) -> None:
    assert origin.to_source_id() == source_id
    assert origin.to_provenance() == provenance
    assert SourceEntry("", origin).source_id == source_id


def test_an_input_has_all_its_sources_the_primary_ones_first() -> None:
    first, second = (SourceEntry("", TextOrigin(name)) for name in ("one", "two"))
    assert ids(CompilerInput([first], [second]).all_sources) == ["one", "two"]
    assert CompilerInput().all_sources == []


def test_a_registry_finds_sources_by_id() -> None:
    entry = SourceEntry("facet F()", TextOrigin("one"))
    registry = SourceRegistry.from_compiler_input(CompilerInput([entry]))
    assert registry.get("one") is entry
    assert registry.get("two") is None
    registry.register("two", entry)
    assert registry.get("two") is entry
    assert registry.texts() == {"one": "facet F()", "two": "facet F()"}
