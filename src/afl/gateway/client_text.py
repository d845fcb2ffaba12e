"""The words of an agent as one text, from the events of a turn."""

from __future__ import annotations

from dataclasses import dataclass

from afl.gateway.client_errors import WordsChanged
from afl.gateway.sse import StreamEvent


@dataclass
class Words:
    """Tells what to show next. If `is_live`, pieces are shown as they come: what then turns out to
    be void is gone on with, if the new words begin like the old ones; else WordsChanged."""

    is_live: bool = False
    #: Of the answer that is on its way: what was shown, and what is said, perhaps anew.
    _shown: str = ""
    _said: str = ""

    def next(self, event: StreamEvent) -> str:
        match event.name:
            case "delta" if self.is_live:
                self._said += event.data["text"]
                return self._more(self._said)
            case "superseded":
                self._said = ""
            case "model":
                more = self._more(event.data["text"] or "", is_whole=True)
                self._shown = self._said = ""
                return more
        return ""

    def _more(self, said: str, *, is_whole: bool = False) -> str:
        if said.startswith(self._shown):
            more = said[len(self._shown) :]
            self._shown = said
            return more
        if is_whole or not self._shown.startswith(said):
            raise WordsChanged(self._shown, said)
        return ""
