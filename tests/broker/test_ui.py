"""`riparian ui` in a real browser: a stream that drifts, a worker that dies, and hostile text."""

import json
import signal
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from riparian.app import comparisons
from riparian.app.errors import StateError
from riparian.app.kafka.local_broker.ports import free_port
from riparian.app.partition.learner import PartitionLearner
from riparian.topics import commands
from riparian.topics.records import RawBatch
from tests import forkserver
from tests.broker.clients import Sent, wait_on
from tests.broker.harness import PATIENCE, drifts, instances, riparian, stream_file
from tests.broker.secured import certificates
from tests.browser import Look, browser, chromium
from tests.processes import until

__all__ = ["browser", "chromium"]  # fixtures

pytestmark = pytest.mark.broker

TABS = ("overview", "models", "drift", "partitions", "deadletters", "predictions", "timeline")
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>\x1b[31m'


class Ui:
    """`riparian ui` as a process."""

    def __init__(
        self,
        folder: Path,
        broker: str | None,
        *streams: Path,
        options: tuple[str, ...] = (),
        trusted: Path | None = None,
    ) -> None:
        """trusted : the authority of its certificate, where it serves by TLS."""
        self._tls = None if trusted is None else ssl.create_default_context(cafile=trusted)
        self.port, self.log = free_port(), folder / "ui.log"
        command = ["riparian.app.cli", "ui", *map(str, streams), *(["--broker", broker] if broker else [])]
        command += ["--port", str(self.port), "--data-dir", str(folder / "ui"), *options]
        with self.log.open("ab") as log:
            self.process = forkserver.Process(command, stdout=log.fileno(), stderr=log.fileno())

    def __enter__(self) -> "Ui":
        until(lambda: self.answers("/health") is not None or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def answers(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, Any] | None:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, headers=headers, data=body)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=self._tls) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers
        except OSError:
            return None

    def expect(self, code: int, path: str, body: bytes | None = None, **headers: str) -> tuple[bytes, Any]:
        """Content and headers of an answer with this code."""
        found = self.answers(path, body, **headers)
        assert found is not None
        assert found[0] == code, (path, (body or b"")[-60:], headers, found)
        return found[1], found[2]

    def get(self, path: str) -> Any:
        return json.loads(self.expect(200, path)[0])

    def status(self, name: str) -> Any:
        return self.get(f"/api/streams/{name}")

    @property
    def token(self) -> str:
        return self.log.read_text().partition("the token for commands: ")[2].split()[0]

    def refuses(self, path: str, *cases: tuple[bytes, dict[str, str], int]) -> None:
        """Bodies, what is other in the headers than it should be, and codes."""
        right = {"Content_Type": "application/json", "Origin": self.url, "X_Riparian_Token": self.token}
        for body, changes, code in cases:
            self.expect(code, path, body, **(right | changes))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def drifting(n: int, start: int, turned: bool) -> tuple[list[Sent], list[Sent]]:
    """Instances whose concept is turned round, or not."""
    features, labels = instances(n, start)
    if turned:
        for i, label in enumerate(labels):
            value = label.value or b""
            other = (b'"yes"', b'"no"') if b'"yes"' in value else (b'"no"', b'"yes"')
            labels[i] = label._replace(value=value.replace(*other))
    return features, labels


