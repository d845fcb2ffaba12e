"""Lists can be read however long names and errors are, on screens of every width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from tests.dashboard.conftest import Site, Visit, dead_letter, opened, waiting_turns

from afl.operations.handlers import NewHandler, add
from afl.operations.texts import compile_text
from afl.runtime.entities import LogDefinition, ServerDefinition, ServerState
from afl.runtime.types import StepId

WORKFLOW = "LoadAllInvoicesOfTheLastFinancialYear"
FACET = "accounting.archive.FetchEveryPageOfTheInvoicesOfTheLastFinancialYear"
PROGRAM = f"""
namespace accounting.archive

event facet FetchEveryPageOfTheInvoicesOfTheLastFinancialYear(page: Long) => (count: Long)

workflow {WORKFLOW}(page: Long) => (count: Long) andThen {{
    everyPageOfTheInvoicesOfTheLastFinancialYear = {FACET.rpartition(".")[2]}(page = $.page)
    yield {WORKFLOW}(count = everyPageOfTheInvoicesOfTheLastFinancialYear.count)
}}
"""
ERROR = (
    "HTTPStatusError: Server error '503 Service Unavailable' for url "
    "'https://archive.accounting.example/v2/invoices?year=2024&page=17&token=0123456789abcdef0123'"
    " while the invoices of the last financial year were loaded, in the third of three tries; "
) * 3
WIDTHS = (375, 1024, 1280)
LISTS = (
    *("overview", "runs", "tasks", "tasks?state=dead_letter", "tasks?only_unserved=true"),
    *("turns", "servers", "handlers", "mailboxes", "mailboxes/letters", "actions", "workflows"),
)
#: Of a row, however much it has to say; on a phone, names take more lines.
TALLEST_PX, TALLEST_ON_PHONES_PX = 150, 240
#: Where people look first: all of it is to be seen on a phone, without moving a list sideways.
WHOLE_ON_PHONES = ("overview", "runs", "turns", "mailboxes", "workflows")

#: Elements whose content is wider than they are, by what is meant to hold it.
TOO_WIDE = """(selectors) => [...document.querySelectorAll(selectors)]
    .filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => `${each.className} ${each.scrollWidth}, not ${each.clientWidth}`)"""
HEIGHTS = "() => [...document.querySelectorAll('tbody tr')].map((each) => each.offsetHeight)"
#: Ids that are not on one line.
BROKEN_IDS = """() => [...document.querySelectorAll('td')]
    .flatMap((cell) => [cell, ...cell.querySelectorAll('*')])
    .filter((each) => each.children.length === 0)
    .filter((each) => /^[0-9a-f]{8}-[0-9a-f]{4}$/.test(each.textContent.trim()))
    .filter((each) => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return range.getClientRects().length > 1;
    }).map((each) => each.textContent)"""


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard on which everything has a long name, and much went wrong."""
    with opened(tmp_path_factory.mktemp("wordy")) as site:
        fill(site)
        yield site


def fill(site: Site) -> None:
    program = compile_text(PROGRAM).require()
    for number in range(8):
        _run(site, program, number, "failed")
    _run(site, program, 8, "dead")
    _run(site, program, 9, "waits")
    waiting_turns(site.mailboxes, ERROR)
    for _ in range(3):
        dead_letter(site.mailboxes, "letters", ERROR)
    dead_letter(site.mailboxes, "requests-of-the-agent-for-invoices-of-the-last-financial-year")
    _server(site)
    module = site.folder / "handlers_for_all_invoices_of_the_last_financial_year.py"
    module.write_text("def handle(payload): ...")
    add(site.store, NewHandler(f"{FACET}Again", str(module), "fetch_every_page_of_the_invoices"))
    api = site.api()
    api.post(f"/api/handlers/{FACET}Again/verify", json={})
    api.post("/api/handlers", json={"facet": FACET, "module": f"/{ERROR}.py"})


