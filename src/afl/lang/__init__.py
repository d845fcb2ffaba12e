"""The AFL language, from text to Program. The pipeline is the list of modules:

sources → grammar, builder, parser → ast → names, scopes → validation → program → emitter.

Beside it: diagnostics and codes (what can be wrong), recovery and syntax_errors (saying so well),
trivia and strings (what the grammar cannot see), decoder (compiled JSON back to a tree), formatter
and graph (programs for people), compiler (all of it in one call).

It knows nothing of stores, workers or time.
"""
