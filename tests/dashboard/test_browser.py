"""The dashboard as people use it, in a real Chromium.

AFL_TEST_SCREENSHOTS=docs/images/dashboard keeps the pictures of the documentation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks.large import large_run
from playwright.sync_api import Browser, Page, expect
from tests.dashboard.conftest import (
    OPERATOR,
    READER,
    SIZE,
    Process,
    Visit,
    dead_letter,
    opened,
    waiting_turns,
)

from afl.operations.handlers import NewHandler, add
from afl.runtime.sql_store import SqliteStore
from afl.turns import SqliteTurns

_CHECKOUT = Path(__file__).parents[2] / "examples" / "checkout"

FRAGILE = """
namespace bank

event facet Call(number: String) => (answer: String)

/** Rings up the bank, which does not always answer. */
workflow Ring(number: String) => (answer: String) andThen {
    called = Call(number = $.number)
    yield Ring(answer = called.answer)
}
"""
#: Fails until the file `open` is there.
BANK = """
from pathlib import Path


def call(payload, context):
    context.log("calling " + payload["number"])
    if not Path("open").exists():
        raise RuntimeError("the bank does not answer")
    return {"answer": "hello"}
"""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    chosen = os.environ.get("AFL_TEST_SCREENSHOTS")
    folder = Path(chosen).resolve() if chosen else tmp_path / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _folder(path: Path) -> Path:
    shutil.copytree(_CHECKOUT, path, dirs_exist_ok=True)
    (path / "fragile.afl").write_text(FRAGILE)
    (path / "bank.py").write_text(BANK)
    (path / "tokens").write_text(f"op operator {OPERATOR}\nre reader {READER}\n")
    return path


def _register(page: Page, facet: str, module: str, entrypoint: str) -> None:
    page.goto("/handlers")
    page.get_by_label("Facet").fill(facet)
    page.get_by_label("Module").fill(module)
    page.get_by_label("Entrypoint").fill(entrypoint)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_text(f"{facet} is registered.")).to_be_visible()


@pytest.mark.timeout(240)
def test_an_operator_does_a_days_work(chromium: Browser, pictures: Path, tmp_path: Path) -> None:
    folder = _folder(tmp_path / "shop")
    dashboard = Process(
        folder,
        *("dashboard", "checkout.afl", "fragile.afl", "--port", "0", "--token-file", "tokens"),
    )
    worker = Process(folder, "worker", "--drain-deadline", "5s")
    try:
        visit = Visit(chromium, dashboard.wait_for(r"Dashboard: (http\S+)"))
        _works(visit, folder, pictures)
        assert visit.complaints == []
    finally:
        assert (worker.stop(), dashboard.stop()) == (0, 0)


def _works(visit: Visit, folder: Path, pictures: Path) -> None:
    page, url = visit.page, f"sqlite:///{folder / 'afl.db'}"
    _signs_in(visit)
    with closing(SqliteStore(url)) as store:
        add(store, NewHandler("bank.Call", "bank", "call"))
        for name in ("refund", "pack", "write_note"):
            facet = f"shop.{name.title().replace('_', '')}"
            add(store, NewHandler(facet, "handlers", name))
    asking, _ = waiting_turns(url, "the red one")
    dead_letter(url, "orders", "the address is not known")
    run = _submits_a_checkout(page)
    _sees_it_go_green(page)
    _retries_a_step(page, folder)
    _settles_an_effect(page)
    _answers_a_turn(page, asking)
    (folder / "open").unlink()
    _ring(page)
    expect(page.locator("#graph .state-failed").first).to_be_visible()
    failed = page.url
    page.get_by_role("link", name="called").click()
    asking, doubting = waiting_turns(url, "the blue one")
    _types_while_it_changes(page, url, asking)
    paths = {
        "run": f"/runs/{run}",
        "failed-run": failed,
        "step": page.url,
        "turn": f"/turns/{doubting}",
    }
    _takes_pictures(visit, pictures, paths)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto("/runs")
    expect(page.get_by_label("Token")).to_be_visible()
    _takes_picture(page, pictures, "login")


def _signs_in(visit: Visit) -> None:
    visit.page.goto("/runs")
    visit.page.get_by_label("Token").fill("not a token of ours")
    visit.page.get_by_role("button", name="Sign in").click()
    expect(visit.page.get_by_role("alert")).to_contain_text("No such token")
    visit.sign_in()


def _submits_a_checkout(page: Page) -> str:
    page.goto("/workflows")
    page.get_by_role("link", name="Checkout").click()
    page.get_by_label("order").fill("2024-0117")
    page.get_by_label("customer").fill("Ada")
    page.get_by_label("total").fill("23.5")
    page.get_by_label("lines").fill('[{"sku": "tea"}]')
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("lines[0].count: is missing")
    expect(page.get_by_label("customer")).to_have_value("Ada")
    page.get_by_label("lines").fill('[{"sku": "tea", "count": 2}, {"sku": "cup", "count": 1}]')
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("The run has started.")).to_be_visible()
    return page.url.rpartition("/")[2]


def _sees_it_go_green(page: Page) -> None:
    """Without a reload: what was written into the page stays there."""
    page.evaluate("document.title = 'the same page'")
    head = page.locator("[sse-swap=live_head]")
    expect(page.locator("#graph .state-waiting").first).to_be_visible()
    # Nobody serves the first step, until somebody says where its handler is.
    other = page.context.new_page()
    _register(other, "shop.Charge", "handlers", "charge")
    other.get_by_role("button", name="Verify").click()
    expect(other.get_by_text("The handler loads.")).to_be_visible()
    other.close()
    expect(head).to_contain_text("completed")
    expect(page.locator("#graph .state-waiting, #graph .state-running")).to_have_count(0)
    expect(page.locator("#graph .state-completed").nth(2)).to_be_visible()
    expect(page.locator("[sse-swap=live_outputs]")).to_contain_text("pay-2024-0117")
    assert page.title() == "the same page"


def _retries_a_step(page: Page, folder: Path) -> None:
    _ring(page)
    head = page.locator("[sse-swap=live_head]")
    expect(page.locator("#graph .state-failed").first).to_be_visible()
    expect(head).to_contain_text("the bank does not answer")
    page.get_by_role("link", name="called").click()
    expect(page.locator("#step")).to_contain_text("the bank does not answer")
    expect(page.locator("#step")).to_contain_text("calling 555 0117")
    (folder / "open").touch()
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_text("The step is tried again.")).to_be_visible()
    expect(page.locator("#graph .state-completed").first).to_be_visible()
    expect(page.locator("[sse-swap=live_head]")).to_contain_text("completed")


def _types_while_it_changes(page: Page, url: str, turn: str) -> None:
    """On a page of its own: what is typed, and where, outlives news and a lost connection."""
    other = page.context.new_page()
    other.route("**/live?*", lambda each: each.abort())
    other.goto(f"/turns/{turn}")
    expect(other.get_by_text("This page is not live now")).to_be_visible()
    other.get_by_label("Answer").fill("dark bl")
    # With the connection, all parts are sent.
    other.unroute("**/live?*")
    expect(other.get_by_text("This page is not live now")).to_be_hidden()
    other.keyboard.type("ue")
    expect(other.get_by_label("Answer")).to_have_value("dark blue")
    with closing(SqliteTurns(url)) as store:
        store.cancel(turn, "the shop is closed")
    expect(other.get_by_label("Answer")).to_have_count(0)
    expect(other.get_by_text("the shop is closed")).to_be_visible()
    _reads_while_it_changes(other)
    other.keyboard.press("/")
    expect(other.get_by_placeholder("Id or workflow begins with")).to_be_focused()
    other.close()


def _reads_while_it_changes(page: Page) -> None:
    """A list that is replaced leaves the focus where it was, and waits for the end of a click."""
    page.goto("/runs")
    link = page.get_by_role("link", name=page.locator("tbody a").first.text_content())
    link.focus()
    link.evaluate("(each) => { each.isOld = true; }")
    expect(page.get_by_role("link", name=_rung(page))).to_be_visible()
    expect(link).to_be_focused()
    assert link.evaluate("(each) => each.isOld") is None
    link.hover()
    page.mouse.down()
    page.evaluate(
        "addEventListener('htmx:sseBeforeMessage', () => { document.body.id = 'heard'; }, true)"
    )
    _rung(page)
    expect(page.locator("#heard")).to_be_attached()
    page.mouse.up()
    expect(page.get_by_role("heading", name="Ring")).to_be_visible()
    page.goto("/runs")


def _rung(page: Page) -> str:
    """A new run, begun in another window; the beginning of its id."""
    other = page.context.new_page()
    _ring(other)
    expect(other.get_by_text("The run has started.")).to_be_visible()
    run = other.url.rpartition("/")[2][:13]
    other.close()
    return run


def _ring(page: Page) -> None:
    page.goto("/workflows?workflow=bank.Ring")
    page.get_by_label("number").fill("555 0117")
    page.get_by_role("button", name="Submit").click()


def _settles_an_effect(page: Page) -> None:
    page.goto("/turns")
    page.get_by_role("link", name="Settle").first.click()
    page.get_by_label("What it returned").fill("it arrived")
    page.get_by_role("button", name="It was done").click()
    expect(page.get_by_text("The effect is settled: done.")).to_be_visible()
    expect(page.get_by_role("button", name="It was done")).to_have_count(0)


def _answers_a_turn(page: Page, turn: str) -> None:
    page.goto("/turns?state=waiting")
    page.get_by_role("link", name=turn[:13]).click()
    page.get_by_label("Answer").fill("red")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("The turn has its answer.")).to_be_visible()


def _takes_picture(page: Page, folder: Path, name: str) -> None:
    expect(page.locator("h1")).to_be_visible()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=folder / f"{name}-{theme}.png", caret="initial")


def _takes_pictures(visit: Visit, folder: Path, paths: Mapping[str, str]) -> None:
    pages = {
        **{name: f"/{name}" for name in ("overview", "runs", "tasks", "handlers", "servers")},
        **{name: f"/{name}" for name in ("turns", "mailboxes", "actions")},
        **paths,
        "submit": "/workflows?workflow=shop.Checkout",
        "handler": "/handlers/shop.Charge",
        "mailbox": "/mailboxes/orders",
        "workflows": "/workflows",
        "not-found": "/runs/no-such-run",
    }
    for name, path in pages.items():
        visit.page.goto(path)
        _takes_picture(visit.page, folder, name)
    visit.page.set_viewport_size({"width": 390, "height": 780})
    for name, path in pages.items():
        visit.page.goto(path)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390, name
        if name in ("overview", "run"):
            visit.page.screenshot(path=folder / f"phone-{name}-dark.png", caret="initial")
    visit.page.set_viewport_size(SIZE)


def test_a_run_of_5000_steps_is_shown_page_by_page(
    chromium: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """How long it took to open is noted: no machine is held to a time here."""
    with opened(tmp_path) as site:
        run = large_run(site.evaluator, 5000)
        visit = Visit(chromium, site.url)
        visit.sign_in()
        visit.page.goto(f"/runs/{run}")
        expect(visit.page.get_by_text("1 to 100 of 5,")).to_be_visible()
        assert visit.page.locator("[sse-swap=live_steps] tbody tr").count() == 100
        took = visit.page.evaluate(
            "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
        )
        record_property("opened_in_ms", took)
        visit.page.get_by_role("link", name="Later").click()
        expect(visit.page.get_by_text("101 to 200")).to_be_visible()
        assert visit.complaints == []


def test_the_first_load_is_small(chromium: Browser, tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.submit()
        visit = Visit(chromium, site.url)
        sizes: list[int] = []
        visit.page.on("response", lambda each: sizes.append(len(_packed(each.url, site))))
        visit.sign_in()
        assert 10_000 < sum(sizes) < 80_000


def _packed(url: str, site: Any) -> bytes:
    """As it came over the wire; pages are asked for again by somebody who is signed in."""
    if "/live" in url:
        return b""
    with site.signed_in().stream("GET", url) as answer:
        return b"".join(answer.iter_raw())
