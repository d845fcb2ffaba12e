"""What mixins give to a call. Shared by rules about arguments; no rule itself."""

from collections.abc import Iterable, Iterator

from afl.lang import ast
from afl.lang.names import Declared, Names, reserved_namespaces


def mixed_in_names(
    names: Names, namespace: str, mixins: Iterable[ast.MixinCall | ast.MixinSig]
) -> set[str]:
    """The parameters that mixins fill: those they are given or supply themselves, or their alias.

    Iterative, and each facet once: mixins have mixins, in a faulty program in a circle.
    """
    found: set[str] = set()
    done: set[str] = set()
    pending = [(namespace, each) for each in mixins]
    while pending:
        place, mixin = pending.pop()
        if mixin.alias is not None:
            found.add(mixin.alias)
            continue
        declared = names.resolve(place, mixin.name).declared
        if declared is not None and declared.namespace in reserved_namespaces():
            continue  # an ask of the runtime is no parameter
        found |= {arg.name for arg in mixin.args}
        if declared is not None:
            found |= set(_supplied(names, place, declared))
        if declared is not None and declared.qualified not in done:
            done.add(declared.qualified)
            pending += [(declared.namespace, each) for each in declared.mixins]
    return found


def _supplied(names: Names, namespace: str, declared: Declared) -> Iterator[str]:
    return (
        name for name, param in declared.params.items() if may_be_left_out(names, namespace, param)
    )


def may_be_left_out(names: Names, namespace: str, param: ast.Parameter | ast.SchemaField) -> bool:
    """Whether a default, or an implicit of `namespace`, fills this parameter."""
    has_default = isinstance(param, ast.Parameter) and param.default is not None
    return has_default or names.has_implicit(namespace, param.name)
