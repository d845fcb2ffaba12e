"""Short words about a step that a reader of the graph wants to see at a glance."""

from __future__ import annotations

from collections.abc import Iterator

from afl.lang import ast
from afl.lang.graph.text import expression_text
from afl.lang.names import Declared, Names

#: Mixins of the prelude: the word, the parameter that says how much, how to say it.
_ASKED = {
    "afl.Retry": ("retry", "max", "retry ×{}"),
    "afl.Timeout": ("timeout", "after", "timeout {}"),
}


def step_marks(
    names: Names, namespace: str, step: ast.StepStmt, declared: Declared | None
) -> tuple[str, ...]:
    """What the step asks for, on its call or on the signature of what it calls."""
    found: dict[str, str] = {}
    for mixin, asked in _mixins(names, namespace, step, declared):
        if asked.qualified in _ASKED:
            # The call comes first, and overrides the signature.
            found.setdefault(asked.qualified, _mark(mixin, asked))
    marks = list(found.values())
    if declared is not None and not isinstance(declared.node, ast.SchemaDecl):
        if isinstance(declared.node.body, ast.PromptBlock):
            marks.append("prompt")
        if isinstance(declared.node.body, ast.ScriptBlock):
            marks.append("script")
    if step.catch is not None:
        marks.append("catch")
    return tuple(marks)


def _mixins(
    names: Names, namespace: str, step: ast.StepStmt, declared: Declared | None
) -> Iterator[tuple[ast.MixinCall | ast.MixinSig, Declared]]:
    places: list[tuple[str, ast.MixinCall | ast.MixinSig]]
    places = [(namespace, each) for each in step.call.mixins]
    if declared is not None:
        places += [(declared.namespace, each) for each in declared.mixins]
    for place, mixin in places:
        asked = names.resolve(place, mixin.name).declared
        if asked is not None:
            yield mixin, asked


def _mark(mixin: ast.MixinCall | ast.MixinSig, asked: Declared) -> str:
    word, name, pattern = _ASKED[asked.qualified]
    values = {each.name: each.value for each in mixin.args}
    value = values.get(name, getattr(asked.params[name], "default", None))
    if not isinstance(value, ast.Literal):
        return word
    text = value.value if isinstance(value.value, str) else expression_text(value)
    return pattern.format(text)
