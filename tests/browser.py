"""A headless Chromium for tests, driven by Debian's chromedriver over the WebDriver protocol: the standard library is
enough to speak it."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

TAB, ENTER = "\ue004", "\ue007"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--force-device-scale-factor=1",
]
START_S = 60.0


class Browser:
    """A session. `close` ends it and the driver."""

    def __init__(self, profile: Path, javascript: bool = True, width: int = 1280):
        driver = shutil.which("chromedriver")
        if not driver or not shutil.which("chromium"):
            pytest.skip("no browser here: apt-get install chromium chromium-driver")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._driver = subprocess.Popen([driver, f"--port={port}"], **quiet)
        self._root = f"http://127.0.0.1:{port}"
        flags = [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},900"]
        options = {"binary": shutil.which("chromium"), "args": flags}
        if not javascript:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        logging = {"browser": "ALL", "performance": "ALL"}
        try:
            self._wait()
            wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": logging}}
            self._session = f"/session/{self._call('POST', '/session', {'capabilities': wanted})['sessionId']}"
        except BaseException:
            self._driver.kill()
            raise

    def open(self, path: Path) -> None:
        """Loads a file, once its load event is over."""
        self._call("POST", f"{self._session}/url", {"url": path.as_uri()})

    def run(self, script: str):
        """What a script returns (`return ...`), as JSON has it."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def press(self, key: str) -> None:
        """Presses and releases a key."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        action = {"type": "key", "id": "keyboard", "actions": strokes}
        self._call("POST", f"{self._session}/actions", {"actions": [action]})

    def resize(self, width: int, height: int = 900) -> None:
        """The window."""
        self._call("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def console(self) -> list[str]:
        """Messages of the console since the last call."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call, but for those of the browser's own start page."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        asked = [at["params"] for at in events if at["method"] == "Network.requestWillBeSent"]
        return [at["request"]["url"] for at in asked if not at["documentURL"].startswith(("chrome://", "data:,"))]

    def pdf(self) -> str:
        """The page as a printed PDF, base64."""
        return self._call("POST", f"{self._session}/print", {})

    def close(self) -> None:
        """Ends browser and driver."""
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=20)

    def _log(self, kind: str):
        return self._call("POST", f"{self._session}/se/log", {"type": kind})

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > until:
                raise TimeoutError("chromedriver does not answer")
            time.sleep(0.1)

    def _call(self, method: str, path: str, content: dict | None = None):
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._root + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()[:2000]}") from None