def test_the_page_shows_what_happens(browser, stream, tmp_path):
    """From nothing, over a drift and a worker's death, to a page that was started again."""
    s = stream(
        partitions=2, learning="partition",
        metrics={"every": "500ms", "window": 500}, drift={"detectors": ["adwin"], "on_drift": "alert"},
    )  # fmt: skip
    name = s.name
    with Ui(tmp_path, s.broker, s.path) as ui:
        look = Look(browser, ui.url)
        page = look.open(name, "overview")
        look.until_said(f"Nothing is in {name}.metrics yet")
        assert page.is_hidden("section.ops")

        with s.worker() as worker:
            for partition in (0, 1):
                features, labels = drifting(2000, 0, turned=False)
                rows = [*features, Sent(HOSTILE.encode(), features[-1].time)], labels
                for at in range(0, 2400, 400):  # in pieces: what comes before its labels is predicted by what is known
                    s.give(rows, at, at + 400, partition=partition)
            look.until_said("of the predictions are right")
            look.until_said("all keep up")
            features, labels = drifting(1500, 2000, turned=True)
            strange = json.dumps({"id": HOSTILE, "x": {"a": 0.1, "b": 0.2, "c": HOSTILE}})
            rows = [*features, Sent(strange.encode(), features[-1].time)], labels
            for at in range(0, 1800, 300):
                s.give(rows, at, at + 300)
            look.until_said("Drift", "#verdict")  # without a reload
            look.until_said("Errors of the champion rose")
            assert page.title().startswith("▲ drift")
            s.reach(3502, 3500, worker)

            # Every page, wide and light, on a phone and dark: nothing goes wrong, and everyone can read it.
            other = Look(browser, ui.url)
            for tab in TABS:
                shown = other.open(name, tab)
                for _ in other.everywhere():
                    if tab == "models":
                        shown.wait_for_selector(".tree svg")
                        shown.locator(".tree .knob").nth(2).wait_for(state="attached")
                    if tab == "deadletters":
                        other.until_said("not-json")
                        shown.get_by_role("button", name="Open the letter").first.click()
                        other.until_said("<img src=x onerror=", "dialog pre")
                        shown.get_by_role("button", name="Close").click()
                    if tab in ("overview", "timeline"):
                        other.until_said("errors of champion rose")
                    if tab == "overview":
                        shown.wait_for_selector(".marks button", state="attached")
            assert not other.wrong, other.wrong
            other.context.close()
            # What `riparian compare` says; since when, to the width of a bucket.
            path_ = f"/api/streams/{name}/comparison"
            expected = wait_on(comparisons.read(s.spec, s.connection)).rows()
            assert {(row.challenger, row.partition) for row in expected} >= {("nb", 0), ("nb", 1), ("nb", None)}

            def same() -> bool:
                found = ui.answers(path_)
                rows = json.loads(found[1])["rows"] if found is not None else []
                rows.sort(key=lambda row: (row["challenger"] != expected[0].challenger, row["partition"] is None))
                early = [a["since"] - b.since for a, b in zip(rows, expected, strict=False) if b.since and a["since"]]
                settled = [row | {"since": 0} for row in rows] == [row._asdict() | {"since": 0} for row in expected]
                return settled and all(-10_000 < each <= 0 for each in early)

            until(same)
            look.open(name, "models")
            for words in ("Challengers beside the champion", "so nobody can promote", "all", "for sure"):
                look.until_said(words)
            assert page.locator(".interval").count() == len(expected)
            look.open(name, "overview")
            look.until_said("before labels come", "main")

            told = ui.status(name)
            champion = next(model for model in told["models"] if model["role"] == "champion")
            assert champion["n"] == 3500 + 2000
            assert told["tiles"]["waiting"] == 1  # the one with the strange id
            assert told["n_letters"] == 2

            # A prediction by its id: what came of it and why; ids are anybody's text.
            page = look.open(name, "predictions")
            page.get_by_role("textbox").fill("0003000")
            page.keyboard.press("Enter")
            look.until_said("came")
            look.until_said("each as it was sent")
            assert page.locator(".path li").count() > 1
            assert not look.accessible(), look.accessible()
            page.get_by_role("textbox").fill(HOSTILE)
            page.keyboard.press("Enter")
            look.until_said("No label has come")
            look.until_said("<img src=x onerror=")
            # News of the stream while the page asks changes nothing of what was asked.
            page.route("**/api/streams", lambda route: (page.wait_for_timeout(1000), route.continue_()))
            page.get_by_role("textbox").fill("nobody")
            page.keyboard.press("Enter")
            look.until_said("has the id 'nobody'")
            page.unroute("**/api/streams")

            # By the keyboard: a branch of the tree opens and closes; a chart tells its values.
            page = look.open(name, "models")
            root = page.locator('.tree .knob[data-at="0"]')
            root.focus()
            before = page.locator(".tree .knob").count()
            page.keyboard.press("Enter")
            assert page.locator(".tree .knob").count() < before
            look.until("() => document.querySelector('canvas').style.height")  # drawn, if only of what is past
            page.locator("canvas").first.focus()
            page.keyboard.press("End")
            look.until("() => document.querySelector('canvas').getAttribute('aria-valuetext').includes('nb ')")

            page = look.open(name, "overview")
            worker.kill()
        look.until_said("Nobody works on partitions 0 and 1.")
        assert page.title().startswith("▲ no worker")
        assert not ui.status(name)["works"]
        with s.worker() as worker:
            until(lambda: ui.status(name)["works"])
            look.until("() => !document.querySelector('#verdict').textContent.includes('Nobody works')")
            assert worker.stop() == 0
        assert not [line for line in look.wrong if "ERR_" not in line], look.wrong
        # A page that is open holds nothing up, and sees that it is alone.
        assert ui.stop() == 0
        look.until_said("No contact since", "#pill")

    # What was seen is kept: after a restart the topics are read from where it stopped, and nothing is missing.
    with Ui(tmp_path, s.broker, s.path) as ui:
        until(lambda: ui.status(name)["progress"] is None)
        kinds = [event["kind"] for event in ui.get(f"/api/streams/{name}/events")["events"]]
        sent = [*drifts(s.broker, s.spec, 0), *drifts(s.broker, s.spec, 1)]
        assert kinds.count("drift") == sum(record.level == "drift" for record in sent) > 0
        history = ui.get(f"/api/streams/{name}/history?n=50")
        series = {one["name"]: one["mean"] for one in history["series"]}
        assert {"objective:champion", "objective:nb", "in", "lag", "nodes:champion"} <= series.keys()
        assert any(value is not None for value in series["objective:champion"])
        assert ui.stop() == 0


