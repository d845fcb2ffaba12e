"""A prompt has a template, its placeholders are parameters, and it stands on an event facet."""

import re

from afl.lang import ast
from afl.lang.codes import PROMPT_PLACE, PROMPT_PLACEHOLDER, PROMPT_TEMPLATE
from afl.lang.diagnostics import suggest
from afl.lang.names import Declared
from afl.lang.scopes import given_to
from afl.lang.validation.rule import Report, Rule

#: `{name}` is a placeholder, `{{name}}` is text.
PLACEHOLDER = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")


def check(report: Report, prompt: ast.PromptBlock, declared: Declared) -> None:
    if not declared.is_event:
        message = f"A prompt has no effect on {declared.kind} '{declared.name}'"
        report(PROMPT_PLACE, message, prompt, f"declare it as `event facet {declared.name}`")
    if prompt.template is None:
        report(PROMPT_TEMPLATE, "A prompt block needs a 'template' directive", prompt)
    given = given_to(report.names, declared)
    for directive in ("system", "template"):
        text = getattr(prompt, directive) or ""
        for name in dict.fromkeys(PLACEHOLDER.findall(text)):
            if name not in given.types and not given.is_open:
                message = f"Invalid placeholder '{{{name}}}' in {directive}"
                report(PROMPT_PLACEHOLDER, message, prompt, suggest(name, given.types))


RULE = Rule("prompts", (PROMPT_PLACE, PROMPT_TEMPLATE, PROMPT_PLACEHOLDER), prompt=check)
