"""*Alerts* and *Quality* in a real Chromium, without Kafka: the page's server is given predictions and labels."""

import time
from typing import Any

import numpy as np
import pytest

from riparian.app.page.outcomes import Outcomes
from riparian.app.page.view import StreamView
from riparian.app.stream_file.spec import loads
from tests.app.page_records import STREAM, model
from tests.app.page_server import Fed, browser, chromium, served, site
from tests.browser import Look
from tests.processes import until

__all__ = ["browser", "chromium", "served", "site"]  # fixtures

RATE = (
    "classes: [ok, fraud]\ndecision: {class: fraud, alert_rate: 0.01}\npredictions: {reasons: {top: 3, of: alerts}}\n"
)
HOSTILE = '<img src=x onerror="document.title=1">'


def become(watch: Fed, more: str, task: str = "classification") -> StreamView:
    """The page's stream with more in its stream file."""
    text = STREAM.format(task=task)
    view = watch.views[0]
    if task == "anomaly":
        text = text.replace("last-label", "half-space-trees")
    view.spec = loads(text + more)
    watch.tail.outcomes["taps"] = Outcomes(view.spec)
    return view


def payments(outcomes: Outcomes, now: int, n: int = 1500, threshold: float = 0.5) -> tuple[int, int]:
    """Made-up payments: their scores are what they say. Alerts, and frauds without one, among those with labels."""
    rng = np.random.default_rng(4)
    alerts = missed = 0
    for i in range(n):
        p = float(1 / (1 + np.exp(-rng.normal(-4.5, 2.2))))
        alert, fraud = p >= threshold, rng.random() < p
        made = {"id": f"p-{i:05}", "y": "fraud" if alert else "ok", "p": {"ok": 1 - p, "fraud": p}, "offset": i}
        if alert:
            alerts += 1
            made["reasons"] = {"amount_times": 0.55 * p, "terminal_risk": 0.4 * p, HOSTILE: -0.03 * p}
            made["features"] = {"amount_times": 8.314159265, "terminal_risk": None, "card_count": 5}
        outcomes.take(i % 2, i, 0, now - 1000 * (n - i), made)
        if i < n - 300:
            outcomes.label(i % 2, f"p-{i:05}", "fraud" if fraud else "ok", now - 1000 * (n - i) + 200_000)
            missed += fraud and not alert
    return alerts, missed


def test_alerts_and_quality(site: tuple[Fed, Look], monkeypatch: pytest.MonkeyPatch) -> None:
    watch, look = site
    now = int(time.time() * 1000)
    watch.progress = None

    async def read(spec: Any, connection: Any, partition: int, places: Any) -> list[Any]:
        return [
            {"x": {"amount": 100 * offset + 0.25, HOSTILE: "x"}, "keys": {"card": f"c-{offset}", "none": None}}
            for offset, _ in places
        ]

    monkeypatch.setattr("riparian.app.page.values.read", read)
    become(watch, "classes: [ok, fraud]\n")
    look.open("taps", "alerts")  # it says what to set
    for _ in look.everywhere():
        look.until_said("Write decision: {class: CLASS, alert_rate: 0.01}")
    view = become(watch, RATE)
    view.take_report(model(time=now, threshold=0.5, alert_rate=0.01))
    n, missed = payments(watch.tail.outcomes["taps"], now)
    page = look.open("taps", "alerts")
    for _ in look.everywhere():
        look.until_said(f"{n} alerts in the last 1,500 predictions")
        look.until_said("They begin at 50.00 %.")
        until(lambda: page.locator(".alert").count() == min(n, 100))
        look.until_said("amount_times 8.31416 +", ".alert")
        look.until_said("card_count 5", ".alert .values")
        look.until_said("c-", ".alert .values")
        offset = int(page.locator(".alert .id").first.text_content().partition("-")[2])
        look.until_said(f"amount {100 * offset:,}.25", ".alert .values")
        link = page.locator(".alert .values a").first
        assert link.text_content() == f"card c-{offset}"
        assert f"tab=keys&key=card&value=c-{offset}" in link.get_attribute("href")
        look.picture("alerts")
        times = page.locator(".alert .id").all_text_contents()
        assert times == sorted(times, reverse=True)
    page.get_by_role("button", name="Missed").click()
    for _ in look.everywhere():
        page.wait_for_selector('[aria-pressed="true"]:has-text("Missed")')
        page.wait_for_selector(".came.missed")
        until(lambda: page.locator(".came.missed").count() == min(missed, 100))
    # One alert has an address: its record is read from Kafka, which is not there.
    page.get_by_role("button", name="All").click()
    page.wait_for_selector(".came.right")
    page.locator(".alert .line").first.click()
    page.wait_for_url("**at=*")
    page.wait_for_selector(".alert.open")
    # News come without a reload, and leave what is open.
    focused = page.locator(".alert .line").nth(1)
    focused.focus()
    known = focused.locator(".id").text_content()
    outcomes = watch.tail.outcomes["taps"]
    outcomes.take(0, 9999, 0, now, {"id": "newest", "y": "fraud", "p": {"fraud": 0.9}, "offset": 9, "reasons": None})
    watch.version += 1
    until(lambda: page.locator(".alert .id").first.text_content() == "newest")
    assert page.locator(".alert.open").count() == 1
    assert page.evaluate("document.activeElement.querySelector('.id')?.textContent") == known
    # A feature may be called as a row of the picture, or as a number.
    drawn = """async ([reasons, values]) => {
        const { largest, small, steps, waterfall } = await import("/static/waterfall.js");
        const text = (element, what) => [...element.querySelectorAll(what)].map((each) => each.textContent);
        const two = document.createElement("div");
        two.append(...small(0.9, reasons, null, true));
        return [text(waterfall(steps(0.9, largest(reasons)), { values }), ".what"), text(two, ".two > span")];
    }"""
    values = {"score": "7", "all else": "8", "2": "9"}
    rows, two = page.evaluate(drawn, [{"10": 0.1, "2": -0.3, "score": 0.2}, values])
    assert rows == ["all else", "2 9", "score 7", "10", "score"]
    assert two == ["2 −30.0", "score +20.0"]

    page = look.open("taps", "quality")
    shown = "Confusion matrix", "Average precision", "By threshold", "Scores", "Calibration", "no alert at all"
    for _ in look.everywhere():
        for words in shown:
            look.until_said(words)
        page.get_by_role("img", name="Average precision over time").wait_for()
        until(lambda: page.locator("svg.plot").count() == 6)
        look.picture("quality")
    view = become(watch, RATE + "join: {unlabelled: {is: ok, after: 2h}}\n")
    payments(watch.tail.outcomes["taps"], now)
    page = look.open("taps", "quality")
    look.until_said("None has waited 2 h yet")
    page.get_by_role("button", name="All that came").click()
    for _ in look.everywhere():
        look.until_said("Labels of one class come first")
        look.until_said("Confusion matrix")
    become(watch, "classes: [ok, fraud]\ndecision: {costs: {fraud: {ok: 20}}}\n")
    payments(watch.tail.outcomes["taps"], now, threshold=1 / 21)
    look.open("taps", "quality")
    for _ in look.everywhere():
        look.until_said("A missed one costs 20, a false alarm 1")
        look.picture("costs")
    assert not [line for line in look.wrong if "409" not in line], look.wrong
    assert page.title() != "1"


