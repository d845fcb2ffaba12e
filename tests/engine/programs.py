"""Programs that together use every construct of the language, with what must come out of them.

Handlers are pure functions of their payload, so that any order of completions, any crash and any
worker must end with the same outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from afl.lang.compiler import compile_source
from afl.lang.program import Program

Handler = Callable[[dict[str, Any]], dict[str, Any]]


class HandlerError(Exception):
    """Raised by handlers that must fail."""


def _fail(payload: dict[str, Any]) -> dict[str, Any]:
    raise HandlerError(payload.get("message", "failed"))


def _flaky(payload: dict[str, Any]) -> dict[str, Any]:
    # Fails until it has been tried often enough; workers tell the attempt.
    if payload["_attempt"] < payload["good_at"]:
        raise HandlerError(f"attempt {payload['_attempt']}")
    return {"tries": payload["_attempt"]}


HANDLERS: dict[str, Handler] = {
    "t.Add": lambda p: {"sum": p["a"] + p["b"]},
    "t.Upper": lambda p: {"text": p["text"].upper()},
    "t.Split": lambda p: {"words": p["text"].split()},
    "t.Say": lambda p: {"said": p},
    "t.Nothing": lambda _: {},
    "t.Null": lambda _: {"value": None},
    "t.Fail": _fail,
    "t.Flaky": _flaky,
}

_EVENTS = """
namespace t

schema Point { x: Long, y: Long }

