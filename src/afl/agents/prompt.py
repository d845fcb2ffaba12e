"""Prompts: what a model is told, what it may use, and what it must answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from afl.agents.sections import MarkdownSection, Section
from afl.agents.tools import Tool
from afl.errors import UsageError
from afl.log import get_logger

Output = TypeVar("Output")

_log = get_logger(__name__)


class Prompt(Generic[Output]):
    """Sections, rendered one after the other. A text alone is a section without a title.

    The answer is the model's words, or with an `output_type` an object of that type: a dataclass,
    a msgspec struct, or anything else that msgspec reads. A prompt belongs to one turn.
    """

    def __init__(
        self,
        *sections: Section | str,
        name: str = "prompt",
        system: str = "",
        output_type: Any = None,
        model: str | None = None,
        max_tokens: int = 4096,
    ) -> None:
        self.name = name
        self.system = system
        self.output_type = output_type
        #: None: the one of the loop.
        self.model = model
        #: Of one answer of the model.
        self.max_tokens = max_tokens
        self.sections: tuple[Section, ...] = tuple(
            MarkdownSection("", each) if isinstance(each, str) else each for each in sections
        )
        self._is_clean = False

    def render(self) -> str:
        """The text of all sections, in Markdown."""
        texts = (_rendered(each) for each in self.sections)
        return "\n\n".join(text for text in texts if text)

    def tools(self) -> dict[str, Tool]:
        """All tools, by name. Raises UsageError if two have the same one."""
        found: dict[str, Tool] = {}
        for section in self.sections:
            for tool in section.tools():
                if found.setdefault(tool.name, tool) is not tool:
                    raise UsageError(
                        f"two tools of the prompt {self.name} are called {tool.name}; rename one"
                    )
        return found

    def artifacts(self) -> dict[str, bytes]:
        """What the sections made that is worth keeping, by path."""
        found: dict[str, bytes] = {}
        for index, section in enumerate(self.sections):
            made: Mapping[str, bytes] = section.artifacts()
            found.update({f"{index}/{path}": content for path, content in made.items()})
        return found

    def cleanup(self) -> None:
        """Let all sections let go of what they hold, last one first. Called again it does nothing.

        One that fails is logged and disturbs nobody: the turn is over.
        """
        if self._is_clean:
            return
        self._is_clean = True
        for section in reversed(self.sections):
            try:
                section.cleanup()
            except Exception:
                _log.exception("section_not_cleaned_up", prompt=self.name, section=section.title)


def _rendered(section: Section) -> str:
    text = section.render().strip()
    parts: Sequence[str] = [f"## {section.title}" if section.title else "", text]
    return "\n\n".join(each for each in parts if each)
