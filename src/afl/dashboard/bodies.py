"""What changes bring along, as types: forms and JSON are read by the same ones."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

Name = Annotated[str, Meta(min_length=1, max_length=300)]
Text = Annotated[str, Meta(max_length=2000)]


class Nothing(Struct, forbid_unknown_fields=True):
    """Nothing has to be said."""


class SubmitBody(Struct, forbid_unknown_fields=True):
    """A run to start."""

    #: Qualified name of the workflow.
    workflow: Name
    inputs: dict[str, Any] = field(default_factory=dict)
    #: The same key again is the same run.
    key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    #: Whose workers do it.
    task_list: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class DiscardBody(Struct, forbid_unknown_fields=True):
    """Why a task is given up."""

    reason: Text = ""


class HandlerBody(Struct, forbid_unknown_fields=True):
    """Where the handler of a facet is."""

    facet: Name
    #: A dotted module, a `file://` URI, or the path of a `.py` file.
    module: Annotated[str, Meta(min_length=1, max_length=1000)]
    entrypoint: Name = "handle"
    version: Annotated[str, Meta(max_length=100)] = "1.0.0"
    #: `sha256:…`, any other text, or `auto`.
    checksum: Annotated[str, Meta(max_length=200)] = ""
    timeout_ms: Annotated[int, Meta(ge=0, le=2**53)] = 30_000
    isolation: Annotated[str, Meta(max_length=20)] = "thread"
    on_lost: Annotated[str, Meta(max_length=20)] = "redeliver"
    #: None: as they were before, if the facet had a handler.
    requirements: list[Text] | None = None
    metadata: dict[str, Any] | None = None


class AnswerBody(Struct, forbid_unknown_fields=True):
    """The answer to a question of a turn."""

    answer: Any
    #: Which question; the last one if it is not given.
    call_id: Text = ""


class SettleBody(Struct, forbid_unknown_fields=True):
    """What became of an effect."""

    #: done, failed or again.
    outcome: Annotated[str, Meta(max_length=20)]
    #: What the tool would have returned, or why it failed.
    value: Any = None
    call_id: Text = ""


class RedriveBody(Struct, forbid_unknown_fields=True):
    """Which dead letters are sent again; all if none is named."""

    ids: Annotated[list[str], Meta(max_length=1000)] = field(default_factory=list)
