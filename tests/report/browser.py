"""A headless Chromium, driven through its DevTools protocol over two pipes: the standard library is enough."""
import base64
import collections
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class BrowserError(Exception):
    pass


class Page:
    """What happened while one page was shown: console messages and errors, requests, and how wide it became."""

    def __init__(self):
        self.errors, self.requests = [], []


class Browser:
    def __init__(self, path, patience=60):
        self.patience = patience
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_child, self.send_end = os.pipe()
        self.receive_end, from_child = os.pipe()
        # The protocol's pipes are descriptors 3 (to the browser) and 4.
        words = [path, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "--disable-gpu",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--force-color-profile=srgb"]
        if os.getuid() == 0:
            words.append("--no-sandbox")  # it refuses to run as root with one
        shell = f"exec 3<&{to_child} 4>&{from_child}; exec \"$0\" \"$@\""
        self.process = subprocess.Popen(["bash", "-c", shell, *words], pass_fds=(to_child, from_child),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.number, self.rest = 0, b""
        self.messages = collections.deque()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=self.patience)
        os.close(self.send_end)
        os.close(self.receive_end)
        self.profile.cleanup()

    def receive(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.receive_end], [], [], left)[0]:
                raise BrowserError("Chromium did not answer in time")
            part = os.read(self.receive_end, 1 << 16)
            if not part:
                raise BrowserError("Chromium ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.send_end, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.patience
        while True:
            answer = self.receive(until)
            if answer.get("id") != self.number:
                self.messages.append(answer)
                continue
            if "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def wait_for(self, method):
        """Takes the messages that came up to the first one of this kind."""
        taken = []
        until = time.monotonic() + self.patience
        while True:
            message = self.messages.popleft() if self.messages else self.receive(until)
            taken.append(message)
            if message.get("method") == method:
                return taken

    def show(self, url, width, height=900, scripts=True, dark=False):
        """Loads `url` and says what happened."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.messages.clear()
        self.call("Page.navigate", url=url)
        messages = self.wait_for("Page.loadEventFired")
        self.call("Page.getLayoutMetrics")  # whatever the load still had to say comes before this answer
        page = Page()
        for message in [*messages, *self.messages]:
            parameters = message.get("params", {})
            match message.get("method"):
                case "Runtime.exceptionThrown":
                    page.errors.append(json.dumps(parameters["exceptionDetails"])[:500])
                case "Runtime.consoleAPICalled":
                    page.errors.append(json.dumps(parameters["args"])[:500])
                case "Log.entryAdded":
                    page.errors.append(parameters["entry"]["text"])
                case "Network.requestWillBeSent":
                    page.requests.append(parameters["request"]["url"])
        self.messages.clear()
        return page

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(json.dumps(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def overflow(self):
        """How many pixels of the page lie to the right of what the window shows."""
        metrics = self.call("Page.getLayoutMetrics")
        return metrics["cssContentSize"]["width"] - metrics["cssLayoutViewport"]["clientWidth"]

    def screenshot(self, path, clip=None):
        options = {"clip": {**clip, "scale": 1}} if clip else {}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **options)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def picture_of(self, selector, path):
        box = self.evaluate(f"(r => ({{x: r.left + scrollX, y: r.top + scrollY, width: r.width, height: r.height}}))"
                            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        self.screenshot(path, box)
