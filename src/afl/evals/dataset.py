"""Datasets: what an agent is asked, and what is expected of it. One JSON object on each line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from afl.errors import UsageError
from afl.ids import new_id

In = TypeVar("In")
Exp = TypeVar("Exp")

#: Problems that a message names; the others are counted.
_SHOWN = 10
_MARK = b"\xef\xbb\xbf"  # that some editors put before the first line


class DatasetError(UsageError):
    """A dataset cannot be read, or contradicts itself. `problems` name their lines."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        more = len(problems) - _SHOWN
        rest = [f"and {more} more problems"] if more > 0 else []
        super().__init__("\n".join([*problems[:_SHOWN], *rest]))


@dataclass(frozen=True)
class Sample(Generic[In, Exp]):
    """One case. What evaluators want to see is in `expected`, if they want anything."""

    #: Results are found again by it, in other evaluations too.
    id: str
    input: In
    expected: Exp | None = None
    #: For people and evaluators; the agent does not see it.
    metadata: Mapping[str, Any] = field(default_factory=dict)


_KEYS = tuple(each.name for each in fields(Sample))


@dataclass(frozen=True)
class Dataset(Generic[In, Exp]):
    """Samples in their order. Raises DatasetError if two have the same id."""

    samples: Sequence[Sample[In, Exp]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", tuple(self.samples))
        counts = Counter(each.id for each in self.samples)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise DatasetError([f"two samples have the id {each!r}" for each in twice])

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample[In, Exp]]:
        return iter(self.samples)

    def __getitem__(self, index: int) -> Sample[In, Exp]:
        return self.samples[index]

    @staticmethod
    def load(
        path: str | os.PathLike[str], input_type: Any = Any, expected_type: Any = Any
    ) -> Dataset[Any, Any]:
        """Read a file of lines such as `{"id": "a", "input": …, "expected": …}`.

        Inputs and expectations are converted to their types: whatever msgspec reads. Blank lines
        are skipped. Raises DatasetError, which names every line that is wrong.
        """
        reader = _Reader(str(path), Sample[input_type, expected_type | None])
        for number, line in enumerate(_lines(Path(path)), 1):
            if line.strip():
                reader.read(number, line)
        if reader.problems:
            raise DatasetError(reader.problems)
        return Dataset(reader.samples)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, whole or not at all. Raises DatasetError for what JSON cannot hold, or if
        nothing can be written there."""
        target = Path(path)
        unfinished = target.with_name(f".{target.name}.{new_id()}")
        content = b"".join(_line_of(each) for each in self.samples)
        try:
            unfinished.write_bytes(content)
            unfinished.replace(target)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise DatasetError([f"{path} cannot be written: {error.strerror}"]) from error


class _Reader:
    def __init__(self, path: str, sample_type: Any) -> None:
        self._path = path
        self._type = sample_type
        self._lines: dict[str, int] = {}
        self.samples: list[Sample[Any, Any]] = []
        self.problems: list[str] = []

    def read(self, number: int, line: bytes) -> None:
        try:
            sample = self._sample(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as problem:
            self.problems.append(f"{self._path}:{number}: {problem}")
            return
        first = self._lines.setdefault(sample.id, number)
        if first != number:
            self.problems.append(
                f"{self._path}:{number}: the id {sample.id!r} is that of line {first}, too"
            )
        self.samples.append(sample)

    def _sample(self, line: bytes) -> Sample[Any, Any]:
        value = msgspec.json.decode(line)
        if not isinstance(value, dict):
            raise ValueError("a sample is an object with id, input and expected")
        unknown = [each for each in value if each not in _KEYS]
        if unknown:
            raise ValueError(
                f"a sample has no {', '.join(map(repr, unknown))}, only {', '.join(_KEYS)}; what "
                "else is known about it belongs in metadata"
            )
        sample: Sample[Any, Any] = msgspec.convert(value, self._type)
        if not sample.id:
            raise ValueError("the id is empty; results are found again by it")
        return sample


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().removeprefix(_MARK).split(b"\n")
    except OSError as error:
        raise DatasetError([f"{path} cannot be read: {error.strerror}"]) from error


def _line_of(sample: Sample[Any, Any]) -> bytes:
    facts = {"id": sample.id, "input": sample.input, "expected": sample.expected}
    if sample.metadata:
        facts["metadata"] = sample.metadata
    try:
        return msgspec.json.encode(facts) + b"\n"
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise DatasetError([f"sample {sample.id!r} cannot be written: {error}"]) from error
