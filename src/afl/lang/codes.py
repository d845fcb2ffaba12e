"""Every code that a diagnostic can carry. Codes are stable: never renumbered, never reused.

1xx the text cannot be read, 2xx names, 3xx rules. `docs/reference/diagnostics.md` is made from
this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    #: The program is rejected.
    ERROR = "error"
    #: The program compiles; under `--strict` it is rejected.
    WARNING = "warning"


class Code(NamedTuple):
    id: str
    severity: Severity
    title: str
    advice: str


ALL_CODES: dict[str, Code] = {}


def _code(id_: str, severity: Severity, title: str, advice: str) -> Code:
    code = Code(id_, severity, title, advice)
    if id_ in ALL_CODES:
        raise ValueError(f"diagnostic code {id_} is taken")
    ALL_CODES[id_] = code
    return code


def _error(id_: str, title: str, advice: str) -> Code:
    return _code(id_, Severity.ERROR, title, advice)


def _warning(id_: str, title: str, advice: str) -> Code:
    return _code(id_, Severity.WARNING, title, advice)


# fmt: off
# The text
SYNTAX = _error("AFL101", "unexpected text", "The message says what may stand there.")
CHARACTER = _error("AFL102", "unexpected character", "Text belongs in double quotes; names use ASCII letters, digits and `_`.")
OPEN_STRING = _error("AFL103", "string not closed", "End the string with `\"`; write `\\\"` for a quote inside it.")
OPEN_BRACKET = _error("AFL104", "bracket not closed", "Add the missing bracket, or remove the one too many.")
OPEN_COMMENT = _error("AFL105", "comment not closed", "End the comment with `*/`.")
OPEN_SCRIPT = _error("AFL106", "script not closed", "End the script with `}`; braces inside Python strings and comments do not count.")
NESTING = _error("AFL107", "nested too deeply", "Split the expression or block into steps or facets of their own.")
ESCAPE = _error("AFL108", "malformed escape in a string", "Use `\\n \\t \\r \\\" \\\\ \\uXXXX \\UXXXXXXXX`; write `\\\\` for a backslash.")
NUMBER = _error("AFL109", "number out of range", "Integers have 64 bits, doubles are finite.")
POSITIONAL = _error("AFL110", "argument without a name", "Arguments are written `name = value`.")
UNNAMED_STEP = _error("AFL111", "step without a name", "Write `name = Facet(…)`.")
STEP_AFTER_YIELD = _error("AFL112", "step after a yield", "Put yields at the end of their block.")
MISPLACED_NAMESPACE = _error("AFL113", "namespace where it cannot be", "Namespaces do not nest; a file has at most one without braces, as its last.")
MISPLACED_USE = _error("AFL114", "use outside a namespace", "Move the `use` into the namespace that needs it.")
REPEATED_DIRECTIVE = _error("AFL115", "prompt directive given twice", "Keep one `system`, one `template` and one `model`.")
MISPLACED_ALIAS = _error("AFL116", "alias where it cannot be", "A yield has no `as`.")
PROMPT_AND_BLOCKS = _error("AFL117", "prompt together with andThen or catch", "A facet has a prompt or blocks; call the prompt facet from another one.")
NOT_TEXT = _error("AFL120", "not AFL text", "AFL files are UTF-8 text.")
UNKNOWN_ESCAPE = _warning("AFL130", "unknown escape in a string", "The backslash is kept; write `\\\\` to say so.")

# Names
DUPLICATE_DECLARATION = _error("AFL201", "name declared twice", "Rename one, or move it to another namespace.")
DUPLICATE_FIELD = _error("AFL202", "schema field declared twice", "Rename or remove one.")
DUPLICATE_STEP = _error("AFL203", "step name used twice in a block", "Rename one.")
DUPLICATE_PARAMETER = _error("AFL204", "parameter or return declared twice", "Rename or remove one.")
DUPLICATE_ARGUMENT = _error("AFL205", "argument given twice", "Keep one.")
RESERVED_NAMESPACE = _error("AFL206", "reserved namespace", "`afl` and `sys` belong to the language; choose another name.")
UNKNOWN_NAMESPACE = _error("AFL210", "unknown namespace in use", "Declare it, or add the file or `--library` that does.")
UNKNOWN_FACET = _error("AFL211", "unknown qualified name", "Declare it, or add the file or `--library` that does.")
AMBIGUOUS_FACET = _error("AFL212", "name that fits several declarations", "Write the qualified name.")
UNDECLARED_FACET = _warning("AFL213", "call of something not declared", "Declare it; without a declaration nothing can be checked and nothing runs it.")
UNKNOWN_TYPE = _error("AFL214", "unknown type", "Use String, Long, Int, Double, Boolean, Json, `[T]` or a schema.")
AMBIGUOUS_SCHEMA = _error("AFL215", "schema name that fits several", "Write the qualified name.")
INPUT_REFERENCE = _error("AFL220", "input that does not exist", "`$` reads the parameters of the enclosing declaration or step.")
UNDEFINED_STEP = _error("AFL221", "step that does not exist here", "Steps see the steps above them in their block, and sibling `andThen` blocks.")
STEP_ATTRIBUTE = _error("AFL222", "attribute that the step does not return", "Read one of the declared returns.")
SELF_REFERENCE = _error("AFL223", "step that waits for itself", "Read another step's result.")
STEP_CYCLE = _error("AFL224", "steps that wait for each other", "Break the circle: one of them must not read the other.")
AMBIGUOUS_STEP = _error("AFL226", "step name that several sibling blocks have", "Rename one of the steps.")
UNDECLARED_ATTRIBUTE = _warning("AFL225", "attribute that nobody declares", "Declare it among the facet's returns or the schema's fields.")
EARLY_INPUT = _error("AFL227", "input that is not there yet", "Defaults read parameters; mixins of a signature read these, and what mixins before them add.")

# Rules
YIELD_TARGET = _error("AFL301", "yield to something else", "Yield to the enclosing declaration, its mixins, or the facet of the step whose body this is.")
DUPLICATE_YIELD = _error("AFL302", "second yield to one target", "Join their arguments in one yield.")
YIELD_ARGUMENT = _warning("AFL303", "yield of an undeclared return", "Declare the return, or yield a declared one.")
UNKNOWN_ARGUMENT = _warning("AFL310", "argument that the facet does not take", "Use a declared parameter.")
MISSING_ARGUMENT = _warning("AFL311", "required argument left out", "Give it, declare a default, or an implicit of that name.")
ARGUMENT_TYPE = _warning("AFL312", "value of another type", "Convert it, or change the declared type.")
POLICY_ARGUMENT = _error("AFL313", "policy without a required argument", "Give it: the runtime has no default for it.")
SCHEMA_FIELD = _error("AFL320", "field that the schema does not have", "Use a declared field.")
SCHEMA_MIXIN = _error("AFL321", "schema with mixins", "Only facets take mixins.")
SCHEMA_PLACE = _error("AFL322", "schema outside a namespace", "Move it into a namespace.")
SCHEMA_BODY = _error("AFL323", "schema with a body or a catch", "Put the `catch` around the block, or compute the value in a step before.")
OPERAND_TYPE = _error("AFL330", "operator on a literal it cannot take", "Arithmetic is for numbers, `!`, `&&` and `||` for Booleans; join text with `++`.")
OPERAND_INFERRED = _warning("AFL331", "operator on a value it cannot take", "Arithmetic is for numbers, `!`, `&&` and `||` for Booleans; join text with `++`.")
PROMPT_TEMPLATE = _error("AFL340", "prompt without a template", "Add a `template`.")
PROMPT_PLACEHOLDER = _error("AFL341", "placeholder that is no parameter", "Placeholders name parameters; write `{{` for a brace.")
PROMPT_PLACE = _warning("AFL342", "prompt on something that is no event facet", "Only event facets are sent to a model.")
SCRIPT_EMPTY = _error("AFL350", "script without code", "Write the code, or remove the script.")
SCRIPT_LANGUAGE = _error("AFL351", "script in an unknown language", "Scripts are Python.")
SCRIPT_SYNTAX = _error("AFL352", "script that is no Python", "Correct it; the message is Python's.")
RECURSION = _error("AFL360", "call that never ends", "Put the recursive call into a `when` case or a `foreach`.")
FOREACH_ITERABLE = _warning("AFL361", "foreach over something that is no list", "Iterate over an array or a Json value.")
WHEN_DEFAULT = _error("AFL362", "when without a last `case _`", "Add one `case _ => { … }` at the end.")
MIXIN_CYCLE = _error("AFL363", "mixins in a circle", "Break the circle: one of them must not mix in the other.")
USE_CYCLE = _warning("AFL370", "namespaces that use each other", "Move what both need into a third.")
# fmt: on
