"""The page in a real browser, opened from a file: drawing, closing, comparing, sharing; its numbers are torch's."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainingSpec, explore, lesion, load, train
from highwaynet.data.load import load_dataset
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.model import TrainedModel
from highwaynet.web.contents import sample_contents
from holding import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = ['</script><script>window.hacked = "label"</script>', "\"quoted' <img src=x onerror=window.hacked='image'>", "two\nlines & 🛣️"]
Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDirectory]:
    """A highway and a plain network on digits."""
    folder = tmp_path_factory.mktemp("runs")
    training = TrainingSpec(epochs=3, batch_size=32, learning_rate=0.1)
    return {
        kind: train(RunSpec(network=NetworkSpec(name=f"fc-{kind}", depth=8, width=20), training=training), folder / kind)
        for kind in ("highway", "plain")
    }


@pytest.fixture(scope="module")
def pages(runs: dict[str, RunDirectory]) -> dict[str, Path]:
    return {"one": explore(runs["highway"].path, samples=60), "two": explore(runs["plain"].path, runs["highway"].path, samples=30)}


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Open]:
    """Open a file; afterwards no error was raised, and nothing was asked of the network."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    problems: list[str] = []
    asked: list[str] = []

    def opened(path: Path, address: str = "", width: int = 1280) -> "Page":
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.set_viewport_size({"width": width, "height": 900})
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type in {"error", "warning"} else None)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.resolve().as_uri() + address)
        settled(page)
        return page

    yield opened
    context.close()
    assert problems == []
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []
    assert all(url.split("#")[0].endswith(".html") for url in asked if url.startswith("file:"))


def settled(page: "Page") -> None:
    """Wait until every network has answered for the newest input and counted the right answers."""
    page.wait_for_function(
        "() => !app.pad?.scheduled && app.views.every(({ now, controls }) => now?.id === app.turn && controls.element.dataset.counted)"
    )


def counted(page: "Page", act: Callable[[], object]) -> int:
    """Do something to the layers; return how many samples are right afterwards."""
    page.evaluate("() => app.views.forEach((view) => delete view.controls.element.dataset.counted)")
    act()
    settled(page)
    return int(page.evaluate("() => app.views.at(-1).controls.element.dataset.counted").split("/")[0])


def outputs(page: "Page", view: int = -1) -> Tensor:
    return torch.tensor(page.evaluate(f"() => Array.from(app.views.at({view}).now.outputs)"))


def raw_input(page: "Page", model: TrainedModel) -> Tensor:
    return torch.tensor(page.evaluate("() => Array.from(app.raw)")).view(1, *model.data.input_shape)


def by_torch(model: TrainedModel, raw: Tensor, closed: list[int] | None = None) -> Tensor:
    with torch.inference_mode(), lesion(model.network, closed or []):
        return model.network(model.preparation.preprocessing.apply(raw))


def right_by_torch(run: RunDirectory, count: int, closed: list[int] | None = None) -> int:
    model = load(run.path)
    data = load_dataset(model.spec.data, model.preparation)
    facts, values = sample_contents(data, count)
    kind = np.uint8 if facts["bytes"] == 1 else np.float32
    raw = torch.from_numpy(np.frombuffer(values, kind).copy()).view(-1, *model.data.input_shape)
    return int((by_torch(model, raw, closed).argmax(1) == torch.tensor(facts["targets"])).sum())


