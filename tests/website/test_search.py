"""Typical queries of the search lead to a guide, and pages load little before they are read."""

from __future__ import annotations

import json

import pytest
from website.browser import CHROMIUM, Browser

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")

# A query, and the pages of which one is to be among the first three links.
QUERIES = {
    "resize image": ("recipes", "resizing"),
    "rotate image": ("recipes", "gallery/rotate"),
    "grid in pixels": ("coordinates", "cheatsheet"),
    "segmentation": ("labels",),
    "cubemap": ("cameras", "gallery/panorama"),
    "cite": ("cite",),
    "vmap": ("jax",),
    "align_corners": ("coordinates", "cheatsheet"),
    "optical flow": ("flow", "fields"),
    "nodata": ("files", "missing", "recipes"),
    "lut": ("colour", "recipes"),
    "undistort": ("cameras", "gallery/lens"),
    "torch training": ("torch",),
    "affine": ("recipes", "fields", "coordinates"),
    # A function's own name.
    "grid_sample": ("reference/gridsample.grid_sample",),
    "interpolate": ("reference/gridsample.interpolate",),
    "splat": ("reference/gridsample.splat",),
}
# In bytes.  The gallery's pictures count, which are loaded some screens before they are seen.
LIMITS = {"index.html": 500_000, "gallery/index.html": 600_000, "recipes.html": 500_000}


@pytest.mark.parametrize("query", QUERIES)
def test_a_guide_is_among_the_first_links(browser: Browser, address: str, query: str) -> None:
    browser.open(f"{address}/index.html")
    links = browser.run(f"""new Promise((done) => {{
      const field = document.querySelector("[data-md-component=search-query]");
      document.querySelector("#__search").click();
      field.focus();
      const look = () => {{
        const found = [...document.querySelectorAll(".md-search-result__item > a")];
        if (found.length) return done(found.slice(0, 3).map((link) => link.href));
        if (field.value !== {json.dumps(query)}) field.value = {json.dumps(query)};
        field.dispatchEvent(new KeyboardEvent("keyup", {{ bubbles: true }}));
        field.dispatchEvent(new Event("input", {{ bubbles: true }}));
        setTimeout(look, 100);
      }};
      look(); }})""")
    pages = [link.removeprefix(f"{address}/").partition(".html")[0] for link in links]
    assert set(pages) & set(QUERIES[query]), pages


@pytest.mark.parametrize("page", LIMITS)
def test_pages_load_little_before_reading(browser: Browser, address: str, page: str) -> None:
    browser("Network.setCacheDisabled", cacheDisabled=True)
    browser.open(f"{address}/{page}", 1280)
    loaded = browser.run("""[...performance.getEntriesByType("resource"),
      ...performance.getEntriesByType("navigation")]
      .map((one) => [one.name, one.encodedBodySize])""")
    weight = sum(size for name, size in loaded if "search" not in name)
    assert 50_000 < weight < LIMITS[page], sorted(loaded, key=lambda resource: -resource[1])[:5]