def check_by_hand(ui: Ui, path: str, learner: PartitionLearner, record: dict[str, Any]) -> None:
    """What the page says of a record is what its learner says of it, and what is no record is refused."""

    def ask(content: Any, kind: str = "application/json") -> tuple[int, Any]:
        found = ui.answers(path, json.dumps(content).encode(), Content_Type=kind)
        assert found is not None
        return found[0], json.loads(found[1]) if found[0] == 200 else found[1].decode()

    code, said = ask({"x": record["x"]})
    assert code == 200, said
    batch = RawBatch([0], [0], [None], [json.dumps(record).encode()])
    row = learner.decoder.features(batch).x
    for one, (role, known) in zip(said["models"], learner.roles.items(), strict=True):
        p = known.model.predict_many(row)[0].tolist()
        classes = learner.classes.texts
        assert (one["role"], one["p"]) == (role, {text: each for text, each in zip(classes, p, strict=False) if each})
        assert one["y"] == max(one["p"], key=one["p"].get)
    assert (said["offset"], said["unseen"]) == (500, [])
    code, said = ask({"x": {"c": "never seen"}})
    assert (code, said["unseen"]) == (200, ["c"])
    for content, why in (
        ({"x": {"nobody": 1}}, "nobody: expected one of the features a, b, c"),
        ({"x": {"a": "text"}}, "a: expected a number"),
        ({"x": [1]}, "Expected `object`"),
        ({}, "missing required field `x`"),
    ):
        code, said = ask(content)
        assert code == 400
        assert why in said
    assert ask({"x": {}}, "text/plain")[0] == 400