event facet Add(a: Long, b: Long = 1) => (sum: Long)
event facet Upper(text: String) => (text: String)
event facet Split(text: String) => (words: [String])
event facet Say(what: Json) => (said: Json)
event facet Nothing()
event facet Null() => (value: Json)
event facet Fail(message: String) => (never: String)
event facet Flaky(good_at: Long) => (tries: Long)
"""


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    outputs: Mapping[str, Any] | None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: The message that the run fails with.
    error: str | None = None
    workflow: str = "t.W"
    needs_scripts: bool = False

    @property
    def program(self) -> Program:
        return compiled(self.text)


@cache
def compiled(text: str) -> Program:
    return compile_source(_EVENTS + text)


PROGRAMS: list[Case] = [
    Case("nothing", "workflow W() andThen { }", {}),
    Case("no body", "workflow W()", {}),
    Case(
        "one event",
        "workflow W(n: Long) => (m: Long) andThen { s = Add(a = $.n) yield W(m = s.sum) }",
        {"m": 4},
        {"n": 3},
    ),
    Case(
        "chain",
        """workflow W(n: Long) => (m: Long) andThen {
            a = Add(a = $.n) b = Add(a = a.sum) c = Add(a = b.sum, b = a.sum)
            yield W(m = c.sum)
        }""",
        {"m": 5},
        {"n": 1},
    ),
    Case(
        "diamond and join",
        """workflow W(n: Long) => (m: Long, all: [Long]) andThen {
            a = Add(a = $.n) b = Add(a = a.sum, b = 10) c = Add(a = a.sum, b = 20)
            d = Add(a = b.sum, b = c.sum)
            yield W(m = d.sum, all = [a.sum, b.sum, c.sum, d.sum])
        }""",
        {"m": 34, "all": [2, 12, 22, 34]},
        {"n": 1},
    ),
    Case(
        "computed defaults",
        """workflow W(a: Long = 2, b: Long = $.a * -3, c: Json = null, d: [Long] = [1, $.a]) =>
            (a: Long, b: Long, c: Json, d: [Long], e: Long) andThen {
            s = Add(a = $.b)
            yield W(a = $.a, b = $.b, c = $.c, d = $.d, e = s.sum)
        }""",
        {"a": 5, "b": -15, "c": None, "d": [1, 5], "e": -14},
        {"a": 5},
    ),
    Case(
        "plain data and schemas",
        """facet Box(label: String, size: Long = 7)
        workflow W() => (label: String, size: Long, point: Point, y: Long) andThen {
            p = Point(x = 1, y = 2)
            b = Box(label = "x" ++ p.x)
            yield W(label = b.label, size = b.size, point = p, y = p.y)
        }""",
        {"label": "x1", "size": 7, "point": {"x": 1, "y": 2}, "y": 2},
    ),
    Case(
        "implicits",
        """facet User(id: String, kind: String = "human")
        implicit user = User(id = "root")
        event facet Audit(user: Json, what: String) => (line: String)
        workflow W() => (one: Json, two: Json) andThen {
            a = Say(what = 1)
            b = Note(what = "x")
            c = Note(what = "y", user = "me")
            yield W(one = b.user, two = c.user)
        }
        facet Note(user: Json, what: String)""",
        {"one": {"id": "root", "kind": "human"}, "two": "me"},
    ),
    Case(
        "mixins",
        """facet Tenant(tenant: String, region: String = "eu")
        workflow W() => (said: Json) andThen {
            s = Say(what = "hi") with Tenant(tenant = "acme") with Point2(x = 1) as p
            yield W(said = s.said)
        }
        facet Point2(x: Long, y: Long = 2)""",
        {"said": {"what": "hi", "tenant": "acme", "region": "eu", "p": {"x": 1, "y": 2}}},
    ),
    Case(
        "signature mixins",
        """facet Tenant(tenant: String) => (region: String)
        facet Load(n: Long) => (m: Long) with Tenant(tenant = "t" ++ $.n) andThen {
            s = Add(a = $.n)
            yield Load(m = s.sum) with Tenant(region = $.tenant)
        }
        workflow W() => (m: Long, region: String, owner: Json) with Tenant(tenant = "main") as owner
        andThen {
            l = Load(n = 1)
            yield W(m = l.m, region = l.region) with owner(region = $.owner.tenant)
        }""",
        {"m": 2, "region": "t1", "owner": {"region": "main"}},
    ),
    Case(
        "facet bodies",
        """facet Twice(n: Long) => (m: Long) andThen {
            a = Add(a = $.n, b = $.n)
            yield Twice(m = a.sum)
        }
        facet Four(n: Long) => (m: Long) andThen {
            a = Twice(n = $.n) b = Twice(n = a.m)
            yield Four(m = b.m)
        }
        workflow W(n: Long) => (m: Long) andThen { f = Four(n = $.n) yield W(m = f.m) }""",
        {"m": 12},
        {"n": 3},
    ),
    Case(
        "step bodies read the step",
        """workflow W(n: Long) => (m: Long) andThen {
            s = Add(a = $.n, b = 10) andThen {
                t = Add(a = $.sum, b = s.sum)
                yield Add(sum = t.sum + $.b)
            }
            yield W(m = s.sum)
        }""",
        {"m": 36},
        {"n": 3},
    ),
    Case(
        "an event with blocks behind it",
        """event facet Ask(n: Long) => (sum: Long, twice: Long) andThen {
            t = Add(a = $.sum, b = $.sum)
            yield Ask(twice = t.sum)
        }
        workflow W() => (sum: Long, twice: Long) andThen {
            s = Ask(n = 4)
            yield W(sum = s.sum, twice = s.twice)
        }""",
        {"sum": 5, "twice": 10},
    ),
    Case(
        "several blocks",
        """workflow W() => (a: Long, b: Long, last: String)
            andThen { x = Add(a = 1) yield W(a = x.sum, last = "first") }
            andThen { y = Add(a = 2) yield W(b = y.sum, last = "second") }""",
        {"a": 2, "b": 3, "last": "second"},
    ),
    Case(
        "blocks read their siblings",
        """workflow W(words: String) => (sum: Long, loud: [String], when_: String, y: Long)
            andThen { a = Add(a = 1) s = Split(text = $.words) }
            andThen { b = Add(a = a.sum, b = 10) }
            andThen { yield W(sum = a.sum + b.sum) }
            andThen foreach w in s.words { u = Upper(text = w ++ a.sum) yield W(loud = u.text) }
            andThen when {
                case b.sum > 5 => {
                    n = Add(a = b.sum, b = a.sum)
                    yield W(when_ = "big", y = n.sum)
                }
                case _ => { yield W(when_ = "small") }
            }""",
        {"sum": 14, "loud": ["X2", "Y2"], "when_": "big", "y": 14},
        {"words": "x y"},
    ),
    Case(
        "foreach in order",
        """workflow W(items: [Json]) => (out: [Long], last: Long, none: [Long])
            andThen foreach i in $.items {
                a = Add(a = i.n, b = 100)
                b = Add(a = a.sum, b = $.i.n)
                yield W(out = b.sum, last = i.n)
            }
            andThen foreach i in [] { c = Add(a = i) yield W(none = c.sum) }""",
        {"out": [102, 104, 106, 108], "last": 4, "none": []},
        {"items": [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]},
    ),
    Case(
        "foreach of foreach",
        """facet Row(row: [Long]) => (cells: [Long]) andThen foreach c in $.row {
            a = Add(a = c) yield Row(cells = a.sum)
        }
        workflow W() => (rows: Json) andThen foreach r in [[1, 2], [], [3]] {
            row = Row(row = r)
            yield W(rows = row.cells)
        }""",
        {"rows": [[2, 3], [], [4]]},
    ),
    Case(
        "foreach without events",
        """workflow W(n: [Long]) => (m: [Long]) andThen foreach i in $.n { yield W(m = i * i) }""",
        {"m": [1, 4, 9]},
        {"n": [1, 2, 3]},
    ),
    Case(
        "when: several cases, and the default",
        """workflow W(n: Long) => (a: String, b: String, c: String, d: String)
            andThen when {
                case $.n > 1 => { s = Upper(text = "a") yield W(a = s.text) }
                case $.n > 2 => { s = Upper(text = "b") yield W(b = s.text) }
                case $.n > 9 => { s = Upper(text = "c") yield W(c = s.text) }
                case _ => { s = Upper(text = "d") yield W(d = s.text) }
            }
            andThen when {
                case false => { }
                case _ => { yield W(d = "default") }
            }""",
        {"a": "A", "b": "B", "d": "default"},
        {"n": 3},
    ),
    Case(
        "workflows as steps",
        """workflow Inner(n: Long) => (m: Long) andThen { a = Add(a = $.n) yield Inner(m = a.sum) }
        workflow W() => (m: Long) andThen {
            i = Inner(n = 1) j = Inner(n = i.m)
            yield W(m = j.m)
        }""",
        {"m": 3},
    ),
    Case(
        "null results",
        """workflow W() => (v: Json, is_null: Boolean, said: Json) andThen {
            n = Null()
            s = Say(what = n.value)
            yield W(v = n.value, is_null = n.value == null, said = s.said.what)
        }""",
        {"v": None, "is_null": True, "said": None},
    ),
    Case(
        "logs and assertions",
        """workflow W(n: Long) => (n: Long) andThen {
            sys.assert($.n > 0)
            sys.log("n is " ++ $.n)
            a = Add(a = $.n)
            sys.log(#{sum: a.sum}, level = "warning")
            sys.assert(a.sum > $.n, message = "did not grow")
            yield W(n = a.sum)
        }""",
        {"n": 2},
        {"n": 1},
    ),
    Case(
        "an assertion fails",
        """workflow W(n: Long) => (n: Long) andThen {
            a = Add(a = $.n)
            sys.assert(a.sum > 10, message = "too small")
            yield W(n = a.sum)
        }""",
        None,
        {"n": 1},
        error="too small",
    ),
    Case(
        "an error climbs after its siblings",
        """facet Deep(m: String) => (x: String) andThen { f = Fail(message = $.m) }
        workflow W() => (n: Long) andThen {
            d = Deep(m = "broken")
            after = Upper(text = d.x)
            a = Add(a = 1) b = Add(a = a.sum)
            yield W(n = b.sum)
        }""",
        None,
        error="broken",
    ),
    Case(
        "evaluation fails",
        "workflow W(n: Long) => (m: Double) andThen { a = Add(a = $.n / 0) yield W(m = a.sum) }",
        None,
        {"n": 1},
        error="Division by zero",
    ),
    Case(
        "a step catches",
        """workflow W() => (got: String, why: String, type: String, next: String) andThen {
            f = Fail(message = "no") catch { s = Upper(text = $.error) yield Fail(never = s.text) }
            n = Upper(text = f.never)
            yield W(got = f.never, why = f.error, type = f.error_type, next = n.text)
        }""",
        {"got": "NO", "why": "no", "type": "HandlerError", "next": "NO"},
    ),
    Case(
        "catch when, and a facet's own catch",
        """facet Careful(m: String) => (r: String) andThen { f = Fail(message = $.m) }
        catch when {
            case $.error == "a" => { yield Careful(r = "was a") }
            case _ => { x = Fail(message = "again") }
        }
        workflow W() => (one: String, two: String) andThen {
            one = Careful(m = "a")
            two = Careful(m = "b") catch { yield Careful(r = "outer: " ++ $.error) }
            yield W(one = one.r, two = two.r)
        }""",
        {"one": "was a", "two": "outer: again (while handling: b)"},
    ),
    Case(
        "a workflow catches and sees its steps",
        """workflow W() => (paid: Long, why: String, bad: String) andThen {
            paid = Add(a = 1)
            bad = Fail(message = "stop: " ++ paid.sum)
            yield W(why = "never")
        } catch {
            back = Add(a = paid.sum, b = 100)
            yield W(paid = back.sum, why = $.error, bad = bad.error_type)
        }""",
        {"paid": 102, "why": "stop: 2", "bad": "HandlerError"},
    ),
    Case(
        "a catch fails",
        """workflow W() andThen { a = Fail(message = "first") }
        catch { b = Fail(message = "second") }""",
        None,
        error="second (while handling: first)",
    ),
    Case(
        "returns called like an error",
        """facet Told() => (error: String) andThen { f = Fail(message = "low") }
        catch { yield Told(error = "told: " ++ $.error) }
        facet Bare() => (error: String, error_type: String) andThen { f = Fail(message = "high") }
        facet Box(error: String) andThen { f = Fail(message = "hidden") }
        workflow W(error: String) => (told: Json, own: Json, whole: Json, kind: Json, box: Json)
        andThen {
            t = Told()
            b = Bare() catch { yield Bare(error = "own: " ++ $.error) }
            x = Box(error = $.error) catch { }
            yield W(told = t.error, own = b.error, whole = b, kind = b.error_type, box = x.error)
        }""",
        {
            "told": "told: low",
            "own": "own: high",
            "whole": {"error": "own: high", "error_type": "HandlerError"},
            "kind": "HandlerError",
            "box": "as given",
        },
        {"error": "as given"},
    ),
    Case(
        "an input called error, beside a block that failed",
        """workflow W(error: String) => (seen: Json, why: String)
            andThen { f = Fail(message = "no") }
            andThen { a = Add(a = 1) s = Say(what = [$.error, a.sum]) yield W(seen = s.said.what) }
            catch { yield W(why = $.error) }""",
        {"seen": ["given", 2], "why": "no"},
        {"error": "given"},
    ),
    Case(
        "a catch reads its own step by name",
        """workflow W() => (r: Json) andThen {
            s = Ask(n = 1) catch { yield Ask(twice = [$.error, s.error, s.error_type, s.sum]) }
            yield W(r = s.twice)
        }
        event facet Ask(n: Long) => (sum: Long, twice: Json) andThen {
            f = Fail(message = "no")
        }""",
        {"r": ["no", "no", "HandlerError", 2]},
    ),
    Case(
        "a call that nobody declares is caught",
        """workflow W() => (kind: Json, one: Json, all: Json) andThen {
            a = Say(what = 1) with afl.Retry(max = 3, backoff = "10ms")
            s = Nobody(x = a.said) with Point2(x = 1) as p catch {
                yield Nobody(kind = $.error_type) with p(x = 2)
            }
            t = Nobody(x = a.said) catch { sys.log($.error_type) }
            yield W(kind = s.kind, one = s.p, all = t)
        }
        facet Point2(x: Long)""",
        {
            "kind": "UndeclaredFacet",
            "one": {"x": 2},
            "all": {
                "error": "Facet 'Nobody' is not declared in the program, so nothing can do its "
                "work; declare it as a facet or an event facet",
                "error_type": "UndeclaredFacet",
            },
        },
    ),
    Case(
        "rounds that yield to mixins",
        """facet Tenant(tenant: String) => (region: String, regions: [String])
        workflow W(xs: [String]) => (r: String, region: String, regions: [String], owner: Json)
        with Tenant(tenant = "flat") with Tenant(tenant = "main") as owner
        andThen foreach x in $.xs {
            yield W(r = x)
            yield Tenant(region = x, regions = x)
            yield owner(region = x, regions = x)
        }""",
        {
            "r": "b",
            "region": "b",
            "regions": ["a", "b"],
            "owner": {"region": "b", "regions": ["a", "b"]},
        },
        {"xs": ["a", "b"]},
    ),
    Case(
        "a failed sibling block",
        """workflow W() => (n: Long)
            andThen { f = Fail(message = "gone") }
            andThen { a = Upper(text = f.never) b = Add(a = 1) }
            andThen foreach i in f.never { c = Add(a = i) }""",
        None,
        error="gone",
    ),
    Case(
        "declared retries",
        """workflow W() => (n: Long, m: Long) andThen {
            a = Flaky(good_at = 3) with afl.Retry(max = 3, backoff = "0s")
            b = Flaky(good_at = 1)
            yield W(n = a.tries, m = b.tries)
        }""",
        {"n": 3, "m": 1},
    ),
    Case(
        "retries run out",
        """workflow W() => (n: Long) andThen {
            a = Flaky(good_at = 4) with afl.Retry(max = 3, backoff = "0s")
            yield W(n = a.tries)
        }""",
        None,
        error="attempt 3",
    ),
    Case(
        "recursion that ends",
        """facet Down(n: Long) => (path: String) andThen when {
            case $.n > 0 => { a = Add(a = $.n, b = -1) d = Down(n = a.sum)
                yield Down(path = $.n ++ "," ++ d.path) }
            case _ => { yield Down(path = "0") }
        }
        workflow W() => (path: String) andThen { d = Down(n = 4) yield W(path = d.path) }""",
        {"path": "4,3,2,1,0"},
    ),
    Case(
        "whole steps and indexes",
        """workflow W() => (all: Json, x: Long, first: String) andThen {
            p = Point(x = 3, y = 4)
            s = Split(text = "a b")
            yield W(all = p, x = [p][0]["x"], first = s.words[0])
        }""",
        {"all": {"x": 3, "y": 4}, "x": 3, "first": "a"},
    ),
    Case(
        "scripts",
        """facet Slug(title: String) => (slug: String) script {
            result["slug"] = "-".join(params["title"].lower().split())
        }
        workflow W(title: String) => (slug: String, done: Boolean, n: Long)
            script { params["title"] = params["title"].strip() }
            andThen { s = Slug(title = $.title) a = Add(a = 1) yield W(slug = s.slug, n = a.sum) }
            andThen script { result["done"] = True }""",
        {"slug": "a-b", "done": True, "n": 2},
        {"title": "  A B "},
        needs_scripts=True,
    ),
    Case(
        "a script fails",
        """facet Bad() => (x: Long) script { result["x"] = 1 / 0 }
        workflow W() => (x: Long, why: String) andThen {
            b = Bad() catch { yield Bad(x = 0) }
            yield W(x = b.x, why = b.error_type)
        }""",
        {"x": 0, "why": "ScriptError"},
        needs_scripts=True,
    ),
]

#: Those whose handlers are the only ones with effects: what crash and order tests run.
WITHOUT_SCRIPTS = [case for case in PROGRAMS if not case.needs_scripts]
