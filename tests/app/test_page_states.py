"""What the live page shows in a real Chromium, state by state, without Kafka: its server is given the records."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from riparian.app import retries
from riparian.app.page.view import StreamView, now_ms
from riparian.topics import reports
from riparian.topics.records import Distance, MetricsRecord, SegmentFigures
from tests.app.page_records import SHIFT, compared, drift, letter, model, part, view_of
from tests.app.page_server import Fed, Serving, browser, chromium, served, serving_of, site
from tests.app.page_worlds import WORLDS, shown
from tests.browser import Look

__all__ = ["browser", "chromium", "served", "site"]  # fixtures


def parts(now: int, **fields: Any) -> list[bytes]:
    """A record of each partition."""
    return [part(partition, now, started=now - 100_000, **fields) for partition in (0, 1)]


def champions(now: int, **fields: Any) -> list[bytes]:
    return [model(partition=partition, time=now, accuracy=0.86, **fields) for partition in (0, 1)]


def test_each_state_is_shown_and_ends(browser: Any, served: tuple[Fed, Serving]) -> None:
    watch, serving = served
    looks, read = list[Look](), set[int]()

    def said(text: str, where: str = "#verdict", title: str = "") -> None:
        """Both pages say it; that everyone can read them is asked at each change, of one after the other."""
        for look in looks:
            look.until_said(text, where)
            assert look.page.title().startswith(title), look.page.title()
            look.until_it_fits()
        if watch.version not in read:
            read.add(watch.version)
            looks.reverse()
            assert not looks[0].accessible(), (text, looks[0].accessible())

    with serving() as url:
        for width, scheme in ((1280, "light"), (390, "dark")):
            look = Look(browser, url, viewport={"width": width, "height": 900}, color_scheme=scheme)
            looks.append(look)
            look.open("taps", "overview")
        wide = looks[0]
        watch.progress = 0.43
        watch.version += 1
        said("Loading: 43 %", "#pill")
        watch.progress = None
        watch.version += 1
        said("Waiting for a worker", "#pill")
        said("Nothing is in taps.metrics yet")

        now = now_ms()
        nothing = {"learned": 0, "labels": 0, "waiting": 900}
        watch.tell(*parts(now - 2000, **nothing | {"offset": 800, "instances": 800}), *parts(now - 1000, **nothing))
        said("1,800 predictions are out, and labels are awaited.")

        before = {"offset": 950, "instances": 950, "learned": 950}
        watch.tell(*parts(now - 500, **before), *champions(now - 500, estimated={"accuracy": 0.7, "error": 0.02}))
        said("All is well: 86.0 % of the predictions are right.", title="taps")
        said("Live", "#pill")
        said("70.0 %before labels come", "main")

        watch.tell(model("second", 0, now - 400, accuracy=0.9, comparison=compared(9000)))
        said("second makes 5.0 fewer errors in 100 than the champion in partition 0.", title="taps")
        watch.tell(model("second", 0, now - 300, accuracy=0.9, comparison=compared(9000, 0.0, -0.02, 0.02)))
        said("All is well")

        now = now_ms()  # half a minute later nobody would work
        watch.tell(*parts(now, **before | {"lag": {"features": 4000}}))
        said("Partitions 0 and 1 are behind by 8,000 records", title="behind")

        watch.views[0].take_drift(drift(), now_ms())
        now = now_ms()  # half a minute later nobody would work
        watch.tell(*parts(now + 10, **before | {"alarms": ["champion"]}))
        said("Errors of the champion rose", title="▲ drift")
        watch.away_since = now
        watch.version += 1
        said("does not answer since", "#pill", title="▲ Kafka")
        said("these figures are old")
        said("Lag–since ", "main")
        assert wide.page.evaluate("document.body.className") == "stale"
        watch.away_since = None
        watch.version += 1
        said("Live", "#pill", title="▲ drift")

        # Ticks tell values apart, however near they are.
        ticks = """async (values) => {
            const { ticked } = await import("/static/format.js");
            return values.map(([step, ...ticks]) => ticks.map((each) => ticked(each, step)));
        }"""
        steps = [[0.1, 99.8, 99.9, 100], [25, 0, 25], [2.5e-3, 0.0025, 0.005], [1, 1000, 1001], [0.1, 1000.1, 1000.2]]
        assert wide.page.evaluate(ticks, steps) == [
            ["99.8", "99.9", "100.0"], ["0", "25"], ["0.0025", "0.0050"], ["1,000", "1,001"], ["1,000.1", "1,000.2"]
        ]  # fmt: skip

        rounds = """async (ranges) => {
            const { nice } = await import("/static/format.js");
            return ranges.map(([low, high]) => nice(low, high, 4).slice(0, 9));
        }"""
        far = 1e16  # where a step of one leads nowhere
        assert wide.page.evaluate(rounds, [[far, far], [0, 1], [-1, 1], [3, 3]]) == [
            [far], [0, 0.25, 0.5, 0.75, 1], [-1, -0.5, 0, 0.5, 1], [3]
        ]  # fmt: skip

        # By the keyboard alone: from the top to the drift page, and its table.
        page = wide.page
        page.reload()
        page.wait_for_selector(".marks button")
        page.locator("body").press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset?.tab") == "drift":
                break
        page.keyboard.press("Enter")
        wide.until_said("errors of champion")
        page.wait_for_function("() => document.activeElement.id === 'main'")
        page.get_by_role("table", name="Events of drift").wait_for()
        assert page.locator("svg.strip").count() == 1
        moved = {"model": None, "signal": "a", "detector": "two-sample", "before": 0.5, "after": 0.09}
        watch.views[0].take_drift(drift(**moved, shift=SHIFT), now_ms())
        watch.tell(*parts(now + 20, **before | {"distances": [Distance("a", 0.31, 0.8, 0.01, outside=0.02)]}))
        page.reload()
        wide.until_said("a: values up to 0.5 went from 50.0 % to 9.0 %.")
        wide.until_said("Distance from the reference")
        assert page.locator(".figures svg rect").count() > 4
        assert not wide.accessible(), wide.accessible()
        page.go_back()
        page.wait_for_selector("section.ops")

        # Workers that say nothing any more, and labels that stop.
        watch.views[0].partitions.clear()
        watch.tell(*parts(now - 60_000))
        said("Nobody works on partitions 0 and 1.", title="▲ no worker")
        said("No worker since", "#pill")
        said("Throughput–since ", "main")
        watch.views[0].partitions.clear()
        watch.views[0].events.clear()
        soon = now_ms()
        watch.tell(*parts(soon - 300_000), *parts(soon, **{"offset": 9000, "instances": 9000, "waiting": 8100}))
        said("Labels come no more.", title="no labels")
        said("70.0 % of the predictions are expected to be right")
        for look in looks:
            assert not look.wrong, look.wrong

    for look in looks:
        look.until_said("No contact since", "#pill")
    with serving(int(url.rpartition(":")[2])):  # without a reload
        for look in looks:
            look.until_said("Live", "#pill")
            assert look.page.title().startswith("no labels")


@pytest.fixture(scope="module")
def gallery(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fed, Look]]:
    """A page over streams of all states, none of which has told anything, and who looks at it: a page that is open
    shows the next stream for a third of what a new one takes."""
    with shown(tmp_path_factory.mktemp("states"), [*WORLDS], told=False) as (url, watch):
        look = Look(chromium, url)
        yield watch, look
        look.context.close()


@pytest.mark.parametrize("state", WORLDS)
def test_a_stream_in_each_state_has_its_sentence_and_first_figure(gallery: tuple[Fed, Look], state: str) -> None:
    """Wide and as on a phone, light and dark: nothing goes wrong, nothing is cut, and everyone can read it. With
    PAGE_PICTURES=FOLDER a picture of each is written."""
    world, (watch, look) = WORLDS[state], gallery
    now = now_ms()
    look.wrong.clear()  # of the state before
    world.tell(next(view for view in watch.views if view.spec.name == state), now)
    watch.away_since = now if world.away else None
    watch.version += 1
    page = look.open(state, "overview")
    for _ in look.everywhere():
        look.until_said(world.said, "#verdict h1")
        if world.first:
            look.until_said(world.first, "p.big")
            assert page.locator("p.big").inner_text().startswith(world.first)
            look.until_drawn()
        else:
            assert page.locator("main .card:visible").count() == 0
        look.picture(state)
    if state == "recovering":  # drifts of others leave room for the champion's
        drifts = page.locator("main .timeline .sign").all_inner_texts()
        assert (drifts.count("◇"), drifts.count("◆")) == (3, 1)
    if state == "worker-gone":
        look.until_said("1 of 2 partitions, 1 worker", ".ops")
        assert "keep up" not in page.locator(".ops").inner_text()
    if state == "anomaly":  # what only labels would tell has no chart
        look.until_said("this stream has no labels", "main")
        assert page.locator(".chart .name").all_inner_texts() == ["Throughput", "Lag", "Latency"]
    assert not look.wrong, look.wrong


def test_what_makes_a_page_ready_is_little_and_neither_update_nor_theme_makes_a_chart_anew(
    browser: Any, tmp_path: Path
) -> None:
    """What its times follow from (`benchmarks/page.py` has these): each part is asked for once, all of them are small,
    and what an update or another theme draws is drawn where it stood."""
    with shown(tmp_path, ["fine"]) as (url, watch):
        look = Look(browser, url, viewport={"width": 1400, "height": 900})
        asked = list[str]()
        look.page.on("request", lambda request: asked.append(request.url.partition("?")[0]))
        page = look.open("fine", "overview")
        look.until_drawn()
        parts = [each for each in asked if each.endswith((".js", ".css"))]
        assert len(parts) == len(set(parts)) <= 30, parts
        sent = page.evaluate(
            "performance.getEntriesByType('resource').filter((e) => e.name.includes('/static/'))"
            ".reduce((sum, e) => sum + e.encodedBodySize, 0)"
        )
        assert 0 < sent < 80_000
        page.evaluate("document.querySelectorAll('canvas, main > .card').forEach((each) => { each.stood = true; })")
        view, now = watch.views[0], now_ms()
        last = view.models["champion", 0]
        classes = {**last.classes, "fraud": {**last.classes["fraud"], "recall": 0.125}}
        watch.tell(reports.write(msgspec.structs.replace(last, time=now, classes=classes)))
        page.wait_for_function("() => document.querySelector('p.big').textContent.startsWith('12.5')")
        stood = "[...document.querySelectorAll('canvas, main > .card')].every((each) => each.stood)"
        assert page.evaluate(stood)
        drawn = "document.querySelector('canvas').toDataURL()"
        light = page.evaluate(drawn)
        page.locator("#theme").click()
        look.until(f"(light) => {drawn} !== light", light)
        assert page.evaluate(stood)


AXES = """async () => {
    const { Chart, Shared } = await import("/static/chart.js"), shared = new Shared();
    const line = { name: "mae", label: "mae", colour: "--slate" };
    const chart = new Chart(shared, { title: "MAE", unit: "", lines: [line], format: String, wide: true });
    return [[1, 50], [1, 500], [0, 500]].map((mean) => {
        shared.history = { from: 0, to: 2, start: 0, width: 1, series: new Map([["mae", { mean }]]) };
        chart.bounds();
        return chart.log;
    });
}"""


def test_a_chart_is_saved_no_sooner_than_it_is_drawn(browser: Any, tmp_path: Path) -> None:
    with shown(tmp_path, ["fine"]) as (url, _):
        look = Look(browser, url)
        with look.late(r"/history\?"):
            page = look.open("fine", "overview")
            buttons = [page.get_by_role("button", name=name) for name in ("CSV", "PNG")]
            for button in buttons:
                button.evaluate("(button) => button.click()")
                assert button.is_disabled()
        for button in buttons:
            with page.expect_download():
                button.click()
        assert not look.wrong, look.wrong


def test_marks_follow_the_width_a_line_is_switched_off_and_a_drag_zooms(browser: Any, tmp_path: Path) -> None:
    with shown(tmp_path, ["recovering", "worker-gone"]) as (url, _):
        look = Look(browser, url, viewport={"width": 1400, "height": 900})
        page = look.open("recovering", "overview")
        look.until_drawn()
        page.locator(".marks button").last.wait_for()
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            look.until_it_fits()
        line = page.locator(".legend button", has_text="tree").first
        line.click()
        assert line.get_attribute("aria-pressed") == "false"
        page.wait_for_function(
            "() => [...document.querySelectorAll('.legend button')].some((e) => e.textContent === 'treeoff')"
        )
        # An error that spans decades has an axis of logarithms, unless it was 0 once.
        assert page.evaluate(AXES) == [False, True, False]
        box = page.locator("canvas").first.bounding_box()
        page.mouse.move(box["x"] + 300, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 500, box["y"] + 100, steps=4)
        page.mouse.up()
        page.wait_for_function("() => new URLSearchParams(location.search).has('from')")
        page.get_by_role("button", name="1 h", exact=True).click()
        page.wait_for_function("() => !new URLSearchParams(location.search).has('from')")
        # Of several streams a card each, what is worst first.
        page.goto(url)
        page.wait_for_selector("a.stream")
        assert page.locator("a.stream h2").all_inner_texts() == ["worker-gone", "recovering"]
        look.until_said("Recall at 1 % alerts", "a.stream")
        assert not look.accessible(), look.accessible()
        assert not look.wrong, look.wrong


def test_what_comes_when_one_has_gone_on_changes_nothing(browser: Any, tmp_path: Path) -> None:
    """Of two streams: what the first one's page asked for, and what the second one's page would begin with."""
    second = re.compile(r"/worker-gone\?")
    with shown(tmp_path, ["recovering", "worker-gone"]) as (url, _):
        look = Look(browser, url)
        with look.late(r"/deadletters$|/worker-gone\?"):
            page = look.open("recovering", "deadletters")
            choice = page.get_by_role("combobox", name="Stream", exact=True)
            with page.expect_request(second):
                choice.select_option("worker-gone")
            with page.expect_request(second):  # nobody has told of it yet
                page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
            choice.select_option("")
            page.wait_for_selector("a.stream")
        with page.expect_response("**/api/streams"):  # the board asks again
            pass
        assert page.locator("a.stream").count() == 2
        assert not page.locator("#tabs *").count()
        assert choice.input_value() == ""
        assert not look.wrong, look.wrong


def test_all_streams_are_told_anew_under_the_focus(browser: Any, tmp_path: Path) -> None:
    """The list stays open, and a card keeps the focus, also where another one is worse now."""
    with shown(tmp_path, ["fine", "recovering", "worker-gone"]) as (url, watch):
        look = Look(browser, url)
        page = look.page
        page.goto(url)
        page.wait_for_selector("a.stream")
        page.evaluate("() => { document.querySelector('#streams select').known = true; }")
        first, last = (page.locator("a.stream").nth(i) for i in (0, 2))
        names = first.get_attribute("data-stream"), last.get_attribute("data-stream")
        last.focus()
        (worst,) = (view for view in watch.views if view.spec.name == names[0])
        worst.partitions.clear()
        worst.models.clear()
        watch.version += 1
        look.until("name => document.querySelector('a.stream').dataset.stream !== name", names[0])
        assert page.evaluate("document.activeElement.dataset.stream") == names[1]
        assert page.evaluate("document.querySelector('#streams select').known")
        assert not look.wrong, look.wrong


def test_charts_go_on_after_the_stream_of_events_was_refused(browser: Any, tmp_path: Path) -> None:
    with shown(tmp_path, ["fine"]) as (url, _):
        look, refused = Look(browser, url), list[Any]()
        look.page.route(re.compile(r"/live\?"), lambda route: refused.append(route), times=1)
        page = look.open("fine", "overview")
        look.until_drawn()
        with page.expect_request(re.compile(r"/history\?")):
            refused[0].fulfill(status=503)
        look.until_said("Live", "#pill")


def test_a_tree_is_there_with_its_buttons(browser: Any, tmp_path: Path) -> None:
    """Also where the browser draws no frame meanwhile."""
    node = {"parent": None, "children": [], "weight": 1.0, "value": {"ok": 1.0}, "if": "", "feature": None}
    found = {
        "summary": {"sequence": 1, "created": 0, "n_nodes": 1, "learner": "hoeffding-tree"},
        "trees": [{"nodes": [node]}], "members": {}, "classes": ["ok"], "importance": [], "outline": [],
    }  # fmt: skip
    with shown(tmp_path, ["plain"]) as (url, _):
        look = Look(browser, url)
        look.page.add_init_script("window.requestAnimationFrame = () => 0")
        look.page.route("**/models/champion", lambda route: route.fulfill(json=found))
        look.open("plain", "models").get_by_role("button", name="Open all").click()
        look.page.wait_for_selector(".tree svg")
        assert not look.wrong, look.wrong


def test_whom_a_pool_believes_is_drawn_over_time(browser: Any, tmp_path: Path) -> None:
    names = [*"abcdefghijklm"]  # one more than has room
    with shown(tmp_path, ["plain"]) as (url, watch):
        last, now = watch.views[0].models["nb", 0], now_ms()
        for i in reversed(range(60)):  # the newest says who is a member
            share = {name: round((k + 1) * (i if k % 2 else 60 - i) / 2000, 4) for k, name in enumerate(names)}
            watch.tell(reports.write(msgspec.structs.replace(last, time=now + 10_000 * (i - 59), members=share)))
        look = Look(browser, url)
        page = look.open("plain", "models&model=nb")
        chart = page.locator(".chart", has_text="Whom it believes, over time")
        for _ in look.everywhere():
            look.until_said("the first 12 of 13", "main")
            page.wait_for_function(
                "() => [...document.querySelectorAll('.entry')].some((each) => each.textContent === 'l35.4 %')"
            )
            drawn = chart.locator(".entry .key").evaluate_all("(all) => all.map((each) => each.outerHTML)")
            assert len(drawn) == 12
            chart.locator("button", has_text="l35.4 %").click()
            chart.locator("button", has_text="loff").click()
            chart.scroll_into_view_if_needed()
            look.picture("pool")
        page.get_by_label("Model", exact=True).select_option("champion")
        chart.wait_for(state="detached")  # it is no pool
        assert all("409" in one for one in look.wrong), look.wrong  # there is no Kafka to read a model from


def test_steering_offers_what_would_change_something(browser: Any, tmp_path: Path) -> None:
    with shown(tmp_path, ["proposed"], actions=True) as (url, watch):
        look = Look(browser, url, viewport={"width": 1280, "height": 900})
        page, view = look.open("proposed", "models"), watch.views[0]
        table = page.get_by_role("table", name="Commands to models")
        table.get_by_role("button", name="Freeze champion…").wait_for()

        def offered() -> set[str]:
            return {
                one.rstrip("…") for one in page.locator("section", has=table).get_by_role("button").all_inner_texts()
            }

        reset = {f"Reset {role}" for role in ("champion", "tree", "adaptive-random-forest")}
        unknown = {"Undo the promotion", "Resume predictions", "Thaw tree"}
        assert offered() > unknown  # its worker does not tell
        last = view.partitions[0].last
        told = msgspec.structs.replace(last, frozen=[], paused=False, time=last.time + 1)
        watch.tell(reports.write(told))
        table.get_by_role("button", name="Thaw tree…").wait_for(state="detached")
        assert not offered() & unknown
        assert offered() > reset | {"Pause predictions", "Freeze tree", "Promote tree"}
        last = view.partitions[0].last
        changed = {"frozen": ["tree"], "paused": True, "before": "tree", "time": last.time + 1}
        watch.tell(reports.write(msgspec.structs.replace(last, **changed)))
        table.get_by_role("button", name="Thaw tree…").wait_for()
        assert offered() >= {"Undo the promotion", "Resume predictions", "Thaw tree"}
        assert not offered() & {"Pause predictions", "Freeze tree"}
        table.get_by_role("button", name="Promote tree…").click()
        look.until_said("▼ worse for sure than the champion", "dialog")
        look.until_said("All partitions learn one model", "dialog")
        assert not look.accessible(), look.accessible()
        look.picture("promote")
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Overview").click()
        page.wait_for_selector("section.ops")

        def saved(name: str) -> Path:
            with page.expect_download() as came:
                page.get_by_role("button", name=name).click()
            return Path(came.value.path())

        lines = saved("CSV").read_text().splitlines()
        assert lines[0].startswith("time,objective:")
        assert len(lines) > 100
        head = saved("PNG").read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        drawn = page.evaluate("(({ width, height }) => [width, height])(document.querySelector('canvas'))")
        wide, high = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:], "big")
        assert wide == drawn[0]
        assert high > drawn[1]  # title and lines stand above
        page.go_back()
        table.get_by_role("button", name="Promote tree…").click()
        page.go_forward()
        page.locator("dialog").wait_for(state="detached")
        assert all("409" in one for one in look.wrong), look.wrong  # there is no Kafka to read a model from


def test_dead_letters_say_what_they_mean_by_field(site: tuple[Fed, Look]) -> None:
    watch, look = site
    now = now_ms()
    for i in range(120):
        detail = b"x.%s: expected a number, found a text" % [b"amount", b"age", b"<b>", b"d"][i % 4]
        about = {"riparian-reason": b"wrong-type", "riparian-detail": detail}
        watch.views[0].take_letter(letter(about, now + i, offset=i))
    watch.views[0].take_letter(letter({}, now, offset=120))
    page = look.open("taps", "deadletters")
    for _ in look.everywhere():
        look.until_said("has a field of another type than declared", "main")
        look.until_said("is not JSON; neither are NaN", "main")
        assert page.get_by_role("table", name="Reasons of the last day").locator("tbody tr").count() == 5
        rows = page.get_by_role("table", name="The last dead letters").locator("tbody tr")
        assert [row.split()[-1] for row in rows.locator("td:nth-child(2)").all_inner_texts()] == ["30"] * 4 + ["1"]
        look.picture("deadletters")


@pytest.mark.parametrize(
    ("address", "text"),
    [("nowhere", "There is no stream nowhere"), ("taps&partition=99", "partition: expected a whole number")],
)
def test_an_address_of_what_is_not_there_says_so(address: str, text: str, site: tuple[Fed, Look]) -> None:
    _, look = site
    look.open(address, "overview")
    look.until_said(text, "main")


def test_a_letter_is_shown_as_it_was_sent_and_a_row_retries_what_it_counts(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, url = now_ms(), "/api/streams/taps/deadletters"
    sent = [b'{"id": 12345678901234567890, "x": 1e999, "x": 1}', None]
    asked: list[Any] = []

    async def letter_at(spec: Any, connection: Any, home: int, at: int) -> Any:
        record = letter({}, now, offset=at)
        record.value = sent[at]
        return retries.letter_of(record)

    def retried(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(body='{"done": {"retried": {}, "left": {}, "rejected": {}}}\n')

    monkeypatch.setattr(retries, "letter_at", letter_at)
    view = StreamView(view_of().spec)
    for offset in range(len(sent)):
        detail = b"%d: expected a number, found a text; %s" % (offset, b"it is of a name that is long " * 8)
        view.take_letter(letter({"riparian-detail": detail}, now + offset, offset=offset))
    view.take_letter(letter({"riparian-reason": b"unreadable-batch"}, now + 8, offset=8))
    view.take_letter(letter({"riparian-reason": b"prediction-too-large"}, now + 9, offset=9))
    with serving_of(tmp_path, view, actions=True) as (_, serving), serving() as address:
        look = Look(browser, address)
        page = look.open("taps", "deadletters")
        page.route(f"**{url}/retry", retried)
        look.until("() => document.querySelectorAll('td button').length === 7")
        assert page.evaluate(
            "[...document.querySelectorAll('main .scroll')].map((one) => one.scrollWidth - one.clientWidth)"
        ) == [0, 0]
        for offset, value in enumerate(sent):
            page.get_by_role("button", name=f"Open the letter 0/{offset}").click()
            look.until_said((value or b"none").decode(), "dialog pre")
            page.keyboard.press("Escape")
        assert page.get_by_role("button", name="Retry").count() == 1 + len(sent)
        page.get_by_role("button", name="Retry not-json").click()
        page.get_by_label("Token").fill("token")
        page.get_by_role("button", name="Say what would happen").click()
        look.until_said("No letter would be written again.", "dialog")
        assert asked == [{"reason": "not-json", "field": "", "dry_run": True}]


def test_a_value_that_broke_is_named_and_its_card_says_what_it_adds(site: tuple[Fed, Look]) -> None:
    watch, look = site
    now = now_ms()
    whole: dict[str, Any] = {"n": 50.0, "n_before": 500.0, "loss_before": 25.0}
    segments = [
        SegmentFigures("country", loss=20.0, **whole, value="PT", since=now - 60_000, usual=0.05, rise=0.35),
        SegmentFigures("country", loss=2.5, **whole, value="<b>ES</b>"),
        SegmentFigures("country", loss=4.0, **whole, others=True),
    ]
    record = MetricsRecord(
        "taps", 0, now, "champion", "last-label", 5000, 5000, 5000, {}, {"accuracy": 0.8}, segments=segments
    )
    share = {"n": 10.0, "n_before": 10.0, "loss_before": 0.0}
    others = [SegmentFigures("country", loss=float(i), **share, value=f"v{i}") for i in range(11)]  # half is lost
    many = msgspec.structs.replace(record, time=now + 1, segments=others)
    watch.tell(*parts(now), reports.write(record))
    inks = set[str]()
    look.open("taps", "overview")
    for _ in look.everywhere():
        look.until_said("Accuracy fell for country PT, from 95 to 60 %.", "#verdict")
        look.until_said("What each value adds", "main")
        table = look.page.get_by_role("table", name="Quality by country")
        table.wait_for()
        assert {"−11.7", "<b>ES</b>"} <= set(table.inner_text().split())
        inks.add(table.locator("rect").first.evaluate("(bar) => getComputedStyle(bar).fill"))
    assert len(inks) == 2, inks  # of the light and the dark
    look.open("taps", "quality")
    for _ in look.everywhere():
        table.wait_for()
    look.open("taps", "overview")
    table.wait_for()
    # Those that have no room are a row together, so that the list sums to the change.
    watch.tell(reports.write(many))
    look.until_said("3 more", "main")
    points = table.locator("tbody tr td:nth-child(3)").all_inner_texts()
    assert len(points) == 9
    assert sum(float(each.replace("−", "-")) for each in points) == pytest.approx(-50.0, abs=0.5)
