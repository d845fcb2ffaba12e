"""From registrations to handlers: where code may come from, and how it is loaded."""

from __future__ import annotations

import builtins
import importlib
import os
import py_compile
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from afl.errors import UsageError
from afl.runtime import registrations
from afl.runtime.claims import RetryPolicy
from afl.runtime.entities import HandlerRegistration, Isolation, OnLost
from afl.runtime.loading import make_importable
from afl.runtime.registrations import (
    HandlerLoadError,
    RegistrationLoader,
    allowed_places,
    usual_places,
)

Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _unchanged_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a worker."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def write(folder: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def loader(folder: Path) -> RegistrationLoader:
    return RegistrationLoader()


def registration(uri: str | Path, entrypoint: str = "handle", **fields: Any) -> HandlerRegistration:
    given = uri.as_uri() if isinstance(uri, Path) else uri
    return HandlerRegistration("shop.Pay", given, entrypoint, **fields)


def answer(loader: RegistrationLoader, *given: Any, **fields: Any) -> Any:
    return loader.load(registration(*given, **fields)).call({})


def digest(path: Path) -> str:
    return f"sha256:{sha256(path.read_bytes()).hexdigest()}"


HANDLE = "def handle(payload): return {'n': 1}\n"


# Modules and files


def test_a_module_of_the_working_directory_is_loaded(
    loader: RegistrationLoader, write: Write
) -> None:
    write("pay_a.py", HANDLE)
    write("shop_a/__init__.py", "")
    write("shop_a/billing.py", "def pay(payload): return {'n': 2}\n")
    write("spread_a/billing.py", "def pay(payload): return {'n': 3}\n")
    assert answer(loader, "pay_a") == {"n": 1}
    assert answer(loader, "shop_a.billing", "pay") == {"n": 2}
    assert answer(loader, "spread_a.billing", "pay") == {"n": 3}
    assert sys.modules["shop_a.billing"] is loader.modules["shop_a.billing", ""]


def test_a_package_can_be_a_module_of_handlers(loader: RegistrationLoader, write: Write) -> None:
    write("shop_b/__init__.py", "from .parts import handle\n")
    path = write("shop_b/parts.py", HANDLE)
    assert answer(loader, "shop_b") == {"n": 1}
    assert answer(loader, path.parent / "__init__.py") == {"n": 1}


def test_a_file_is_loaded_by_its_uri(loader: RegistrationLoader, write: Write) -> None:
    path = write("odd names/pay-now 1.5.py", HANDLE)
    assert answer(loader, path) == {"n": 1}
    assert answer(loader, path.as_uri().replace("file://", "file://localhost")) == {"n": 1}
    assert "%20" in path.as_uri()


def test_a_file_imports_its_neighbours(loader: RegistrationLoader, write: Write) -> None:
    write("one/rates.py", "RATE = 1\n")
    write("two/rates.py", "RATE = 2\n")
    write("two/rest_c.py", "LEFT = 3\n")
    text = """
        from . import rates
        from .rates import RATE
        def handle(payload): return {"n": [rates.RATE, RATE]}
        """
    one = write("one/pay.py", text)
    two = write("two/pay.py", f"import rest_c\n{dedent(text)}")
    assert answer(loader, one) == {"n": [1, 1]}
    assert answer(loader, two) == {"n": [2, 2]}


def test_a_file_in_a_package_imports_what_is_above_it(
    loader: RegistrationLoader, write: Write
) -> None:
    write("app/__init__.py", "NAME = 'app'\n")
    write("app/common.py", "RATE = 5\n")
    write("app/jobs/__init__.py", "")
    path = write(
        "app/jobs/pay.py",
        """
        from .. import NAME
        from ..common import RATE
        def handle(payload): return {"n": [NAME, RATE]}
        """,
    )
    assert answer(loader, path) == {"n": ["app", 5]}


def test_a_file_does_not_become_everybodys_module(loader: RegistrationLoader, write: Write) -> None:
    import colorsys

    path = write("colorsys.py", HANDLE)
    assert answer(loader, path) == {"n": 1}
    assert sys.modules["colorsys"] is colorsys


def test_two_entrypoints_of_one_module_are_two_handlers(
    loader: RegistrationLoader, write: Write
) -> None:
    write("pay_d.py", "def pay(p): return {'n': 1}\ndef refund(p): return {'n': 2}\n")
    assert answer(loader, "pay_d", "pay") == {"n": 1}
    assert answer(loader, "pay_d", "refund") == {"n": 2}
    assert len(loader.modules) == 1


