"""afl: a runtime for AI agents in production.

The public names of the language, and of submitting runs, are here. They are loaded when first
used, because a process that only wants `afl.runtime` should not pay for the compiler, nor
`afl --help` for either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.exports import lazy

__version__ = "0.1.0"

_AST = (
    *("ASTNode", "SourceLocation", "TypeRef", "ArrayType", "Parameter", "Literal", "Reference"),
    *("ConcatExpr", "BinaryExpr", "UnaryExpr", "ArrayLiteral", "MapEntry", "MapLiteral"),
    *("IndexExpr", "NamedArg", "MixinSig", "MixinCall", "CallExpr", "StepStmt", "YieldStmt"),
    *("ForeachClause", "Block", "AndThenBlock", "WhenBlock", "WhenCase", "CatchClause"),
    *("PromptBlock", "ScriptBlock", "ReturnClause", "FacetSig", "FacetDecl", "EventFacetDecl"),
    *("WorkflowDecl", "ImplicitDecl", "UsesDecl", "SchemaField", "SchemaDecl", "Namespace"),
    *("Program", "DocComment", "DocEntry"),
)

#: Public name → module that has it.
_EXPORTS = {
    **dict.fromkeys(_AST, "afl.lang.ast"),
    **dict.fromkeys(("AFLParser", "parse"), "afl.lang.parser"),
    **dict.fromkeys(("validate", "ValidationResult", "ValidationError"), "afl.lang.validation"),
    **dict.fromkeys(("JSONEmitter", "emit_dict", "emit_json"), "afl.lang.emitter"),
    **dict.fromkeys(("compile_source", "compile_sources"), "afl.lang.compiler"),
    **dict.fromkeys(("Diagnostic", "InvalidProgram", "ParseError"), "afl.lang.diagnostics"),
    **dict.fromkeys(
        ("AflError", "LanguageError", "ConfigurationError", "UsageError"), "afl.errors"
    ),
    **dict.fromkeys(("format_source",), "afl.lang.formatter"),
    **dict.fromkeys(("handler",), "afl.runtime.loading"),
    **dict.fromkeys(("open_store",), "afl.bootstrap"),
    **dict.fromkeys(("Client", "Run"), "afl.client"),
    **dict.fromkeys(("InvalidInputs",), "afl.operations.inputs"),
    **dict.fromkeys(("RunFailed", "RunCancelled"), "afl.operations.runs"),
    "App": "afl.serving.app",
}

__all__ = ["__version__", *_EXPORTS]

if TYPE_CHECKING:
    from afl.bootstrap import open_store as open_store
    from afl.client import Client as Client
    from afl.client import Run as Run
    from afl.errors import AflError as AflError
    from afl.errors import ConfigurationError as ConfigurationError
    from afl.errors import LanguageError as LanguageError
    from afl.errors import UsageError as UsageError
    from afl.lang.ast import *  # noqa: F403
    from afl.lang.compiler import compile_source as compile_source
    from afl.lang.compiler import compile_sources as compile_sources
    from afl.lang.diagnostics import Diagnostic as Diagnostic
    from afl.lang.diagnostics import InvalidProgram as InvalidProgram
    from afl.lang.diagnostics import ParseError as ParseError
    from afl.lang.emitter import JSONEmitter as JSONEmitter
    from afl.lang.emitter import emit_dict as emit_dict
    from afl.lang.emitter import emit_json as emit_json
    from afl.lang.formatter import format_source as format_source
    from afl.lang.parser import AFLParser as AFLParser
    from afl.lang.parser import parse as parse
    from afl.lang.validation import ValidationError as ValidationError
    from afl.lang.validation import ValidationResult as ValidationResult
    from afl.lang.validation import validate as validate
    from afl.operations.inputs import InvalidInputs as InvalidInputs
    from afl.operations.runs import RunCancelled as RunCancelled
    from afl.operations.runs import RunFailed as RunFailed
    from afl.runtime.loading import handler as handler
    from afl.serving.app import App as App


__getattr__, __dir__ = lazy(__name__, _EXPORTS)
