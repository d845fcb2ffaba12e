"""Whatever a thing is called, its address leads to it; and an address that leads nowhere is
answered with what is wrong about it."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import pytest
from tests.dashboard.conftest import OPERATOR, Site, csrf_of, dead_letter

NAMES = ("a/b", "/a", "a/", "a//b", "a/redrive", "q?x", "h#y", "pct%41", "two words", "ü/é")


def _links(page: str, pattern: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(pattern, page)]


@pytest.mark.parametrize("name", NAMES)
def test_a_mailbox_of_any_name_is_opened_and_redriven(site: Site, name: str) -> None:
    dead_letter(site.mailboxes, name, "lost")
    client = site.signed_in()
    (link,) = _links(client.get("/mailboxes").text, r'href="(/mailboxes/[^"]+)"')
    page = client.get(link).text
    (live,) = _links(page, r'sse-connect="/live\?to=([^"]+)"')
    with client.stream("GET", f"/live?to={live}") as answer:
        assert "event: live_box\n" in next(each for each in answer.iter_text() if "event" in each)
    (everything, one) = _links(page, r'action="(/mailboxes/[^"]+)"')
    assert everything == one == f"{link}/redrive"
    done = client.post(one, data={"csrf": csrf_of(page)})
    assert done.status_code == 303, done.text
    shown = client.get(done.headers["location"])
    assert (shown.status_code, "No dead letters" in shown.text) == (200, True)


@pytest.mark.parametrize("name", NAMES)
def test_programs_reach_a_mailbox_of_any_name(site: Site, name: str) -> None:
    dead_letter(site.mailboxes, name, "lost")
    api, path = site.api(), f"/api/mailboxes/{quote(name, safe='')}"
    assert api.get(path).json()["depth"]["name"] == name
    assert api.post(f"{path}/redrive", json={}).json()["subject"] == name
    assert api.get(path).json()["dead_letters"] == []


@pytest.mark.parametrize("name", NAMES)
def test_who_signs_in_comes_to_where_they_wanted(site: Site, name: str) -> None:
    dead_letter(site.mailboxes, name, "lost")
    client = site.client()
    wanted = client.get(f"/mailboxes/{quote(name, safe='')}").headers["location"]
    (to,) = re.findall(r'name="to" value="([^"]*)"', client.get(wanted).text)
    answer = client.post("/login", data={"token": OPERATOR, "to": to})
    assert client.get(answer.headers["location"]).status_code == 200


def test_a_method_that_a_path_has_not_is_refused_with_those_it_has(site: Site) -> None:
    api = site.api()
    for path, allowed in (
        ("/api/runs", "GET, HEAD, POST"),
        ("/api/mailboxes/a/redrive", "POST"),
        ("/runs", "GET, HEAD, POST"),
    ):
        answer = api.delete(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert f"use {allowed}" in answer.text


MANY = "/runs?" + "&".join(f"a{each}=1" for each in range(60))


@pytest.mark.parametrize("to", ["http://[", "//[/runs", MANY, "/runs?nothing=1"])
def test_a_live_page_at_no_address_is_refused(site: Site, to: str) -> None:
    answer = site.signed_in().get("/live", params={"to": to})
    assert answer.status_code == 422, answer.text


BEYOND = ["99999999999999999999", "-99999999999999999999", "no place!"]


@pytest.mark.parametrize("cursor", BEYOND)
def test_a_cursor_that_is_no_place_is_refused(site: Site, cursor: str) -> None:
    run, api, client = site.submit(), site.api(), site.signed_in()
    for path in ("/api/runs", "/api/tasks", f"/api/runs/{run}/steps"):
        answer = api.get(path, params={"cursor": cursor})
        assert answer.status_code == 422, answer.text
        assert "is no place in a list" in answer.json()["detail"]
    for path in ("/runs", "/tasks"):
        assert client.get(path, params={"cursor": cursor}).status_code == 422
