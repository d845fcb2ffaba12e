"""The engine inside of a program of its own: start a run, do its tasks, print its result.

A web application would keep the client, and a second process the worker; here both are one.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Any

from afl import Client
from afl.runtime import Evaluator, PersistenceAPI, StaleFence, TaskDefinition

PROGRAM = """
namespace counting

event facet Count(text: String) => (words: Long)

workflow CountAll(texts: [String]) => (words: [Long]) andThen foreach text in $.texts {
    counted = Count(text = text)
    yield CountAll(words = counted.words)
}
"""
NAMES = ["counting.Count"]


def count(task: TaskDefinition) -> dict[str, Any]:
    assert task.data is not None
    return {"words": len(task.data["text"].split())}


def work(store: PersistenceAPI, stop: threading.Event) -> None:
    """Do tasks until told to stop. Each result is one commit, with all that follows from it."""
    evaluator = Evaluator(store)
    while not stop.is_set():
        for task in store.claim_tasks(NAMES, limit=10):
            # The lease may have lapsed: then somebody else has the task, and its result counts.
            with suppress(StaleFence):
                do(task, evaluator)
        store.wait_for_work(NAMES, timeout=60, stop=stop)


def do(task: TaskDefinition, evaluator: Evaluator) -> None:
    try:
        result = count(task)
    except Exception as error:
        evaluator.fail_task(task, error)
    else:
        evaluator.complete_task(task, result)


def main(url: str) -> None:
    stop = threading.Event()
    with Client(url) as client:
        worker = threading.Thread(target=work, args=(client.store, stop))
        worker.start()
        try:
            texts = ["one", "one two", "one two three"]
            run = client.submit(PROGRAM, "CountAll", {"texts": texts})
            print(run.result(timeout=60))
        finally:
            stop.set()
            worker.join()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "memory:")
