from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from afl.evals import Dataset, DatasetError, Sample


@dataclass(frozen=True)
class Question:
    text: str


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    dataset: Dataset[Any, Any] = Dataset(
        [
            Sample("sum", {"a": 1}, [2, None]),
            Sample("wörter", "zwei\nZeilen", metadata={"hard": True}),
        ]
    )
    dataset.save(tmp_path / "cases.jsonl")
    assert Dataset.load(tmp_path / "cases.jsonl") == dataset
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]


def test_inputs_and_expectations_have_the_types_that_were_asked_for(tmp_path: Path) -> None:
    path = _file(tmp_path, '{"id": "a", "input": {"text": "Hi?"}, "expected": "Yes"}')
    assert Dataset.load(path, Question, str)[0] == Sample("a", Question("Hi?"), "Yes")


def test_blank_lines_and_a_mark_at_the_beginning_are_skipped(tmp_path: Path) -> None:
    path = _file(tmp_path, '\ufeff{"id": "a", "input": 1}', "", "  ", '{"id": "b", "input": 2}', "")
    assert [each.id for each in Dataset.load(path)] == ["a", "b"]


def test_every_wrong_line_is_named_by_its_number(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        '{"id": "a", "input": "x"}',
        "no json",
        "",
        '{"id": "b"}',
        '{"id": "c", "input": 7}',
        '{"id": "a", "input": "y"}',
        '["d", "x"]',
        '{"id": "", "input": "x"}',
    )
    with pytest.raises(DatasetError) as caught:
        Dataset.load(path, str)
    lines = [each.removeprefix(f"{path}:").partition(":")[0] for each in caught.value.problems]
    assert lines == ["2", "4", "5", "6", "7", "8"]
    assert "`input`" in caught.value.problems[1]
    assert "$.input" in caught.value.problems[2]
    assert "line 1" in caught.value.problems[3]


def test_a_key_that_is_written_wrong_is_not_taken_for_nothing(tmp_path: Path) -> None:
    path = _file(tmp_path, '{"id": "a", "input": 1, "expectd": 2}')
    with pytest.raises(DatasetError, match=r"cases.jsonl:1: .*'expectd'"):
        Dataset.load(path)


def test_bytes_that_are_no_text_are_a_problem_of_their_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b'{"id": "a", "input": 1}\n{"id": "\xff", "input": 1}\n')
    with pytest.raises(DatasetError, match=r"cases\.jsonl:2:"):
        Dataset.load(path)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    path = _file(tmp_path, *["{}"] * 25)
    with pytest.raises(DatasetError, match="and 15 more problems"):
        Dataset.load(path)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(DatasetError, match=r"nowhere\.jsonl cannot be read: No such file"):
        Dataset.load("nowhere.jsonl")


def test_two_samples_with_one_id_are_refused() -> None:
    with pytest.raises(DatasetError, match="two samples have the id 'a'"):
        Dataset([Sample("a", 1), Sample("a", 2)])


def test_what_json_cannot_hold_is_not_saved(tmp_path: Path) -> None:
    path = _file(tmp_path, '{"id": "old", "input": 1}')
    with pytest.raises(DatasetError, match="sample 'a' cannot be written"):
        Dataset([Sample("a", object())]).save(path)
    assert Dataset.load(path)[0].id == "old"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be written: No such file"):
        Dataset([Sample("a", 1)]).save(tmp_path / "missing" / "cases.jsonl")


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
