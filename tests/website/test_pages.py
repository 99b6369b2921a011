"""The site in a browser: it fits a phone's window, is accessible, and works with screen readers."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from website.browser import CHROMIUM, Browser

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")

# One page of each kind: text, long tables, charts, the reference, the explorer.
PAGES = (
    "index.html",
    "coordinates.html",
    "boundaries.html",
    "benchmarks/figures.html",
    "reference/gridsample.grid_sample.html",
    "gallery/index.html",
    "gallery/swirl.html",
    "explorer/index.html",
)
CONTROLS = {"button", "checkbox", "combobox", "link", "radio", "slider", "spinbutton", "textbox"}
# The longest page, in pixels at a width of 1280.
HIGHEST = 12_000
AXE = "axe-core@4.14.1"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


# Code that does not fit beside the menus; a phone breaks its lines.
WIDE_CODE = """[...document.querySelectorAll("pre > code")]
  .filter((code) => code.scrollWidth > code.clientWidth + 1).map((code) => code.textContent)"""


def test_every_page_and_its_code_fit_the_window(site: Path, browser: Browser) -> None:
    wide: dict[Any, Any] = {}
    for path in sorted(site.rglob("*.html")):
        browser.open(path.as_uri(), 390)
        if (width := browser.run("document.documentElement.scrollWidth")) > 390:
            wide[path.name] = width
        if path.parent.name == "reference":
            continue  # signatures and sources are as long as they are
        for width in (390, 1280):
            browser.resize(width)
            if blocks := browser.run(WIDE_CODE):
                wide[path.name, width] = [block[:60] for block in blocks]
        if (height := browser.run("document.documentElement.scrollHeight")) > HIGHEST:
            wide[path.name] = height
    assert wide == {}


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of axe-core, from npm's registry."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    words = [str(npm), "pack", "--silent", AXE]
    done = npm and subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if not done or done.returncode:
        pytest.skip("axe-core cannot be fetched")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(site: Path, browser: Browser, axe: str, page: str) -> None:
    for width, dark in ((1280, False), (390, True)):
        browser.open((site / page).as_uri(), width, dark=dark)
        browser.run(f"{axe}; 0")
        found = browser.run("""axe.run().then(({ violations }) => violations
          .filter(({ impact }) => ["serious", "critical"].includes(impact))
          .map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]))""")
        assert found == [], (width, dark)


def test_colours_have_three_states(site: Path) -> None:
    text = (site / "coordinates.html").read_text(encoding="utf-8")
    media = re.findall(r'<input[^>]* data-md-color-media="([^"]*)"', text)
    start = "(prefers-color-scheme"
    assert media == [f"{start})", f"{start}: light)", f"{start}: dark)"]  # the system comes first


@pytest.mark.parametrize(("scheme", "chosen"), [("dark", "slate"), ("light", "default")])
def test_a_chosen_scheme_is_kept_on_other_pages(
    address: str, browser: Browser, scheme: str, chosen: str
) -> None:
    """Whatever the system has; without a choice, pages follow the system."""
    is_dark = scheme != "dark"  # of the system
    shown, body = "document.body.dataset.mdColorScheme", "document.body.dataset.mdColorMedia"
    browser.open(f"{address}/coordinates.html", dark=is_dark)
    browser.run("localStorage.clear()")  # what another test has chosen
    browser.open(f"{address}/coordinates.html", dark=is_dark)
    system = "default" if chosen == "slate" else "slate"
    assert wait_for(browser, f"{shown} === '{system}' && {body} === '(prefers-color-scheme)'")
    media = f"(prefers-color-scheme: {scheme})"
    browser.run(f"document.querySelector('input[data-md-color-media=\"{media}\"]').click()")
    for page in ("coordinates", "gallery/swirl", "reference/gridsample.grid_sample", "index"):
        if page != "coordinates":
            browser.open(f"{address}/{page}.html", dark=is_dark)
        assert wait_for(browser, f"{shown} === '{chosen}' && {body} === '{media}'")


def test_a_card_shows_what_its_result_was_made_from(site: Path, browser: Browser) -> None:
    browser.open((site / "gallery/index.html").as_uri(), 390)
    loaded = (
        "performance.getEntriesByType('resource').filter(({ name }) => name.includes('before'))"
    )
    assert browser.run(f"{loaded}.length") == 0
    button = "document.querySelector('button.before')"
    browser.run(f"{button}.click()")  # no mouse is over the card
    assert browser.run(f"{button}.ariaPressed") == "true"
    assert wait_for(browser, "document.querySelector('img.before').naturalWidth") == 360
    browser.run(f"{button}.click()")
    shown = "getComputedStyle(document.querySelector('img.before')).display"
    assert browser.run(shown) == "none"


def test_a_swipe_over_the_explorer_scrolls_the_page(site: Path, browser: Browser) -> None:
    browser.open((site / "explorer/index.html").as_uri(), 390)
    browser("Emulation.setTouchEmulationEnabled", enabled=True)
    place = "(({ x, y, width, height }) => [x, y, width, height])"
    x, y, width, height = browser.run(
        f"{place}(document.getElementById('view').getBoundingClientRect())"
    )
    before = browser.run("$('x').value")
    browser.swipe(x + 0.9 * width, y + 0.9 * height, -200)
    assert wait_for(browser, "scrollY > 100")  # the page scrolls
    after = browser.run("$('x').value")
    browser("Emulation.setTouchEmulationEnabled", enabled=False)
    assert after == before
    assert browser.run("getComputedStyle($('view')).touchAction") == "manipulation"


def test_links_in_text_are_underlined_and_tables_reached_by_keyboard(
    site: Path, browser: Browser
) -> None:
    browser.open((site / "coordinates.html").as_uri(), 390)
    link = "document.querySelector('article p a:not(.headerlink)')"
    assert browser.run(f"getComputedStyle({link}).textDecorationLine") == "underline"
    wide = """[...document.querySelectorAll("article :is(.md-typeset__scrollwrap, table)")]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .filter((box) => getComputedStyle(box).overflowX !== "visible")
      .map((box) => box.tabIndex)"""
    assert set(browser.run(wide)) <= {0}


def test_wide_tables_scroll_by_keyboard(site: Path, browser: Browser) -> None:
    browser.open((site / "boundaries.html").as_uri(), 390)
    wide = """[...document.querySelectorAll("article :is(.md-typeset__scrollwrap, table)")]
      .find((box) => box.scrollWidth > box.clientWidth + 40
        && getComputedStyle(box).overflowX !== "visible")"""
    browser.run(f"globalThis.wide = {wide}; 0")
    for _ in range(400):
        if browser.run("document.activeElement === wide"):
            break
        browser.press("Tab", 9)
    assert browser.run("document.activeElement === wide")
    assert browser.run("wide.scrollLeft") == 0
    browser.press("ArrowRight", 39)
    assert wait_for(browser, "wide.scrollLeft") > 0


@pytest.mark.parametrize("page", PAGES)
def test_text_has_enough_contrast(site: Path, browser: Browser, page: str) -> None:
    for dark in (False, True):
        browser.open((site / page).as_uri(), dark=dark)
        browser.run("localStorage.clear()")  # the theme remembers the scheme
        browser.open((site / page).as_uri(), dark=dark)
        scheme = browser.run("document.body.dataset.mdColorScheme")
        assert scheme in (None, "slate" if dark else "default")
        assert browser.run(CONTRAST) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_part_has_an_accessible_name(site: Path, browser: Browser, page: str) -> None:
    browser.open((site / page).as_uri())
    tree = browser.tree()
    controls = [node for node in tree if node["role"] in CONTROLS]
    assert controls and [node for node in controls if not node["name"]] == []
    pictures = [node for node in tree if node["role"] in ("image", "img", "application")]
    assert [node for node in pictures if not node["name"]] == []
    levels = [node["level"] for node in tree if node["role"] == "heading"]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert [node["role"] for node in tree].count("main") == 1
    shown = """[...document.querySelectorAll("table")].filter((table) => table.checkVisibility())"""
    assert [node["role"] for node in tree].count("table") == browser.run(f"{shown}.length")


def wait_for(browser: Browser, expression: str) -> Any:
    """The value of an expression, as soon as there is one."""
    script = f"""new Promise((done) => {{
      const look = () => ({expression}) ? done({expression}) : setTimeout(look, 20); look(); }})"""
    return browser.run(script)


def test_the_explorer_works_by_keyboard_and_screen_reader(site: Path, browser: Browser) -> None:
    browser.open((site / "explorer/index.html").as_uri())
    output = "document.getElementById('said').textContent"
    assert browser.run(output) == ""  # nothing is said before a control is used
    order = []
    for _ in range(34):
        browser.press("Tab", 9)
        order.append(browser.run("document.activeElement.id"))
    expected = "view method boundary aligned coords x y width height whole"
    expected += (
        " brush clear dot ramp random paint picture kind corner warp-method warp-boundary plain"
    )
    assert [node for node in order if node] == expected.split()
    browser.run("document.getElementById('view').focus()")
    for _ in range(3):
        browser.press("ArrowRight", 39)
    assert browser.run(output) == ""  # not at every step
    assert "Value " in wait_for(browser, output)
    browser.run("document.getElementById('paint').focus()")
    browser.press("7", 55)
    assert wait_for(browser, f"{output}.startsWith('Pixel') && {output}") == "Pixel x 0, y 0: 7"
    live = [node["name"] for node in browser.tree() if node.get("live") == "polite"]
    assert len(live) == 1


def test_the_explorer_keeps_its_state_in_the_address(site: Path, browser: Browser) -> None:
    page = (site / "explorer/index.html").as_uri()
    state = "#method=cubic&boundary=missing&coords=pixel&x=-0.25&y=1.5&image=1.2.3_4.5.6"
    browser.open("about:blank")
    browser.open(page + state)
    values = "['method', 'boundary', 'coords', 'x', 'y', 'width'].map((id) => $(id).value)"
    assert browser.run(values) == ["cubic", "missing", "pixel", "-0.25", "1.5", "3"]
    browser.run("document.getElementById('view').focus()")
    browser.press("ArrowRight", 39)
    assert "x=-0.23&y=1.5" in browser.run("location.hash")
    code = browser.run("$('python').textContent")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    shown = browser.run("document.querySelector('[data-name=value]').value")
    assert float(printed.getvalue().strip(" []\n")) == pytest.approx(float(shown), abs=1e-6)


def test_a_rejected_number_is_kept_with_an_explanation(site: Path, browser: Browser) -> None:
    browser.open((site / "explorer/index.html").as_uri())
    browser.run("""(() => { $("width").value = "13";
      $("width").dispatchEvent(new Event("change", { bubbles: true })); })()""")
    assert browser.run("$('width').value") == "13"
    assert browser.run("$('refused').textContent") == "Width must be from 1 to 12: 6 is used."
    assert browser.run("image[0].length") == 6


def test_the_front_page_loads_the_explorer_when_it_comes_near(site: Path, browser: Browser) -> None:
    browser.open((site / "index.html").as_uri())
    frame = "document.querySelector('iframe.explorer')"
    assert browser.run(f"{frame}.src") == ""
    browser.run(f"{frame}.scrollIntoView()")
    assert "explorer/index.html#embedded" in wait_for(browser, f"{frame}.src")


def test_the_explorer_follows_the_colour_scheme(site: Path, browser: Browser) -> None:
    browser.open((site / "explorer/index.html").as_uri())
    scheme = "document.documentElement.dataset.scheme"
    browser.run("postMessage('dark', '*')")
    assert wait_for(browser, scheme) == "dark"


def test_copied_code_has_no_prompts(site: Path, browser: Browser) -> None:
    browser.open((site / "reference/gridsample.grid_sample.html").as_uri())
    copied = browser.run("""(() => {
      const code = [...document.querySelectorAll("pre code")]
        .find((one) => one.querySelector(".gp"));
      code.setAttribute("data-md-copying", "");
      return code.innerText; })()""")
    assert "import" in copied and ">>>" not in copied and "\narray(" not in copied
