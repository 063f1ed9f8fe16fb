"""The report in a real browser: widths, sections that open and close, light and dark, no error in the console."""

import shutil

import pytest

from tests.samples import CHIPS, GATED, PAGE, sample
from tilesim.render.report.report import report

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed"),
]
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage"
)
OTHERS = {
    "refused": (GATED[0], GATED[1] | {"H": 5120, "R": 656}, CHIPS[:2]),
    "unsupported": ("masked_causal_conv1d_backward", {"S": 8192, "B": 2, "H": 4096, "W": 3}, CHIPS[:2]),
}
CASES = ("three chips", *OTHERS)
WIDTHS = {"phone": 375, "screen": 1280}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("reports")
    pages = {"three chips": sample(PAGE, place)}
    for name, (op, given, chips) in OTHERS.items():
        pages[name] = report(op, given, chips=chips).write(place / f"{name}.html")
    return pages


@pytest.fixture
def show(browser, files):
    def opened(name, width, scheme="light"):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"media": "", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get(files[name].as_uri())
        return browser

    return opened


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("open_all", [False, True], ids=["closed", "open"])
def test_the_page_never_scrolls_sideways(show, name, width, open_all):
    page = show(name, WIDTHS[width])
    if open_all:
        page.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert page.execute_script("return document.documentElement.scrollWidth") <= WIDTHS[width]
    wide = page.execute_script("""
        const inside = e => { for (let p = e; p; p = p.parentElement)
            if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return true; return false };
        return [...document.querySelectorAll('main *')]
            .filter(e => !(e instanceof SVGElement && e.ownerSVGElement) && !inside(e))
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))""")
    assert wide == []


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_loaded_and_nothing_fails(show, name):
    page = show(name, 1280)
    page.get_log("performance")
    page.refresh()
    page.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")
    page.execute_script("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    asked = [
        entry["message"] for entry in page.get_log("performance") if 'Network.requestWillBeSent"' in entry["message"]
    ]
    assert all('"url":"file:' in message or '"url":"data:' in message for message in asked)
    assert page.get_log("browser") == []


def test_sections_are_there_and_links_lead_to_them(show):
    page = show("three chips", 1280)
    assert page.execute_script("return document.querySelectorAll('article').length") == len(CHIPS)
    lost = page.execute_script(
        "return [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))"
        ".filter(id => !document.getElementById(id))"
    )
    assert lost == []
    headings = page.execute_script("return [...document.querySelectorAll('#chip-1 h3')].map(h => h.textContent)")
    assert len(headings) == 11
    page.execute_script("document.querySelector('#chip-2 nav a[href$=time]').click()")
    assert page.execute_script("return document.getElementById('chip-2-time').getBoundingClientRect().top") < 60


def test_details_open_and_close(show):
    page = show("three chips", 375)
    state = """
        const part = document.querySelector('#chip-1-program');
        return [part.querySelector('details').open, part.querySelector('pre').checkVisibility()]"""
    for want in (False, True, False):
        assert page.execute_script(state) == [want, want]
        page.execute_script("document.querySelector('#chip-1-program summary').click()")


COLOURS = """
const read = (css, of) => getComputedStyle(document.querySelector(css))[of];
return [read('body', 'backgroundColor'), read('body', 'color'), read('.verdict', 'backgroundColor'),
        read('.map rect', 'stroke')]"""


def test_dark_is_not_light_in_any_colour(show):
    light = show("three chips", 1280, "light").execute_script(COLOURS)
    dark = show("three chips", 1280, "dark").execute_script(COLOURS)
    assert all(a != b for a, b in zip(light, dark, strict=True))


CONTRAST = """
const channel = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = text => text.match(/[\\d.]+/g).map(Number);
const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] === 1) return c } return [255, 255, 255] };
let worst = [99, ''];
for (const e of document.querySelectorAll('main *')) {
    if (e instanceof SVGElement || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 100)];
}
return worst"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", CASES)
def test_text_stands_out_from_what_is_behind_it(show, name, scheme):
    ratio, where = show(name, 1280, scheme).execute_script(CONTRAST)
    assert ratio >= 4.5, where


@pytest.mark.parametrize("width", WIDTHS)
def test_text_is_large_enough_to_read(show, width):
    page = show("three chips", WIDTHS[width])
    smallest = page.execute_script("""
        const seen = [...document.querySelectorAll('main *')].filter(e => e.textContent.trim() && !e.closest('title'));
        const size = e => { const s = parseFloat(getComputedStyle(e).fontSize), g = e.ownerSVGElement;
            const box = g && g.viewBox.baseVal; return box && box.width && g.clientWidth
                ? s * g.clientWidth / box.width : s };
        return Math.min(...seen.filter(e => !(e instanceof SVGElement) || e.tagName === 'text').map(size))""")
    assert smallest >= 8.5


def test_paper_is_white_even_if_the_screen_is_dark(show):
    page = show("refused", 1280, "dark")
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    assert page.execute_script(COLOURS)[0] == "rgb(255, 255, 255)"
    ratio, where = page.execute_script(CONTRAST)
    assert ratio >= 4.5, where
