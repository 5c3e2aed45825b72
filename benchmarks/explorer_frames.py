"""Measure the frames of the explorer while a pole is dragged, in Debian's chromium without a GPU.

    python benchmarks/explorer_frames.py

For each view it prints the frames per second, the median and the slowest twentieth of the times between frames, and the
main thread's time for a frame (script, style, layout, paint) as chromium counts it. 60 frames a second are 16.7 ms.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from armagnn.explore import explorer_page

FLAGS = ["--no-sandbox", "--disable-gpu"]
WATCH = """() => {
    window.frames_ = [];
    const note = (time) => { window.frames_.push(time); window.going = requestAnimationFrame(note); };
    window.going = requestAnimationFrame(note);
}"""


def busy(session: Any) -> float:
    """Return the seconds that the main thread has worked."""
    values = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return float(values["TaskDuration"])


def drag(page: Page, seconds: float = 4.0) -> tuple[list[float], float]:
    """Drag the first pole in a circle; return the times between frames and the work of one, in ms."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    box = page.locator(".plane:visible .handle .mark").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(WATCH)
    before, start = busy(session), page.evaluate("performance.now()")
    step = 0
    while page.evaluate("performance.now()") - start < 1000 * seconds:
        step += 1
        page.mouse.move(x + 60 * math.sin(step / 9), y - 30 + 30 * math.cos(step / 9))
    times = page.evaluate("(cancelAnimationFrame(window.going), window.frames_)")
    page.mouse.up()
    work = 1000 * (busy(session) - before) / max(1, len(times))
    return [later - sooner for sooner, later in pairwise(times)], work


def main() -> None:
    """Print a line for each view."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(explorer_page(), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for view in ("Filter", "Signal"):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            page.get_by_role("tab", name=view).click()
            if view == "Signal":
                page.get_by_role("row", name="energy").wait_for(timeout=60_000)
            gaps, work = drag(page)
            late = sorted(gaps)[int(0.95 * len(gaps))]
            print(
                f"{view:>7}: {1000 / statistics.mean(gaps):.0f} frames/s, median {statistics.median(gaps):.1f} ms, "
                f"95 % below {late:.1f} ms; main thread {work:.1f} ms a frame"
            )
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
