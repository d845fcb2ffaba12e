"""How values are written: numbers, keys, scripts and doc comments.

Everything here reads back as the value it was made from.
"""

from __future__ import annotations

import re

from afl.lang import ast, strings, trivia
from afl.lang.scripts import indented, script_code

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What may follow a script must not change where it ends: its code may hold half a string.
_TAILS = ("", '"', "'", '"""', "'''")


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def literal(node: ast.Literal) -> str:
    if node.kind == "string":
        return strings.quote(str(node.value))
    if node.kind == "double":
        return double(float(node.value or 0))
    if node.kind == "boolean":
        return "true" if node.value else "false"
    return "null" if node.value is None else str(node.value)


def double(value: float) -> str:
    """The shortest digits that read back as `value`, always with a fraction."""
    digits, exponent, power = repr(value).partition("e")
    return (digits if "." in digits else f"{digits}.0") + exponent + power


def key(text: str) -> str:
    return text if is_name(text) else strings.quote(text)


def script_head(node: ast.ScriptBlock) -> str:
    return "script" if node.language == "python" else f"script {node.language}"


def has_braces(code: str) -> bool:
    """Whether the code stands between braces; else it must be, or is better, a string."""
    needs_escapes = '"' in code or "\\" in code
    if "\n" not in code and not needs_escapes:
        return False
    raw = f"\n{indented(code, 4)}\n"
    if trivia.RAW_OPEN in raw or trivia.RAW_CLOSE in raw or script_code(raw) != code:
        return False
    ends = {trivia.script_end(f"{raw}}}{tail}", 0) for tail in _TAILS}
    return ends == {len(raw)}


def doc(node: ast.DocComment) -> str:
    """A doc comment that says `node`."""
    lines = node.description.split("\n") if node.description else []
    tags = [
        f"@{tag} {entry.name} {entry.description}".rstrip()
        for tag, entries in (("param", node.params), ("return", node.returns))
        for entry in entries
    ]
    if not tags and len(lines) < 2:
        short = f"/** {node.description} */" if lines else "/** */"
        if trivia.parse_doc(short) == node:
            return short
    lines += [""] * bool(lines and tags) + tags
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */"])
