"""A real Prometheus for tests: Debian's, on a free port of 127.0.0.1, with the rules of deploy/prometheus."""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from riparian.app.kafka.local_broker.ports import free_port
from tests.broker.harness import PATIENCE, ROOT

FOLDER = ROOT / "deploy" / "prometheus"
AVAILABLE = shutil.which("prometheus") is not None and shutil.which("promtool") is not None


class Prometheus:
    """Scrapes `targets` twice a second, with the rules evaluated as often and alerts that fire after a second.

    folder : holds its configuration, data and log.
    """

    def __init__(self, folder: Path, targets: list[str]) -> None:
        folder.mkdir(parents=True)
        self.url, self.log = f"http://127.0.0.1:{(port := free_port())}", folder / "prometheus.log"
        config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
        (job,) = config["scrape_configs"]
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        for name in config["rule_files"]:
            text = (FOLDER / name).read_text(encoding="utf-8")
            (folder / name).write_text(re.sub(r"^( +for:) \d+m$", r"\1 1s", text, flags=re.MULTILINE), encoding="utf-8")
        command = ["prometheus", f"--config.file={folder / 'prometheus.yaml'}", "--log.level=warn"]
        command += [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'data'}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.started = time.time()

    def __enter__(self) -> "Prometheus":
        try:
            self.wait_for("an answer", lambda: self._answers() or None)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait_for(self, what: str, found: Callable[[], Any]) -> Any:
        """Ask until there is something else than None; that."""
        deadline = time.monotonic() + PATIENCE
        while (answer := found()) is None:
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < deadline, f"{what} did not come; alerts: {self.alerts()}"
            time.sleep(0.2)
        return answer

    def get(self, path: str, **parameters: Any) -> Any:
        """The `data` of an answer of /api/v1."""
        body = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{body}", timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now, each with `metric` and `value`."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def range(self, expression: str) -> list[dict[str, Any]]:
        """The series since the start, each with `metric` and `values`, one a second."""
        end = time.time()
        found: list[dict[str, Any]] = self.get(
            "query_range", query=expression, start=self.started, end=end, step=max(1, (end - self.started) // 5000)
        )["result"]
        return found

    def alerts(self, state: str | None = None) -> list[dict[str, str]]:
        """Labels of the alerts, of those in a state (pending, firing)."""
        return [a["labels"] for a in self.get("alerts")["alerts"] if state is None or a["state"] == state]

    def wait_for_alert(self, name: str, **labels: str) -> dict[str, str]:
        """Wait until an alert fires; its labels."""
        wanted = {"alertname": name, **labels}
        found: dict[str, str] = self.wait_for(
            f"{name} {labels}", lambda: next((a for a in self.alerts("firing") if wanted.items() <= a.items()), None)
        )
        return found