def test_a_key_shows_its_values_and_its_last_records(browser, stream, tmp_path):
    """Of a shared model: what records change is known to the key's partition, what labels change to all."""
    s = stream(
        classes=["ok", "fraud"],
        partitions=2,
        keys={"card": {"from": "@key", "max": 50}, "terminal": {"from": "terminal", "max": 50}},
        features={
            "amount": "numeric",
            "shop": "nominal",
            "card_count": {"count": "card", "half_life": "1h"},
            "card_mean": {"mean": "amount", "by": "card", "half_life": "7d"},
            "card_times": {"ratio": "amount", "to": "card_mean"},
            "card_risk": {"share": "fraud", "by": "card"},
            "risk": {"share": "fraud", "by": "terminal", "half_life": "30d"},
        },
        predictions={"features": True},
        champion="naive-bayes",
        challengers={},
        checkpoint={"every": "1s"},
    )
    start, strange = 1_700_000_000_000, "<img src=x>"

    def features(i: int, card: str, at: int) -> Sent:
        x = {"amount": 10.0 + i, "shop": f"s{i % 3}"}
        return Sent(json.dumps({"id": str(i), "x": x, "terminal": f"t{i % 5}"}).encode(), start + at, card.encode())

    def labels(i: int) -> Sent:
        y = "fraud" if i % 4 == 0 else "ok"
        return Sent(json.dumps({"id": str(i), "y": y}).encode(), start + 50_000 + i, b"k")

    cards = [f"c{i % 7}" if i % 11 else strange for i in range(120)]
    at = [int(card[1:] == "3") for card in cards]  # its partition
    for p in range(2):
        mine = [i for i in range(120) if at[i] == p]
        s.give(([features(i, cards[i], 100 * i) for i in mine], [labels(i) for i in mine]), partition=p)

    with s.worker() as worker, Ui(tmp_path, s.broker, s.path) as ui:
        until(lambda: [len(s.predictions(p)) for p in range(2)] == [at.count(p) for p in range(2)])

        def settled() -> bool:
            with suppress(StateError, AssertionError):
                return all(s.stored(p).lineup.n == 120 for p in range(2))
            return False

        until(settled)

        def found(key: str, value: str) -> Any:
            path = f"/api/streams/{s.name}/keys?key={key}&value={value}"
            return json.loads(ui.expect(200, path)[0].splitlines()[-1])

        card, terminal = found("card", "c3")["found"], found("terminal", "t3")["found"]
        known = {one["name"]: one["value"] for one in (*card["features"], *terminal["features"])}
        assert card["partition"] == 1
        newest = [i for i in range(119, -1, -1) if cards[i] == "c3"]
        assert [one["id"] for one in card["records"]] == list(map(str, newest))
        assert [one["x"] for one in card["records"]] == [{"amount": 10.0 + i, "shop": f"s{i % 3}"} for i in newest]
        sent = {one["id"]: one for p in range(2) for one in s.predictions(p)}
        assert all(row["features"] == sent[row["id"]]["features"] for row in card["records"])
        assert len(terminal["records"]) == 20  # the last, of both partitions
        assert {row["partition"] for row in terminal["records"]} == {0, 1}
        # What the next record has: a count has it, too, and shares are as they were.
        s.give(([features(123, "c3", card["time"] - start)], []), partition=1)
        until(lambda: len(s.predictions(1)) == at.count(1) + 1)
        (last,) = [one["features"] for one in s.predictions(1) if one["id"] == "123"]
        assert (last["risk"], last["card_risk"]) == (known["risk"], known["card_risk"])
        assert last["card_count"] == pytest.approx(known["card_count"] + 1.0)
        assert last["card_times"] == pytest.approx(133.0 / known["card_mean"])
        assert "expected one of keys card, terminal" in found("shop", "s1")["error"]
        ui.expect(400, f"/api/streams/{s.name}/keys?key=card&value=")

        for width, scheme in ((1280, "light"), (390, "dark")):
            look = Look(browser, ui.url, viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = look.open(s.name, "keys")
            page.get_by_role("textbox").fill("c3")
            page.locator('select[name="last"]').select_option("all")
            page.get_by_role("button", name="Look it up").click()
            look.until_said("count card, half_life 1h")
            assert page.get_by_role("table", name="Last records").locator("tbody tr").count() == len(newest) + 1
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert not look.accessible(), look.accessible()
            look.picture("key")
            page.get_by_role("textbox").fill(strange)
            page.get_by_role("button", name="Look it up").click()
            look.until_said(f"card {strange}")
            page.get_by_role("link", name="110").click()
            look.until_said("Over the key's past")
            assert not look.wrong, look.wrong
            look.context.close()
        assert worker.stop() == 0


def test_commands_by_buttons(browser, stream, tmp_path):
    """A promotion by the button stands in the order of all partitions, and nobody gives it without the token."""
    s = stream(control=True, partitions=2, learning="partition", metrics={"every": "300ms"})
    name, rows = s.name, instances(3000)
    with s.worker() as worker, Ui(tmp_path, s.broker, s.path, options=("--actions",)) as ui:
        for partition in (0, 1):
            s.give(rows, 0, 500, partition=partition)
            learner = s.reach(500, worker=worker, partition=partition)
        check_by_hand(ui, f"/api/streams/{name}/partitions/1/predict", learner, json.loads(rows[0][499].value))
        at, body = f"/api/streams/{name}/commands", b'{"command": "promote", "model": "nb"}'
        ui.refuses(
            at,
            (body, {"Origin": "https://evil.example"}, 403),
            (body, {"Origin": "null"}, 403),
            (body, {"X_Riparian_Token": ui.token[:-1]}, 403),
            (body, {"X_Riparian_Token": ""}, 403),
            (body, {"Content_Type": "text/plain"}, 400),
            (b'{"command": "add", "model": "x"}', {}, 400),
            (b'{"command": "reset", "model": "nb", "stream": "another"}', {}, 400),
            (b'{"command": "promote"}', {}, 400),
            (b'{"command": "promote", "model": "nb", "definition": {}}', {}, 400),
            (b" " * 5000 + body, {}, 400),
        )
        ui.expect(403, at, body, Content_Type="application/json", X_Riparian_Token=ui.token)  # no Origin
        assert not s.read("control")

        look = Look(browser, ui.url)
        page = look.open(name, "models")
        page.get_by_role("button", name="Promote nb…").click()
        assert not look.accessible(), look.accessible()
        page.get_by_label("Token").fill("wrong")
        page.get_by_label("Who you are").fill("<b>tester")
        page.get_by_role("button", name="Promote nb", exact=True).click()
        look.until_said("The token is not right", "dialog")
        page.get_by_label("Token").fill(ui.token)
        page.get_by_role("button", name="Promote nb", exact=True).click()
        look.until_said("Asked for", "dialog")
        said = page.locator("dialog [role=status]")
        for stop in range(520, 3000, 20):  # a command takes effect before a prediction
            if "have answered" in said.text_content():
                break
            for partition in (0, 1):
                s.give((rows[0][stop - 20 : stop], []), partition=partition, pause=0.1)
        look.until_said("All partitions have answered", "dialog")
        page.get_by_role("button", name="Close", exact=True).click()
        look.until_said("hoeffding-tree")  # the champion of before is a challenger now
        page.get_by_role("button", name="Undo the promotion…").wait_for()
        look.open(name, "timeline")
        look.until_said("<b>tester: promote")
        assert not look.accessible(), look.accessible()
        assert all("403" in line for line in look.wrong), look.wrong  # of the wrong token
        assert worker.stop() == 0
        assert ui.stop() == 0
    for partition in (0, 1):
        (told,) = (commands.read_event(record.value) for record in s.read("events", partition))
        assert (told.event, told.command, told.model, told.by) == ("applied", "promote", "nb", "<b>tester")
        first = next(one for one in s.predictions(partition) if one["offset"] == told.offset)
        assert first["model"] == "naive-bayes"
        s.holds(partition)


def test_dead_letters_are_retried_by_buttons(browser, stream, tmp_path):
    """One, then all of its reason, once a stream file takes them, each once; nothing is written without the token."""
    metrics = {"metrics": {"every": "300ms"}}
    s = stream(record={"max_bytes": 200}, **metrics)
    name = s.name
    features, labels = instances(60)
    padded = [one._replace(value=(one.value or b"") + b" " * 200) if i % 2 else one for i, one in enumerate(features)]
    s.give(([*padded, Sent(HOSTILE.encode(), features[-1].time)], labels))
    s.run(61, 60)
    with Ui(tmp_path, s.broker, s.path, options=("--actions",)) as ui:
        at, body = f"/api/streams/{name}/deadletters/retry", b'{"reason": "too-large", "dry_run": false}'
        ui.refuses(
            at,
            (body, {"Origin": "https://evil.example"}, 403),
            (body, {"X_Riparian_Token": ""}, 403),
            (b'{"reason": "none of ours"}', {}, 400),
            (b'{"at": "0/x"}', {}, 400),
            (b'{"dry_run": false}', {}, 400),
            (b'{"reason": "too-large", "at": "0/1"}', {}, 400),
        )

        look = Look(browser, ui.url)
        page = look.open(name, "deadletters")
        look.until_said("too-large")
        page.get_by_role("button", name="Retry too-large").click()
        page.get_by_label("Token").fill(ui.token)
        page.keyboard.press("Enter")
        look.until_said("30 letters, rejected still (too-large 30)", "dialog")
        assert page.get_by_role("button", name="Retry 30 letters").count() == 0
        assert not look.accessible(), look.accessible()
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="detached")

        s.change(**metrics)  # it takes them now
        first = page.locator("tr", has_text="too-large").last
        assert first.count() == 1
        first.get_by_role("button", name="Retry the letter 0/").click()
        page.keyboard.press("Enter")  # the token is known by now
        look.until_said("1 letter would be written again: 1 to", "dialog")
        assert len(s.read("features")) == 61
        page.get_by_role("button", name="Retry 1 letter").click()
        look.until_said("1 letter written again", "dialog")
        page.keyboard.press("Escape")
        page.locator("[data-label=Again]", has_text="retried").wait_for()
        assert len(s.read("features")) == 62

        page.get_by_role("button", name="Retry too-large").click()
        page.keyboard.press("Enter")
        look.until_said("29 letters would be written again", "dialog")
        look.until_said("1 letter, retried already", "dialog")
        page.get_by_role("button", name="Retry 29 letters").click()
        look.until_said("29 letters written again", "dialog")
        page.keyboard.press("Escape")
        # What is no JSON may be read by another format.
        look.until("() => document.querySelectorAll('[aria-label^=\"Retry the letter\"]').length === 1")
        assert not look.accessible(), look.accessible()
        assert not look.wrong, look.wrong
        assert ui.stop() == 0
    again = s.read("features")
    assert len(again) == 91
    s.run(again[-1].offset + 1, 60)
    assert sorted(prediction["id"] for prediction in s.predictions()) == [f"{i:07d}" for i in range(60)]


