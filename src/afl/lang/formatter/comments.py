"""Hanging the comments of a source on the parts of its tree.

A comment stays between the two tokens it was written between, as far as lines allow:

- where a line may end, it ends the line of the token before, or gets a line of its own;
- elsewhere, `/* … */` on one line stays where it is, and anything else waits for the next place
  where a line may end.

So comments never pass each other. A doc comment is never brought before a declaration that it
did not document, nor parted from the one it did.
"""

from __future__ import annotations

from collections.abc import Iterable

from afl.lang import trivia
from afl.lang.formatter.parts import Break, Kind, Note, Part, Raw, Word
from afl.lang.formatter.source import Lexeme, Source

#: Tokens that may be in the source without being printed.
_DROPPED = {"(", ")", ",", ";", "+", "=>"}
_CLOSERS = (")", "]", "}")
_NO_SPACE_AFTER = ("", " ", "(", "[", "{")
_NO_SPACE_BEFORE = (" ", ",", ";", ":", ".", *_CLOSERS)


def hang_comments(parts: Iterable[Part], source: Source) -> list[Part]:
    """The parts, with every comment of the source among them or on their breaks."""
    hanger = _Hanger(source)
    for part in parts:
        hanger.add(part)
    return hanger.parts


class _Hanger:
    """Reads parts and lexemes side by side; both are in the order of the source."""

    def __init__(self, source: Source) -> None:
        self.parts: list[Part] = []
        self._source = source
        self._lexemes = source.lexemes
        self._next = 0
        #: The break since the last token, if there was one.
        self._break: Break | None = None
        #: Comments that wait for a break.
        self._waiting: list[Lexeme] = []
        #: The last character printed on this line.
        self._last = ""

    def add(self, part: Part) -> None:
        if isinstance(part, str):
            self._add_token(part, part.strip(), None)
        elif isinstance(part, Word):
            self._add_token(part, part.text, part.at)
        else:
            if isinstance(part, Break):
                self._break, self._last = part, ""
            elif isinstance(part, Raw):
                self._last = "}"
            self.parts.append(part)

    def _add_token(self, part: str | Word, token: str, at: int | None) -> None:
        if not token and at is None:
            self._put(part)
            return
        comments, lexeme = self._read(self._find(token) if at is None else at)
        if self._break is None:
            self._between_tokens(comments, part)
        else:
            self._at_break(self._break, comments, part)
            if lexeme is not None and self._break.kind is Kind.HARD:
                self._break.blank = lexeme.lines_before > 1
            _tidy(self._break)
            self._break = None
        self._put(part)

    def _put(self, part: str | Word) -> None:
        text = part if isinstance(part, str) else part.text
        self.parts.append(part)
        self._last = text[-1:] or self._last

    def _find(self, token: str) -> int | None:
        """Where the next token of this text is, if only dropped ones are before it."""
        for position in range(self._next, len(self._lexemes)):
            lexeme = self._lexemes[position]
            if lexeme.text == token:
                return lexeme.start
            if not lexeme.is_comment and lexeme.text not in _DROPPED:
                break
        return None

    def _read(self, at: int | None) -> tuple[list[Lexeme], Lexeme | None]:
        """The comments before the token at this offset, and the token."""
        comments: list[Lexeme] = []
        if at is None:
            return comments, None
        while self._next < len(self._lexemes) and self._lexemes[self._next].start < at:
            if self._lexemes[self._next].is_comment:
                comments.append(self._lexemes[self._next])
            self._next += 1
        if self._next < len(self._lexemes) and self._lexemes[self._next].start == at:
            self._next += 1
            return comments, self._lexemes[self._next - 1]
        return comments, None

    def _between_tokens(self, comments: list[Lexeme], part: str | Word) -> None:
        for position, comment in enumerate(comments):
            if self._waiting or not comment.fits_inline:
                self._waiting += comments[position:]
                return
            self._put_inline(comment, part)

    def _put_inline(self, comment: Lexeme, part: str | Word) -> None:
        text = part if isinstance(part, str) else part.text
        before = "" if self._last in _NO_SPACE_AFTER else " "
        after = "" if text.startswith(_NO_SPACE_BEFORE) else " "
        self._put(f"{before}{comment.text}{after}")

    def _at_break(self, place: Break, comments: list[Lexeme], part: str | Word) -> None:
        text = part if isinstance(part, str) else part.text
        closes = text.startswith(_CLOSERS)
        split = len(comments)
        if place.kind is Kind.SOFT and not closes:
            while split and _stays_inline(comments[split - 1]):
                split -= 1
        on_lines = self._waiting + comments[:split]
        place.notes = self._notes(place, on_lines, closes)
        self._waiting = []
        if isinstance(part, Word) and part.declares and part.at is not None:
            self._guard_docs(place.notes, on_lines, part.at)
        for comment in comments[split:]:
            self._put_inline(comment, part)

    def _notes(self, place: Break, comments: list[Lexeme], closes: bool) -> list[Note]:
        notes: list[Note] = []
        for comment in comments:
            blank = comment.lines_before > 1 and place.kind is Kind.HARD
            note = Note(comment.text, blank=blank)
            if comment.starts_line:
                note.column = self._source.column(comment)
            if notes:
                note.behind = not comment.starts_line and not notes[-1].text.startswith("//")
            elif self._waiting:
                note.behind = True
            elif not comment.starts_line:
                note.behind = comment.ends_line or (closes and not place.first)
            notes.append(note)
        return notes

    def _guard_docs(self, notes: list[Note], comments: list[Lexeme], keyword: int) -> None:
        """Keep the doc of a declaration with it, and what is not its doc from becoming it."""
        end = keyword
        documents = True
        for note, comment in zip(reversed(notes), reversed(comments), strict=True):
            documents = documents and not self._source.text[comment.end : end].strip()
            end = comment.start
            if trivia.Comment(comment.start, comment.end, comment.text).is_doc:
                note.behind = False
                note.text += "" if documents else ";"
                return


def _stays_inline(comment: Lexeme) -> bool:
    return comment.fits_inline and not comment.ends_line


def _tidy(place: Break) -> None:
    """No empty lines at the edges of a block."""
    if place.first:
        for note in place.notes:
            if not note.behind:
                note.blank = False
                break
        else:
            place.blank = False
    if place.outer:
        place.blank = False
