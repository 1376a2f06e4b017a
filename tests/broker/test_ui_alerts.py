"""*Alerts*, *Quality*, *Why* and a key's card of the live page in a real browser, of a stream on Kafka."""

import json
import re
import time

import pytest

from tests.broker.clients import Sent
from tests.broker.harness import Stream
from tests.broker.test_ui import HOSTILE, Ui
from tests.browser import Look, browser, chromium
from tests.processes import until

__all__ = ["browser", "chromium"]  # fixtures

NOW = int(time.time() * 1000) - 600_000
pytestmark = pytest.mark.broker


def payments(n, start=0):
    """Payments of twelve cards: those above 80 are frauds. Their labels."""
    features, labels = [], []
    for i in range(start, start + n):
        amount = 100.0 if i % 17 == 0 else 10.0 + i % 60 + 0.123456789012
        x = {"amount": amount, "place": HOSTILE if i % 17 == 0 else "shop", "card": f"c-{i % 12}"}
        features.append(Sent(json.dumps({"id": f"p-{i:05}", "x": x}).encode(), NOW + 100 * i))
        y = "fraud" if amount > 80 else "ok"
        labels.append(Sent(json.dumps({"id": f"p-{i:05}", "y": y}).encode(), NOW + 100 * i + 50))
    return features, labels


def fine(look, name):
    """Nothing hangs over, everyone can read it."""
    assert look.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    assert not look.accessible(), look.accessible()
    look.picture(name)


def test_alerts_of_a_stream(browser, broker, tmp_path, topic_name):
    s = Stream(
        broker, tmp_path, topic_name, partitions=1,
        features={
            "amount": "numeric", "place": {"type": "nominal", "max_values": 9},
            "spent": {"mean": "amount", "by": "card", "half_life": "1h"},
        },
        keys={"card": {"max": 1000}}, classes=["ok", "fraud"], decision={"class": "fraud", "alert_rate": 0.06},
        predictions={"reasons": 3, "features": True}, challengers={},
        champion={"model": "hoeffding-tree", "grace_period": 50},
    )  # fmt: skip
    features, labels = payments(1500)
    with s.worker() as worker, Ui(tmp_path, s.broker, s.path) as ui:
        for at in range(0, 1500, 300):
            s.give((features, labels), at, at + 300)
        s.reach(1500, 1500, worker)
        more, _ = payments(60, 1500)  # whose labels have not come
        s.give((more, []), 0, 60)
        s.reach(1560, 1500, worker)

        def known() -> bool:
            counts = ui.get(f"/api/streams/{s.name}/alerts")["counts"]
            return counts["predictions"] == 1560 and counts["right"] > 0 and counts["waiting"] > 0

        until(known)
        for width, scheme in ((1280, "light"), (390, "dark")):
            look = Look(browser, ui.url, viewport={"width": width, "height": 900}, color_scheme=scheme)

            page = look.open(s.name, "alerts")
            page.wait_for_selector(".alert")
            page.locator(".alert .line").first.click()
            look.until_said("Over the key's past", ".open")
            look.until_said(HOSTILE, ".open")  # as text
            fine(look, "alert")
            link = page.url
            # The bars add up to the score.
            bars = [row.all_text_contents()[-1] for row in page.locator(".open .waterfall li").all() if row]
            shares = [float(re.search(r"([+−]?[\d.]+)( %)?$", text)[1].replace("−", "-")) for text in bars]
            assert sum(shares[:-1]) == pytest.approx(shares[-1], abs=0.1 * len(shares))
            page.locator(".open").get_by_role("link", name=re.compile("^card c-")).click()
            look.until_said("At the last prediction")
            page.wait_for_selector(".mark-alert")
            fine(look, "key")
            page = look.open(s.name, "quality")
            look.until_said("Average precision")
            fine(look, "quality-kafka")
            page.goto(link)  # a link that was shared
            look.until_said("Over the key's past", ".open")
            page.get_by_role("link", name="All contributions").click()
            look.until_said("each as it was sent")
            look.until_said("without values")
            assert page.locator(".waterfall li").count() > 2
            fine(look, "why")
            assert not look.wrong, look.wrong
            look.context.close()
        # The whole record, in full.
        until(lambda: ui.get(f"/api/streams/{s.name}/alerts")["rows"][0]["values"])
        row = ui.get(f"/api/streams/{s.name}/alerts")["rows"][0]
        assert row["values"]["x"]["amount"] == 100.0
        assert row["values"]["keys"] == {"card": f"c-{int(row['id'][2:]) % 12}"}
        assert row["features"]["spent"] is not None
        place = f"/api/streams/{s.name}/partitions/{row['partition']}/records/{row['position']}"
        found = ui.get(place)
        assert found["prediction"]["id"] == row["id"]
        assert found["x"]["amount"] == 100.0
        assert json.loads(found["record"])["x"]["place"] == HOSTILE
        assert found["outcome"]["outcome"] == row["outcome"]
        ui.expect(409, f"/api/streams/{s.name}/partitions/0/records/99999999")
        ui.expect(404, f"/api/streams/{s.name}/partitions/0/records/x")
        ui.expect(400, f"/api/streams/{s.name}/alerts?only=nothing")
        assert ui.stop() == 0
