"""Speed of the explore page in Chromium: an answer with all gates, the first answer after opening, and the size of the page.

    python benchmarks/explore_speed.py

Needs Chromium and Playwright. For each network the page is opened from a file. One answer is everything that the page shows for an input:
outputs, gates, block states, the guess after each layer, and drawing all maps; it is timed in the page, from the question to the end of
drawing. `engine` is the part in the worker. The peer is torch on one thread, which computes the same gates, states and outputs of the same
network for one sample; page and torch alternate, and the median counts. Weights are hardly trained, which does not matter for speed.
Writes results/explore-speed.json.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Browser, sync_playwright
from record import write_record

from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainingSpec, explore, load, observe, train

NETWORKS: dict[str, tuple[dict[str, Any], float]] = {
    "fc-highway, 50 layers": ({"name": "fc-highway", "depth": 50}, 20.0),
    "fc-highway, 100 layers": ({"name": "fc-highway", "depth": 100}, 40.0),
    "mnist-highway-16": ({"name": "mnist-highway-16"}, 150.0),
}
"""Settings, and the limit for one answer in milliseconds."""
MOST_MEGABYTES, MOST_FIRST = 2.5, 1000.0
ROUNDS, REPEATS = 5, 8
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
ASK = """
async (repeats) => {
  const [view] = app.views, times = [], engine = [];
  for (let i = 0; i < repeats; i++) {
    const begun = performance.now();
    const message = await new Promise((resolve) => {
      const usual = app.answered;
      app.answered = (message) => { app.answered = usual; resolve(message); };
      app.turn++;
      view.ask();
    });
    times.push(performance.now() - begun);
    engine.push(message.ms);
  }
  return [times, engine];
}
"""


def torch_answers(path: Path, repeats: int) -> list[float]:
    """Time answers of torch for one sample, with gates, states and outputs of every layer; milliseconds."""
    model = load(path)
    x = torch.zeros(1, 1, 28, 28)
    times = []
    with torch.inference_mode():
        for _ in range(repeats):
            started = time.perf_counter()
            with observe(model.network):
                model.network(x)
            times.append(1000 * (time.perf_counter() - started))
    return times


def measured(browser: Browser, settings: dict[str, Any], limit: float, folder: Path) -> dict[str, Any]:
    """Measure the page of one network."""
    generator = np.random.default_rng(0)
    data = generator.integers(0, 256, (1200, 1, 28, 28), dtype=np.uint8), np.arange(1200) % 10
    spec = RunSpec(network=NetworkSpec(**settings), data=DataSpec(name="memory"), training=TrainingSpec(epochs=1, batch_size=100))
    run = train(spec, folder / settings["name"] / str(settings.get("depth")), data=data)
    path = explore(run.path, data=data, samples=200)
    first, page_times, engine_times, peer_times = [], [], [], []
    for _ in range(ROUNDS):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("[data-counted]", state="attached")
        first.append(page.evaluate("() => app.firstAnswer"))
        page.evaluate(ASK, 3)
        times, engine = page.evaluate(ASK, REPEATS)
        page_times += times
        engine_times += engine
        peer_times += torch_answers(run.path, REPEATS)
        page.close()
    found = {
        "answer_ms": statistics.median(page_times),
        "engine_ms": statistics.median(engine_times),
        "torch_ms": statistics.median(peer_times),
        "first_answer_ms": statistics.median(first),
        "limit_ms": limit,
        "megabytes": path.stat().st_size / 1e6,
    }
    return {key: round(value, 3) for key, value in found.items()}


def main() -> None:
    """Measure all networks and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.set_num_threads(1)
    program = shutil.which("chromium")
    if program is None:
        sys.exit("this benchmark needs chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        version = browser.version
        found = {name: measured(browser, settings, limit, Path(folder)) for name, (settings, limit) in NETWORKS.items()}
        browser.close()
    for name, one in found.items():
        print(name, one)
    kept = all(one["answer_ms"] <= one["limit_ms"] and one["first_answer_ms"] <= MOST_FIRST for one in found.values())
    kept = kept and found["fc-highway, 50 layers"]["megabytes"] <= MOST_MEGABYTES
    print("all limits are kept" if kept else "a limit is not kept")
    write_record("explore-speed", "explore_speed.py", browser=f"Chromium {version}", kept=kept, networks=found)


if __name__ == "__main__":
    main()