def test_a_refusal_is_told_until_it_is_over(site: tuple[Fed, Look]) -> None:
    watch, look = site
    page = look.open("taps", "quality")
    look.until_said("No predictions yet.")
    page.clock.install()
    page.route("**/quality?*", lambda route: route.fulfill(status=503, body="too busy"), times=1)
    for said in ("too busy", "No predictions yet."):
        page.clock.fast_forward(11_000)
        watch.tell()
        look.until_said(said, "main")


@pytest.mark.parametrize("task", ["anomaly", "regression", "classification"])
def test_quality_of_other_tasks(site: tuple[Fed, Look], task: str) -> None:
    watch, look = site
    now = int(time.time() * 1000)
    watch.progress = None
    become(watch, "decision: {alert_rate: 0.01}\n" if task == "anomaly" else "", task)
    outcomes, rng = watch.tail.outcomes["taps"], np.random.default_rng(2)
    outcomes.take(0, 0, 0, now, {"id": "none", "offset": 0, "y": None, "p": None})
    for i in range(500):
        value, kind = float(rng.random()), f"c{rng.integers(4)}"
        made: dict[str, Any] = {"id": str(i), "offset": i, "y": value}
        if task == "anomaly":
            made["alert"] = value > 0.9
        elif task == "classification":
            made |= {"y": kind, "p": {kind: 0.5 + value / 2}}
        outcomes.take(0, i, 0, now + i, made)
        came: Any = {"anomaly": float(value > 0.8), "regression": value + rng.normal(), "classification": f"c{i % 4}"}
        outcomes.label(0, str(i), came[task], now + i)
    page = look.open("taps", "quality")
    look.until_said("500 of the last 500 predictions have a label")
    look.until_said("Empty, and left out: 1.")
    expected = {"anomaly": "Average precision", "regression": "predicted minus label", "classification": "said c1"}
    look.until_said(expected[task])
    look.until_said("Errors" if task == "regression" else "Scores" if task == "anomaly" else "Calibration")
    assert not look.accessible(), look.accessible()
    look.picture(f"quality-{task}")
    look.open("taps", "alerts")
    if task != "anomaly":
        look.until_said("A value is no alert" if task == "regression" else "No prediction is an alert")
    else:
        look.until_said("alerts in the last 501 predictions")
        assert page.locator(".alert").count() == outcomes.alerts(None, None, 100)["counts"]["alerts"]
    look.open("taps", "predictions")  # the last ones lead to themselves
    look.until_said("499", "main")
    assert page.locator("main tbody a").all_inner_texts() == [str(499 - i) for i in range(12)]
    for _ in look.everywhere():
        look.picture(f"newest-{task}")
    assert not look.wrong, look.wrong