def test_classes_of_handlers_know_their_module(loader: RegistrationLoader, write: Write) -> None:
    path = write(
        "records.py",
        """
        from __future__ import annotations
        from dataclasses import KW_ONLY, asdict, dataclass
        @dataclass
        class Paid:
            _: KW_ONLY
            n: int
        def handle(payload): return asdict(Paid(n=4))
        """,
    )
    assert answer(loader, path) == {"n": 4}
    path.write_text(path.read_text().replace("n=4", "n=5"))
    assert answer(loader, path, checksum="2") == {"n": 5}


# Checksums


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "module"])
def test_a_changed_checksum_loads_the_new_text_and_the_old_one_lives_on(
    loader: RegistrationLoader, write: Write, is_file: bool
) -> None:
    path = write("pay_e.py", HANDLE)
    uri: Any = path if is_file else "pay_e"
    old = loader.load(registration(uri, checksum="1"))
    # As long as before, and written in the same second: no bytecode may hide it.
    py_compile.compile(str(path), doraise=True)
    written = path.stat().st_mtime
    path.write_text(HANDLE.replace("1", "2"))
    os.utime(path, (written, written))
    assert loader.load(registration(uri, checksum="1")).call is old.call
    new = loader.load(registration(uri, checksum="2"))
    assert new.call({}) == {"n": 2}
    assert old.call({}) == {"n": 1}
    assert RegistrationLoader().load(registration(uri, checksum="2")).call is new.call
    path.write_text(HANDLE.replace("1", "3"))
    assert answer(RegistrationLoader(), uri, checksum="3") == {"n": 3}


def test_the_new_text_of_a_member_still_finds_its_package(
    loader: RegistrationLoader, write: Write
) -> None:
    write("shop_f/__init__.py", "")
    write("shop_f/rates.py", "RATE = 1\n")
    path = write("shop_f/pay.py", "from .rates import RATE\ndef handle(p): return {'n': RATE}\n")
    assert answer(loader, "shop_f.pay") == {"n": 1}
    path.write_text(path.read_text().replace("RATE}", "RATE + 1}"))
    assert answer(loader, "shop_f.pay", checksum="2") == {"n": 2}


def test_a_module_that_somebody_imported_before_is_used_as_it_is(
    loader: RegistrationLoader, write: Write
) -> None:
    path = write("pay_g.py", "COUNT = []\ndef handle(payload): return {'n': len(COUNT)}\n")
    make_importable(path.parent)
    importlib.import_module("pay_g").COUNT.append(1)
    assert answer(loader, "pay_g") == {"n": 1}


def test_a_sha256_is_verified_before_anything_runs(
    loader: RegistrationLoader, write: Write
) -> None:
    path = write("pay_h.py", f"import sys\nsys.modules['ran'] = sys\n{HANDLE}")
    good = digest(path)
    assert loader.checksum("pay_h") == loader.checksum(path.as_uri()) == good
    path.write_text(path.read_text() + "# changed\n")
    for uri in ("pay_h", path):
        with pytest.raises(HandlerLoadError, match=f"has the checksum {digest(path)}, not {good}"):
            loader.load(registration(uri, checksum=good))
    assert "ran" not in sys.modules
    assert answer(loader, "pay_h", checksum=digest(path).upper().replace("SHA", "sha")) == {"n": 1}
    assert "ran" in sys.modules


def test_a_module_that_is_there_is_no_proof_of_its_text(
    loader: RegistrationLoader, write: Write
) -> None:
    path = write("pay_i.py", HANDLE)
    make_importable(path.parent)
    importlib.import_module("pay_i")
    path.write_text(HANDLE.replace("1", "2"))
    assert answer(loader, "pay_i", checksum=digest(path)) == {"n": 2}


def test_a_sha256_that_is_none_is_refused(loader: RegistrationLoader, write: Write) -> None:
    write("pay_j.py", HANDLE)
    with pytest.raises(HandlerLoadError, match="not sha256: and 64 hexadecimal digits"):
        loader.load(registration("pay_j", checksum="sha256:abc"))


# Places


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "foreign.py"
    path.parent.mkdir()
    path.write_text(HANDLE)
    return path


def test_a_file_elsewhere_is_refused_until_its_place_is_listed(
    loader: RegistrationLoader, outside: Path
) -> None:
    with pytest.raises(HandlerLoadError, match=r"outside of the places .* AFL_HANDLER_PATHS"):
        loader.load(registration(outside))
    listed = RegistrationLoader(allowed_places([outside.parent]))
    assert answer(listed, outside) == {"n": 1}
    assert answer(listed, "foreign") == {"n": 1}


