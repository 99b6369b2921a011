"""Headless Chromium, controlled over a pipe by the DevTools protocol."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
# Seconds without a message after which the browser counts as hanging; a page loads within a few.
PATIENCE = 300
OPTIONS = "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"
# Nothing is asked of the network.
OPTIONS += "--disable-background-networking", "--disable-component-update", "--disable-sync"
OPTIONS += "--no-first-run", "--disable-quic"


class Browser:
    """A browser with one page.  A context manager: it ends with its block."""

    def __init__(self, profile: Path) -> None:
        """Start the browser, with a folder for its files."""
        reads, self.requests = os.pipe()
        self.answers, writes = os.pipe()
        # The browser reads from 3 and writes to 4.
        theirs, back = (fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (reads, writes))
        os.close(reads)
        os.close(writes)
        start = f'exec "$0" "$@" 3</dev/fd/{theirs} 4>/dev/fd/{back}'
        options = *OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}"
        words = ["sh", "-c", start, CHROMIUM, *options]
        self.process = subprocess.Popen(
            words, pass_fds=(theirs, back), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(back)
        self.count, self.rest = 0, b""
        self.events: list[dict[str, Any]] = []
        self.session: dict[str, str] = {}
        target = self("Target.createTarget", url="about:blank")["targetId"]
        attached = self("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Accessibility"):
            self(f"{domain}.enable")

    def __enter__(self) -> Browser:
        """Return the browser."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the browser."""
        os.close(self.requests)
        os.close(self.answers)
        self.process.terminate()
        self.process.wait()

    def read(self) -> dict[str, Any]:
        """Wait for one message."""
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], PATIENCE)[0]:
                raise TimeoutError(f"the browser has said nothing for {PATIENCE} s")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def __call__(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self.count += 1
        request = {"id": self.count, "method": method, "params": arguments} | self.session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        while (message := self.read()).get("id") != self.count:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def resize(self, width: int) -> None:
        """Give the window a width; a narrow one is that of a phone."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self("Emulation.setDeviceMetricsOverride", **size)

    def open(self, address: str, width: int = 1280, *, dark: bool = False) -> None:
        """Show a page in a window of a width, and wait until it has loaded."""
        self.resize(width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self.events = []
        self("Page.navigate", url=address)
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait for the page that an event since the last emptying of the list has announced."""
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def run(self, script: str) -> Any:
        """Return the value of an expression of JavaScript."""
        reply = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(reply["exceptionDetails"]["exception"].get("description"))
        return reply["result"].get("value")

    def tree(self) -> list[dict[str, Any]]:
        """The accessibility tree: what a screen reader is told, in order."""
        nodes = self("Accessibility.getFullAXTree")["nodes"]
        return [flat(node) for node in ordered(nodes) if not node["ignored"]]

    def click(self, element: str) -> None:
        """Click the middle of an element, an expression of JavaScript, after scrolling to it."""
        box = f"""(() => {{ const element = {element};
          element.scrollIntoView({{ block: "center" }});
          const box = element.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
        place = dict(zip("xy", self.run(box), strict=True))
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def swipe(self, x: float, y: float, down: float) -> None:
        """Touch a place, and move the finger down, or up by a negative number of pixels."""
        self("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        for step in range(1, 11):
            point = {"x": x, "y": y + down * step / 10}
            self("Input.dispatchTouchEvent", type="touchMove", touchPoints=[point])
        self("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        key_of = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, **key_of)


def ordered(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes of a tree, each before its children."""
    by_id = {node["nodeId"]: node for node in nodes}
    ordered_nodes, left = [], [node["nodeId"] for node in nodes if "parentId" not in node][::-1]
    while left:
        node = by_id[left.pop()]
        ordered_nodes.append(node)
        left += [node_id for node_id in node.get("childIds", [])[::-1] if node_id in by_id]
    return ordered_nodes


def flat(node: dict[str, Any]) -> dict[str, Any]:
    """A node's role, name, value, description and properties."""
    words = {key: node.get(key, {}).get("value", "") for key in ("role", "name", "value")}
    words["description"] = node.get("description", {}).get("value", "")
    return words | {
        entry["name"]: entry["value"].get("value") for entry in node.get("properties", [])
    }