def cell(page: "Page", row: int, column: int = 3, panel: str = "now") -> tuple[float, float]:
    """The middle of a cell of a map; row 0 is the first plain layer."""
    canvas = page.locator(f".panel.{panel} canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    rows, columns = page.evaluate("() => [app.views[0].rows.length, app.views[0].network.columns]")
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def draw(page: "Page", points: list[tuple[float, float]]) -> None:
    pad = page.locator(".pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    assert box
    for number, (x, y) in enumerate(points):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=1)
        if number == 0:
            page.mouse.down()
    page.mouse.up()
    settled(page)


def test_the_first_sample_is_answered_as_by_torch(open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page, model = open_page(pages["one"]), load(runs["highway"].path)
    raw = raw_input(page, model)
    torch.testing.assert_close(outputs(page), by_torch(model, raw)[0], atol=1e-4, rtol=1e-4)
    shares = by_torch(model, raw)[0].softmax(0)
    shown = [float(text.replace("\u00a0%", "")) / 100 for text in page.locator(".bars .value").all_inner_texts()]
    assert torch.tensor(shown) == pytest.approx(shares, abs=6e-4)
    assert page.locator(".bars .best .name").inner_text().split()[0] == str(int(shares.argmax()))
    assert page.title() == "8-layer highway on digits"
    assert page.evaluate("() => app.views[0].link.worker instanceof Worker")


def test_drawing_changes_the_answer(open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page, model = open_page(pages["one"]), load(runs["highway"].path)
    page.get_by_role("button", name="Clear").click()
    settled(page)
    empty = outputs(page)
    draw(page, [(0.5, 0.15), (0.5, 0.5), (0.5, 0.85)])
    stroke = outputs(page)
    assert (stroke - empty).abs().max() > 0.1
    draw(page, [(0.3, 0.3), (0.7, 0.7)])
    assert (outputs(page) - stroke).abs().max() > 0.01
    torch.testing.assert_close(outputs(page), by_torch(model, raw_input(page, model))[0], atol=1e-4, rtol=1e-4)
    page.locator(".pad").press("Delete")  # then with the keyboard: pen down, three steps to the right
    for key in (" ", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.locator(".pad").press(key)
    settled(page)
    assert raw_input(page, model).max() > 1
    settled(page)


def test_closing_layers(open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page, run = open_page(pages["one"]), runs["highway"]
    model = load(run.path)

    def shown(closed: list[int]) -> None:
        assert page.evaluate("() => [...app.views[0].closed].sort((a, b) => a - b)") == closed
        torch.testing.assert_close(outputs(page), by_torch(model, raw_input(page, model), closed)[0], atol=1e-4, rtol=1e-4)

    assert page.locator(".counted").inner_text().startswith(f"Right on {100 * right_by_torch(run, 60) / 60:.1f}")
    assert counted(page, lambda: page.mouse.click(*cell(page, 2))) == right_by_torch(run, 60, [2])
    shown([2])

    def drag() -> None:
        page.mouse.move(*cell(page, 4))
        page.mouse.down()
        page.mouse.move(*cell(page, 5))
        page.mouse.move(*cell(page, 6))
        page.mouse.up()

    assert counted(page, drag) == right_by_torch(run, 60, [2, 4, 5, 6])
    shown([2, 4, 5, 6])
    counted(page, lambda: page.get_by_role("button", name="Open all again").click())
    shown([])
    idle = page.evaluate("() => app.views[0].network.idle")
    if idle:
        counted(page, lambda: page.get_by_role("button", name="idle").click())
        shown(idle)
        counted(page, lambda: page.get_by_role("button", name="Open all again").click())
    map_ = page.locator(".plates").first
    map_.focus()
    map_.press("Home")
    map_.press("ArrowDown")
    map_.press("Shift+ArrowDown")
    counted(page, lambda: map_.press("Enter"))
    shown([1, 2])
    page.get_by_text("The layers as a table").click()
    counted(page, lambda: page.get_by_label("Close layer 2").uncheck())
    shown([1])


def test_swapping_layers(open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page, model = open_page(pages["one"]), load(runs["highway"].path)
    page.get_by_role("button", name="Swap two layers").click()
    page.mouse.click(*cell(page, 3))
    counted(page, lambda: page.mouse.click(*cell(page, 7)))
    assert page.evaluate("() => app.views[0].swaps") == [[3, 7]]
    with torch.no_grad():
        for values in (model.network.stack.weight, model.network.stack.bias):  # type: ignore[union-attr]
            values[[2, 6]] = values[[6, 2]]
    torch.testing.assert_close(outputs(page), by_torch(model, raw_input(page, model))[0], atol=1e-4, rtol=1e-4)
    counted(page, lambda: page.get_by_role("button", name="at random").click())
    assert len(page.evaluate("() => app.views[0].swaps")) == 2


def test_pointing_at_a_gate(open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page, model = open_page(pages["one"]), load(runs["highway"].path)
    page.mouse.move(*cell(page, 4, 6))
    with torch.inference_mode():
        _, gates = model.network(model.preparation.preprocessing.apply(raw_input(page, model)), return_gates=True)
    assert f"Layer 4, block 7: gate T = {gates[3, 0, 6]:.2f}" in page.locator(".info").inner_text()
    assert "layer 4, block 7" in page.locator(".gate h2").inner_text()
    page.locator(".chip").first.click()
    assert page.locator(".info").inner_text().startswith("Layer")


def test_a_view_is_shared_by_its_address(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["one"])
    page.get_by_role("button", name="Clear").click()
    draw(page, [(0.3, 0.2), (0.7, 0.2), (0.5, 0.8)])
    page.get_by_role("button", name="Keep this input").click()
    counted(page, lambda: page.mouse.click(*cell(page, 5)))
    page.evaluate("() => app.address.write()")
    address = page.evaluate("() => location.hash")
    again = open_page(pages["one"], address)
    assert again.evaluate("() => [...app.views[0].closed]") == [5]
    assert again.evaluate("() => app.pin !== null")
    assert (outputs(again) - outputs(page)).abs().max() < 0.5  # a drawing is kept with 16 levels
    damaged = open_page(pages["one"], "#in=s99999&closed=0-400,x&swaps=1.1,2&kept=d!!&theme=<b>")
    assert damaged.evaluate("() => app.views[0].closed.size + app.views[0].swaps.length") == 0


def test_two_inputs_are_compared(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["one"])
    page.get_by_role("button", name="Keep this input").click()
    page.locator(".sample").nth(3).click()
    settled(page)
    page.wait_for_function("() => app.views[0].pinned")
    page.wait_for_selector("text=Gates, kept input")
    difference = page.evaluate(
        "() => { const view = app.views[0]; return Array.from(view.now.gates, (t, at) => t - view.pinned.gates[at] - view.difference[at]) }"
    )
    assert all(value is None or math.isnan(value) or abs(value) < 1e-6 for value in difference)
    page.get_by_role("button", name="Forget it").click()
    page.wait_for_selector("text=Gates, on average")


def test_two_runs_side_by_side(open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page = open_page(pages["two"])
    for place, kind in enumerate(("plain", "highway")):
        model = load(runs[kind].path)
        torch.testing.assert_close(outputs(page, place), by_torch(model, raw_input(page, model))[0], atol=1e-4, rtol=1e-4)
    assert page.locator(".answer h2").all_inner_texts() == ["2 8-layer plain", "2 8-layer highway"]
    page.mouse.click(*cell(page, 2))  # a plain layer cannot be closed, and the page says why
    assert "cannot be closed" in page.locator(".info").first.inner_text()


@pytest.mark.parametrize("width", [1280, 375])
def test_nothing_is_wider_than_the_screen(width: int, open_page: Open, pages: dict[str, Path]) -> None:
    for name in ("one", "two"):
        page = open_page(pages[name], width=width)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        if width < 700:
            page.locator(".tabs button", has_text="Guess").first.click()
            assert page.locator(".panel.guess").first.is_visible()
            assert not page.locator(".panel.now").first.is_visible()


def test_the_tour_has_five_steps(open_page: Open, pages: dict[str, Path]) -> None:
    page = open_page(pages["one"])
    page.get_by_role("button", name="Take the tour").click()
    titles = []
    for _ in range(5):
        titles.append(page.locator("#tour-title").inner_text())
        page.locator(".tour .primary").click()
    assert titles[2:] == ["One row is one layer", "Where it makes up its mind", "Now take layers away"]
    assert len(set(titles)) == 5
    assert not page.locator(".tour").is_visible()


def test_the_picture_is_saved(open_page: Open, pages: dict[str, Path], tmp_path: Path) -> None:
    from PIL import Image

    page = open_page(pages["one"])
    with page.expect_download() as download:
        page.get_by_role("button", name="Save picture").click()
    assert download.value.suggested_filename == "explore.png"
    download.value.save_as(tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as image:
        assert image.width == 2480
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50


def test_an_image_file_is_read_as_by_predict(
    open_page: Open, pages: dict[str, Path], runs: dict[str, RunDirectory], tmp_path: Path
) -> None:
    from PIL import Image

    page, model = open_page(pages["one"]), load(runs["highway"].path)
    levels = (np.arange(64).reshape(8, 8) * 3 % 17 * 15).astype(np.uint8)
    levels[0] = levels[-1] = levels[:, 0] = levels[:, -1] = 0
    Image.fromarray(levels.repeat(20, axis=0).repeat(20, axis=1)).save(tmp_path / "<b>bold.png")
    page.set_input_files("#file", tmp_path / "<b>bold.png")
    page.wait_for_function("() => app.source.type === 'image'")
    settled(page)
    wanted = torch.from_numpy(levels).float().view(1, 1, 8, 8) / 255 * model.data.full_scale
    torch.testing.assert_close(raw_input(page, model), wanted, atol=0.07, rtol=0)  # one of 255 levels
    (tmp_path / "text.png").write_text("not an image")
    page.set_input_files("#file", tmp_path / "text.png")
    page.wait_for_selector("text=cannot be read as an image")


def test_without_workers_the_page_answers_itself(browser: "Browser", pages: dict[str, Path], runs: dict[str, RunDirectory]) -> None:
    page, model = browser.new_page(), load(runs["highway"].path)
    page.set_default_timeout(1000 * PATIENCE)
    page.add_init_script("delete window.Worker")
    page.goto(pages["one"].as_uri())
    settled(page)
    torch.testing.assert_close(outputs(page), by_torch(model, raw_input(page, model))[0], atol=1e-4, rtol=1e-4)
    page.close()


def hostile_table() -> dict[str, list[Any]]:
    generator = np.random.default_rng(0)
    size = generator.normal(5, 2, 240)
    names = np.array(HOSTILE)[np.digitize(size, [4, 6])]
    kinds = np.array(HOSTILE)[generator.integers(0, 3, 240)]
    return {
        HOSTILE[0]: size.tolist(),
        "<b>kind</b>": kinds.tolist(),
        "${gap}": [None if value < 3 else value for value in size],
        "label": names.tolist(),
    }


def test_hostile_names_do_no_harm(open_page: Open, tmp_path: Path) -> None:
    import pandas as pd

    table = hostile_table()
    frame = pd.DataFrame(table)
    spec = RunSpec(
        network=NetworkSpec(name="fc-highway", depth=4, width=8),
        data=DataSpec(name="memory", target="label"),
        training=TrainingSpec(epochs=2, batch_size=32, learning_rate=0.1),
    )
    run = train(spec, tmp_path / "<img src=x onerror=alert(1)>'\"& 🛣️", data=(frame, "label"))
    page = open_page(explore(run.path, data=(frame, "label"), samples=20))
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("#input label").first.inner_text() == HOSTILE[0]
    assert page.locator("script[src], img, iframe").count() == 0
    names = page.locator(".bars .name")
    assert {names.nth(place).get_attribute("title") for place in range(3)} == set(HOSTILE)
    assert "<img src=x onerror=alert(1)>" in page.locator("#about").inner_text()

    model = load(run.path)
    page.locator("#field-0").fill("900")  # the slider
    page.locator("#field-1").select_option(label=HOSTILE[1])
    page.locator("#field-2-missing").check()
    settled(page)
    size = page.evaluate("() => app.fields.read(app.fields.columns[0])")
    wanted = model.outputs({HOSTILE[0]: [size], "<b>kind</b>": [HOSTILE[1]], "${gap}": [None]})[0]
    torch.testing.assert_close(outputs(page), wanted, atol=1e-4, rtol=1e-4)
