"""Links lead somewhere, and every page can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import DOCS, ROOT, anchors, links, name_of, pages

EXTERNAL = ("http://", "https://", "mailto:")
PAGES = [pytest.param(page, id=name_of(page)) for page in pages()]


def target_of(page: Path, link: str) -> tuple[Path, str]:
    path, _, anchor = link.partition("#")
    return (page.parent / path).resolve() if path else page, anchor


def test_the_readme_exists() -> None:
    assert (ROOT / "README.md").exists()


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_resolve(page: Path) -> None:
    for link in links(page):
        if link.startswith(EXTERNAL):
            continue
        target, anchor = target_of(page, link)
        assert target.exists(), f"{name_of(page)} links to {link}, which does not exist"
        assert target.is_relative_to(ROOT), f"{name_of(page)} links out of the project: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)} links to {link}: no such heading"


def test_every_page_is_linked_from_another() -> None:
    linked = {
        target_of(page, link)[0]
        for page in pages()
        for link in links(page)
        if not link.startswith(EXTERNAL)
    }
    lonely = [name_of(page) for page in DOCS.rglob("*.md") if page not in linked]
    assert lonely == []
