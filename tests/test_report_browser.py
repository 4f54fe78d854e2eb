"""A report in a real browser: nothing is asked for elsewhere, nothing complains, the keyboard reaches everything."""

import base64

import pytest
from browser import ENTER, TAB, Browser
from report_runs import hostile_run, small_run

from dse.report import make_report

FOCUSED = """
const at = document.activeElement;
return [at.tagName, at.id, at.textContent.trim().slice(0, 40), at.getAttribute("href") || "",
        getComputedStyle(at).outlineStyle];
"""
CONTRAST = """
const seen = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
  const at = part / 255;
  return at <= 0.04045 ? at / 12.92 : ((at + 0.055) / 1.055) ** 2.4;
});
const light = (colour) => { const [r, g, b] = seen(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = (at) => {
  for (; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
  }
  return "rgb(255, 255, 255)";
};
const found = {};
for (const at of document.querySelectorAll("h1, h2, h3, p, dt, dd, a, summary, th, td, caption, figcaption, .note")) {
  const [a, b] = [light(getComputedStyle(at).color), light(behind(at))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  found[at.tagName] = Math.min(found[at.tagName] ?? 99, ratio);
}
return found;
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """An ordinary report and a hostile one."""
    home = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_PATH", "")
        small_run(home / "plain", objectives=("latency_s", "smem_bytes", "energy_j"))
        hostile_run(home / "content", home / "hostile")
        return {name: make_report(home / name, home / f"{name}.html").page for name in ("plain", "hostile")}


@pytest.fixture
def browser(tmp_path):
    opened = Browser(tmp_path / "profile")
    yield opened
    opened.close()


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_no_request_and_no_message(pages, browser, name):
    browser.open(pages[name])
    assert browser.requests() == [pages[name].as_uri()]
    assert browser.console() == []
    browser.run("for (const at of document.querySelectorAll('details')) at.open = true")
    browser.run("document.querySelectorAll('th button').forEach((at) => at.click())")
    assert browser.requests() == []
    assert browser.console() == []
    assert browser.run("return document.scripts.length") == 1
    assert browser.run("return document.querySelectorAll('img, iframe, object').length") == 0


def test_the_policy_stops_what_would_be_loaded_or_run(pages, browser):
    browser.open(pages["plain"])
    browser.console()
    browser.run(
        "const img = new Image(); img.src = 'http://127.0.0.1:9/x.png'; document.body.append(img);"
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
    )
    browser.run("return new Promise((done) => setTimeout(done, 200))")
    assert browser.run("return window.ran === undefined")
    assert len([text for text in browser.console() if "Content Security Policy" in text]) == 2


def test_every_figure_has_a_text_alternative(pages, browser):
    browser.open(pages["plain"])
    named = browser.run(
        "const text = (id) => document.getElementById(id).textContent;"
        "return [...document.querySelectorAll('figure svg')].map((svg) => "
        "[svg.getAttribute('role'), svg.getAttribute('aria-labelledby').split(' ').map(text).join(' ')])"
    )
    assert len(named) == 10
    assert all(role == "img" and len(text) > 60 for role, text in named)
    boxes = "return [...document.querySelectorAll('figure svg')].map((at) => at.getBoundingClientRect().height)"
    assert all(height > 60 for height in browser.run(boxes))


def test_the_keyboard_reaches_everything(pages, browser):
    browser.open(pages["plain"])
    browser.press(TAB)
    tag, _, text, _, outline = browser.run(FOCUSED)
    assert (tag, text) == ("A", "Skip to the report")
    assert outline != "none"
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0
    browser.press(ENTER)
    assert browser.run(FOCUSED)[:2] == ["MAIN", "content"]

    wanted = browser.run(
        "return [...document.querySelectorAll('main a, main summary, main button, main [tabindex=\"0\"]')]"
        ".filter((at) => at.checkVisibility()).length"
    )
    assert wanted > 20
    seen = []
    for _ in range(wanted):
        browser.press(TAB)
        tag, _, text, _, outline = browser.run(FOCUSED)
        assert outline != "none", text
        seen.append((tag, text))
    assert {"BUTTON", "SUMMARY"} <= {tag for tag, _ in seen} <= {"BUTTON", "SUMMARY", "DIV"}  # DIV: what scrolls
    assert ("SUMMARY", "The axes and their values") in seen
    assert any(text.startswith("Data of the figure: How latencies") for _, text in seen)


def test_a_table_is_sorted_by_the_keyboard(pages, browser):
    browser.open(pages["plain"])
    browser.run("document.querySelector('#top th:nth-child(2) button').focus()")
    column = "return [...document.querySelectorAll('#top > .scroll tbody tr')].map((at) => +at.cells[1].dataset.key)"
    for order, reverse in (("ascending", False), ("descending", True)):
        browser.press(ENTER)
        assert browser.run("return document.querySelector('#top th[aria-sort]').getAttribute('aria-sort')") == order
        values = browser.run(column)
        assert len(values) >= 10
        assert values == sorted(values, reverse=reverse)
    browser.run("document.querySelector('#top th:nth-child(5) button').click()")
    assert browser.run("return document.querySelectorAll('#top th[aria-sort]').length") == 1


def test_a_narrow_screen_scrolls_inside_of_tables_only(pages, browser):
    for name in ("plain", "hostile"):
        browser.open(pages[name])
        browser.resize(500)
        browser.run("for (const at of document.querySelectorAll('details')) at.open = true")
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.run("return document.querySelector('#top .scroll').scrollWidth > 500")
        assert browser.run("return document.querySelector('#top .scroll').tabIndex") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(pages, tmp_path, scheme):
    import browser as driver

    flag = f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"
    driver.FLAGS.append(flag)
    try:
        opened = Browser(tmp_path / "profile")
    finally:
        driver.FLAGS.remove(flag)
    try:
        opened.open(pages["plain"])
        assert opened.run(f"return matchMedia('(prefers-color-scheme: {scheme})').matches")
        found = opened.run(CONTRAST)
        assert len(found) >= 12
        assert min(found.values()) >= 4.5, found
    finally:
        opened.close()


def test_without_scripts_all_is_there(pages, tmp_path):
    opened = Browser(tmp_path / "profile", javascript=False)
    try:
        opened.open(pages["plain"])
        assert opened.run("return document.querySelectorAll('th button').length") == 0
        assert opened.run("return document.querySelectorAll('#top > .scroll tbody tr').length") >= 10
    finally:
        opened.close()


def test_it_prints(pages, browser):
    browser.open(pages["plain"])
    before = browser.run("return document.querySelectorAll('details[open]').length")
    printed = base64.b64decode(browser.pdf())
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 6
    assert browser.run("return document.querySelectorAll('details[open]').length") == before