def _run(site: Site, program: Any, number: int, end: str) -> None:
    name = f"accounting.archive.{WORKFLOW}"
    run = site.evaluator.submit(program, name, {"page": number}, key=f"{WORKFLOW}-{number}" * 2)
    (task,) = site.store.get_tasks_by_runner(run)
    line = LogDefinition(f"line {number}", 1, run, step_id=task.step_id, message=ERROR)
    site.store.save_log(line)
    if end == "failed":
        site.evaluator.fail_step(StepId(task.step_id), ERROR)
    elif end == "dead":
        claimed = site.store.claim_task([FACET])
        assert claimed is not None
        site.evaluator.dead_letter_task(claimed, ERROR)


def _server(site: Site) -> None:
    now = site.store.now_ms()
    site.store.save_server(
        ServerDefinition(
            "0badcafe-0123-4567-89ab-0123456789ab",
            *("invoices", "loads-the-invoices-of-the-last-financial-year"),
            "invoices-of-the-last-financial-year-7d9f8c6b5-x2x9z",
            state=ServerState.RUNNING,
            ping_time=now,
            start_time=now - 90_000,
            handlers=["accounting.archive.Sum", f"{FACET}More"],
            version="2024.11.0+build.1234567",
            task_list="invoices-of-the-last-financial-year",
            host="invoices-of-the-last-financial-year-7d9f8c6b5-x2x9z.accounting.internal",
            pid=123456,
            wanted="drain",
            incidents=[{"message": ERROR, "kind": "stalled", "time": now}],
        )
    )


@pytest.fixture(scope="module")
def page(chromium: Browser, wordy: Site) -> Page:
    visit = Visit(chromium, wordy.url)
    # What is measured stands still.
    visit.page.route("**/live?*", lambda each: each.abort())
    visit.sign_in()
    return visit.page


def _opened(page: Page, path: str, width: int) -> Page:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(path)
    return page


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", LISTS)
def test_long_names_and_errors_leave_a_list_readable(page: Page, path: str, width: int) -> None:
    _opened(page, f"/{path}", width)
    # On a phone, a list of many columns may be moved sideways; nothing around it may.
    is_phone = width <= 640
    is_whole = not is_phone or path in WHOLE_ON_PHONES
    assert page.evaluate(TOO_WIDE, "html, .card, .scroll" if is_whole else "html, .card") == []
    heights = page.evaluate(HEIGHTS)
    assert heights
    assert max(heights) <= (TALLEST_ON_PHONES_PX if is_phone else TALLEST_PX)
    assert page.evaluate(BROKEN_IDS) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_about_one_thing_is_as_wide_as_the_screen(
    page: Page, wordy: Site, width: int
) -> None:
    failed = wordy.api().get("/api/tasks", params={"state": "failed"}).json()["tasks"][0]
    turns = wordy.api().get("/api/turns").json()["turns"]
    paths = [
        f"/runs/{failed['run']}?step={failed['step']}",
        *(f"/turns/{each['id']}" for each in turns),
        f"/handlers/{FACET}Again",
        f"/workflows?workflow=accounting.archive.{WORKFLOW}",
        "/mailboxes/requests-of-the-agent-for-invoices-of-the-last-financial-year",
        f"/runs/{'no-such-run-' * 12}",
    ]
    for each in paths:
        _opened(page, each, width)
        assert page.evaluate(TOO_WIDE, "html, .card") == [], each


def test_why_a_run_failed_is_cut_in_a_list_and_whole_on_its_page(page: Page) -> None:
    _opened(page, "/overview", 1280)
    why = page.locator("[sse-swap=live_failures] .bad-text").first
    box = why.bounding_box()
    assert box is not None
    assert box["width"] >= 200
    assert box["height"] <= 70
    assert "in the third of three tries" in (why.get_attribute("title") or "")
    page.locator("[sse-swap=live_failures] tbody a").first.click()
    assert ERROR.strip() in (page.locator("[sse-swap=live_head] .note").text_content() or "")


def test_what_waits_is_said_beside_its_facet(page: Page) -> None:
    _opened(page, "/overview", 375)
    card = page.locator("[sse-swap=live_queues]")
    right = card.evaluate("(each) => each.getBoundingClientRect().right")
    for each in (card.get_by_text("nobody serves it"), card.locator("td.num").last):
        box = each.first.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= right