def test_a_loader_that_is_told_of_no_place_asks_the_environment(
    folder: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(outside.parent))
    monkeypatch.setenv("AFL_HANDLER_PATHS", os.pathsep.join(["", "~", "/srv/handlers"]))
    assert usual_places() == [folder, outside.parent, Path("/srv/handlers")]
    assert answer(RegistrationLoader(), outside) == {"n": 1}
    # Who says what is allowed has asked already, and has the last word.
    with pytest.raises(HandlerLoadError, match="outside of the places"):
        RegistrationLoader(allowed_places()).load(registration(outside))


@pytest.mark.parametrize("name", ["../elsewhere/foreign.py", "x/../../elsewhere/foreign.py"])
def test_the_way_up_leads_nowhere(
    loader: RegistrationLoader, folder: Path, outside: Path, name: str
) -> None:
    with pytest.raises(HandlerLoadError, match="outside of the places"):
        loader.load(registration(f"file://{folder}/{name}"))


def test_a_link_is_where_it_leads(loader: RegistrationLoader, folder: Path, outside: Path) -> None:
    (folder / "link.py").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    for uri in (folder / "link.py", "link", folder / "linked" / "foreign.py", "linked.foreign"):
        with pytest.raises(HandlerLoadError, match="outside of the places"):
            loader.load(registration(uri))


@pytest.mark.parametrize("uri", ["os", "os.path", "json.tool", "sys", "pytest", "msgspec"])
def test_what_is_installed_is_no_handler(loader: RegistrationLoader, uri: str) -> None:
    with pytest.raises(HandlerLoadError):
        loader.load(registration(uri, "main"))


def test_an_environment_below_the_working_directory_is_not_part_of_it(
    loader: RegistrationLoader, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(".venv/lib/python3/site-packages/paylib/handlers.py", HANDLE)
    monkeypatch.syspath_prepend(path.parents[1])
    for uri in ("paylib.handlers", path):
        with pytest.raises(HandlerLoadError, match="outside of the places"):
            loader.load(registration(uri))
    listed = RegistrationLoader(allowed_places([path.parent]))
    assert answer(listed, "paylib.handlers") == {"n": 1}
    assert answer(listed, path) == {"n": 1}


def test_parents_elsewhere_do_not_run(
    loader: RegistrationLoader, write: Write, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (outside.parent / "__init__.py").write_text("raise AssertionError('it ran')\n")
    (outside.parent / "inside.py").symlink_to(write("inside.py", HANDLE))
    monkeypatch.syspath_prepend(outside.parents[1])
    for uri in ("elsewhere.foreign", "elsewhere.inside"):
        with pytest.raises(HandlerLoadError, match="outside of the places"):
            loader.load(registration(uri))


def test_what_surrounds_an_allowed_place_does_not_run(tmp_path: Path) -> None:
    place = tmp_path / "package" / "handlers"
    place.mkdir(parents=True)
    for each in (place, place.parent):
        (each / "__init__.py").write_text("raise AssertionError('it ran')\n")
    (place / "pay.py").write_text(HANDLE)
    assert answer(RegistrationLoader([place]), place / "pay.py") == {"n": 1}


# What is wrong


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def handle(:", "SyntaxError: "),
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("from . import nothing_like_it", "ImportError: "),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise ValueError('one\\ntwo')", "ValueError: one$"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("class Stop(BaseException): pass\nraise Stop", "Stop$"),
        ("handler = 1", "it has no 'handle'"),
        ("handle = 1", "'handle' is an int, no function"),
        ("\0", "SyntaxError: |ValueError: "),
    ],
)
def test_a_problem_is_one_sentence_that_names_the_facet(
    loader: RegistrationLoader, write: Write, text: str, problem: str
) -> None:
    path = write("broken.py", text)
    expected = f"^the handler of shop.Pay cannot be loaded from {path.as_uri()}: ({problem})"
    with pytest.raises(HandlerLoadError, match=expected) as raised:
        loader.load(registration(path))
    assert "\n" not in str(raised.value)


def test_what_was_broken_can_be_loaded_once_it_is_mended(
    loader: RegistrationLoader, write: Write
) -> None:
    path = write("pay_k.py", "import nothing_like_it")
    with pytest.raises(HandlerLoadError):
        loader.load(registration("pay_k"))
    path.write_text(HANDLE)
    assert answer(loader, "pay_k") == {"n": 1}


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("nothing_like_it", "there is no module nothing_like_it in"),
        ("pay_l.inner", "pay_l is a module, no package"),
        ("spread_l", "is a folder without __init__.py"),
        ("spread_l.none", "there is no module spread_l.none"),
        ("pay_l.py", "give a dotted name such as shop.handlers, or a file"),
        ("./pay_l.py", "give a dotted name"),
        ("", "give a dotted name"),
        ("file://pay_l.py", "has no absolute path"),
        ("file:pay_l.py", "has no absolute path"),
        ("file://host/pay_l.py", "has no absolute path"),
        ("http://host/pay_l.py", "give a dotted name"),
    ],
)
def test_a_uri_that_leads_nowhere_says_what_to_write(
    loader: RegistrationLoader, write: Write, uri: str, problem: str
) -> None:
    write("pay_l.py", HANDLE)
    write("spread_l/x.txt", "")
    with pytest.raises(HandlerLoadError, match=problem):
        loader.load(registration(uri))