def test_what_the_server_refuses(stream, tmp_path):
    s = stream()
    certificates(tmp_path)
    options = ("--tls-cert", str(tmp_path / "server.crt"), "--tls-key", str(tmp_path / "server.key"))
    with Ui(tmp_path, s.broker, s.path, options=options, trusted=tmp_path / "ca.crt") as ui:
        assert f"{ui.url}/" in ui.log.read_text()
        at = f"/api/streams/{s.name}"
        for query, code in (
            (at, 200), ("/", 200), ("/static/main.js", 200),
            ("/static/..%2fserver.py", 404), ("/static/nothing.js", 404), ("/api/streams/other", 404),
            (f"{at}/history?n=5", 400), (f"{at}/history?n=%D9%A5%D9%A5", 400), (f"{at}/history?from=-1", 400),
            (f"{at}/history?from=99999999999999999999", 400), (f"{at}?partition=1", 400), (f"{at}?partition=x", 400),
            (f"{at}/comparison", 200), (f"{at}/comparison?partition=1", 400),
            (f"{at}/predictions", 400), (f"{at}/predictions?id=a&last=0", 400),
            (f"{at}/partitions/%C2%B2/models/champion", 404), (f"{at}/partitions/{'0' * 9}1/models/champion", 404),
            (f"{at}/partitions/7/models/champion", 404), (f"{at}/partitions/0/models/other", 404),
            (f"{at}/partitions/0/models/champion", 409),  # no checkpoint yet: a sentence
        ):  # fmt: skip
            _, headers = ui.expect(code, query)
            assert headers["Content-Security-Policy"].startswith("default-src 'none'"), query
        ui.expect(404, f"{at}/partitions/1/predict", b'{"x": {}}', Content_Type="application/json")
        for path in ("commands", "deadletters/retry"):  # without --actions
            found = ui.answers(f"{at}/{path}", b"{}", Content_Type="application/json", Origin=ui.url)
            assert found is not None
            assert found[0] in (404, 405)
        ui.expect(421, "/", Host="evil.example")
        assert ui.stop() == 0


def test_what_cannot_be_shown_is_a_sentence(tmp_path, topic_name):
    path, _ = stream_file(tmp_path, topic_name)
    for more, sentence in (
        ((path,), f"two of the stream files describe the stream {topic_name}"),
        (("--tls-cert", path, "--broker", f"127.0.0.1:{free_port()}"), "is no certificate with its key"),
    ):
        assert sentence in riparian("ui", path, *more, code=2)