def test_a_file_that_is_not_there_or_no_python_is_refused(
    loader: RegistrationLoader, write: Write, folder: Path
) -> None:
    for path in (folder / "none.py", folder, write("notes.txt", "x")):
        with pytest.raises(HandlerLoadError, match="there is no Python file"):
            loader.load(registration(path))
    with pytest.raises(UsageError, match="there is no Python file"):
        loader.checksum((folder / "none.py").as_uri())


class Importing:
    """Loads a module that hangs until the end of the block, on a thread of its own."""

    def __init__(
        self,
        loader: RegistrationLoader,
        write: Write,
        name: str,
        load: Callable[[], object] | None = None,
    ) -> None:
        self._begun, self._may_end = threading.Event(), threading.Event()
        setattr(builtins, name, self)
        self.path = write(f"{name}.py", f"import builtins\nbuiltins.{name}()\n{HANDLE}")
        load = load or partial(loader.load, registration(name))
        self._thread = threading.Thread(target=load, daemon=True)

    def __call__(self) -> None:
        self._begun.set()
        assert self._may_end.wait(60)

    def __enter__(self) -> Importing:
        self._thread.start()
        assert self._begun.wait(20)
        return self

    def __exit__(self, *_anything: object) -> None:
        self._may_end.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_a_module_that_hangs_keeps_no_other_from_being_loaded(
    loader: RegistrationLoader, write: Write
) -> None:
    write("pay_o.py", HANDLE)
    with Importing(loader, write, "hanging_a"):
        assert answer(loader, "pay_o") == {"n": 1}
    assert answer(loader, "hanging_a") == {"n": 1}


@pytest.mark.parametrize("mark", ["2", "sha256"])
def test_the_mended_text_of_a_module_that_hangs_is_loaded_beside_it(
    loader: RegistrationLoader, write: Write, mark: str
) -> None:
    with Importing(loader, write, f"hanging_{mark}") as hanging:
        hanging.path.write_text(HANDLE.replace("1", "2"))
        checksum = digest(hanging.path) if mark == "sha256" else mark
        assert answer(loader, f"hanging_{mark}", checksum=checksum) == {"n": 2}


def test_a_module_that_somebody_is_importing_is_whole_when_it_is_used(
    loader: RegistrationLoader, write: Write
) -> None:
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(answer(loader, "hanging_b")))

    def import_it() -> None:
        make_importable(Path.cwd())
        importlib.import_module("hanging_b")

    with Importing(loader, write, "hanging_b", import_it):
        waiting.start()
        waiting.join(0.1)  # who does not wait is soon over
    waiting.join(20)
    assert answers == [{"n": 1}]


# What else a registration says


def test_a_handler_has_all_that_its_registration_says(
    loader: RegistrationLoader, write: Write
) -> None:
    path = write("full.py", "async def handle(payload, context): return {}\n")
    metadata = {"unit": "EUR", "retry": {"max": 3, "backoff": "2s"}}
    handler = loader.load(
        registration(path, metadata=metadata, timeout_ms=500, on_lost=OnLost.UNKNOWN)
    )
    assert (handler.facet, handler.source) == ("shop.Pay", path.as_uri())
    assert (handler.timeout_ms, handler.on_lost) == (500, OnLost.UNKNOWN)
    assert (handler.isolation, handler.metadata) == (Isolation.THREAD, metadata)
    assert handler.retry == RetryPolicy(3, 2000)
    assert handler.is_async
    assert handler.takes_context


@pytest.mark.parametrize(
    ("retry", "policy"),
    [
        ({"max": 1}, RetryPolicy(1, 1000)),
        ({"max": 5, "backoff": 0}, RetryPolicy(5, 0)),
        ({"max": 2, "backoff": "250ms"}, RetryPolicy(2, 250)),
    ],
)
def test_a_retry_in_the_metadata_is_a_policy(
    loader: RegistrationLoader, write: Write, retry: Any, policy: RetryPolicy
) -> None:
    path = write("pay_m.py", HANDLE)
    assert loader.load(registration(path, metadata={"retry": retry})).retry == policy
    assert loader.load(registration(path)).retry is None


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"retry": 3}},
        {"metadata": {"retry": {}}},
        {"metadata": {"retry": {"max": 0}}},
        {"metadata": {"retry": {"max": "3"}}},
        {"metadata": {"retry": {"max": True}}},
        {"metadata": {"retry": {"max": 3, "attempts": 3}}},
        {"metadata": {"retry": {"max": 3, "backoff": "soon"}}},
        {"metadata": {"retry": {"max": 3, "backoff": None}}},
        {"isolation": "jail"},
        {"on_lost": "cry"},
        {"timeout_ms": -1},
        {"timeout_ms": "30s"},
    ],
    ids=str,
)
def test_a_registration_that_makes_no_sense_is_refused(
    loader: RegistrationLoader, write: Write, fields: dict[str, Any]
) -> None:
    path = write("pay_n.py", HANDLE)
    with pytest.raises(HandlerLoadError):
        loader.load(registration(path, **fields))


# In a process of its own


def test_the_code_of_an_isolated_handler_never_runs_here(
    loader: RegistrationLoader, write: Write
) -> None:
    path = write(
        "alone.py",
        f"""
        import os
        if os.getpid() == {os.getpid()}:
            raise AssertionError("it ran here")
        def handle(payload): return {{}}
        """,
    )
    handler = loader.load(registration(path, isolation=Isolation.PROCESS))
    assert handler.isolation == Isolation.PROCESS
    assert handler.label == f"{path.as_uri()}: handle"
    with pytest.raises(UsageError, match="runs in a process of its own"):
        handler.call({})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import nothing_like_it", "shop.Pay .* ModuleNotFoundError: No module named"),
        ("import os\nos._exit(7)", "shop.Pay .* exited with code 7"),
        ("handle = 1", "shop.Pay .* 'handle' is an int"),
    ],
)
def test_what_is_wrong_with_an_isolated_handler_is_known_when_it_is_loaded(
    loader: RegistrationLoader, write: Write, text: str, problem: str
) -> None:
    path = write("alone.py", text)
    with pytest.raises(HandlerLoadError, match=problem) as raised:
        loader.load(registration(path, isolation=Isolation.PROCESS))
    assert str(raised.value).count("cannot be loaded") == 1


def test_an_isolated_handler_that_hangs_is_given_up(
    loader: RegistrationLoader, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrations, "LOAD_LIMIT_S", 1.0)
    path = write("alone.py", "import threading\nthreading.Event().wait()\n")
    with pytest.raises(HandlerLoadError, match=r"shop.Pay .*: importing it took longer than 1s$"):
        loader.load(registration(path, isolation=Isolation.PROCESS))


@pytest.mark.parametrize("isolation", [Isolation.THREAD, Isolation.PROCESS])
def test_a_problem_is_told_in_text_that_can_be_kept(
    loader: RegistrationLoader, write: Write, isolation: Isolation
) -> None:
    path = write("odd.py", "raise ValueError('half \\ud83d of it')")
    with pytest.raises(HandlerLoadError, match=r"ValueError: half \\ud83d of it$"):
        loader.load(registration(path, isolation=isolation))
    path = write("mute.py", "class Mute(Exception):\n    def __str__(self): 1 / 0\nraise Mute")
    with pytest.raises(HandlerLoadError, match=r"mute\.py: Mute$"):
        loader.load(registration(path, isolation=isolation))


def test_an_isolated_handler_is_verified_and_in_its_place(
    loader: RegistrationLoader, write: Write, outside: Path
) -> None:
    path = write("alone.py", HANDLE)
    bad = f"sha256:{'0' * 64}"
    with pytest.raises(HandlerLoadError, match="has the checksum"):
        loader.load(registration(path, checksum=bad, isolation=Isolation.PROCESS))
    with pytest.raises(HandlerLoadError, match="outside of the places"):
        loader.load(registration(outside, isolation=Isolation.PROCESS))
