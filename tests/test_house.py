"""A room imports only from rooms with a lower number, never sideways or up."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "highwaynet"

ROOMS = {
    "base": 0,
    "kernels": 1,
    "layers": 2,
    "blocks": 3,
    "networks": 3,
    "data": 3,
    "runs": 4,
    "training": 5,
    "analysis": 6,
    "search": 6,
    "bench": 6,
    "figures": 7,
    "shrinking": 7,
    "experiments": 8,
    "facade": 9,
    "estimator": 9,
    "exporting": 9,
    "web": 9,
    "cli": 10,
}
# The package's own file offers names from the rooms, lazily, and holds the version, which every room may read.
DOORS = {"__init__", "__main__"}


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """The rooms that a source file imports from, also inside functions."""
    rooms = set()
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            modules = [node.module or ""]
            if node.module == "highwaynet":
                modules = [f"highwaynet.{alias.name}" for alias in node.names if alias.name != "__version__"]
        rooms |= {module.split(".")[1] for module in modules if module.startswith("highwaynet.")}
        rooms |= {"highwaynet"} & set(modules)  # the whole package stands above every room
    return rooms


def wrong_directions(room: str, source: str) -> list[str]:
    return [f"{room} imports {other}" for other in sorted(imported_rooms(source)) if other != room and ROOMS.get(other, 99) >= ROOMS[room]]


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    room = room_of(path)
    if room in DOORS:
        return
    assert room in ROOMS, f"{path.name} stands outside the rooms"
    assert wrong_directions(room, path.read_text()) == []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("layers", "from highwaynet.networks.spec import NetworkSpec"),
        ("networks", "import highwaynet.data.load"),
        ("data", "def f():\n    from highwaynet.runs import spec"),
        ("layers", "from highwaynet import NetworkSpec"),
        ("training", "from highwaynet import cli"),
        ("layers", "import highwaynet"),
    ],
)
def test_a_wrong_direction_is_found(room: str, source: str) -> None:
    assert wrong_directions(room, source)


def test_figures_never_touch_a_network() -> None:
    for path in (PACKAGE / "figures").rglob("*.py"):
        assert not imported_rooms(path.read_text()) & {"layers", "networks", "training"}, path


def test_no_pickle_and_no_eval() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in {"eval", "exec", "torch.load", "torch.save", "pickle.load", "pickle.loads", "joblib.load"}, path
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {module.split(".")[0] for module in modules} & {"pickle", "_pickle", "joblib", "dill", "cloudpickle", "shelve"}, path


def test_no_module_has_the_name_of_a_function() -> None:
    """Importing such a module would hide the function that `import highwaynet` offers."""
    import highwaynet

    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()} | set(ROOMS)
    assert not modules & set(highwaynet.__all__)


def test_each_class_has_a_name_of_its_own() -> None:
    """Also named types (an assignment to a capitalised name), in all rooms."""
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            names = [node.name] if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
            if isinstance(node, ast.Assign):
                names = [
                    target.id for target in node.targets if isinstance(target, ast.Name) and re.fullmatch("[A-Z][a-z]+[A-Za-z]*", target.id)
                ]
            for name in names:
                homes.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    shared = {name: places for name, places in homes.items() if len(places) > 1 and not name.endswith("T")}  # type variables
    assert shared == {}


RUN_FILES = re.compile(
    r"\b(spec\.toml|plan\.json|data\.json|data\.safetensors|history\.jsonl|timing\.jsonl|environment\.json|events\.log|seeds\.json)\b"
    r"|^(checkpoints|analysis|tensorboard)$|^(checkpoints|analysis|tensorboard)/|^(step|stop|best)-$"
)


def run_files_in(source: str) -> list[str]:
    """Texts in the code, docstrings apart, that name a file of a run directory."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings]
    return [text for text in texts if RUN_FILES.search(text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_runs_names_the_files_of_a_run(path: Path) -> None:
    claims = {"plan.json"} if room_of(path) == "experiments" else set()  # a claim has a plan too
    assert room_of(path) == "runs" or set(run_files_in(path.read_text())) <= claims


@pytest.mark.parametrize(
    "source",
    ['path / "history.jsonl"', 'f"{run}/plan.json"', 'run / "checkpoints"', 'f"step-{step:09}"', 'raise E("events.log says more")'],
)
def test_the_name_of_a_file_is_found(source: str) -> None:
    assert run_files_in(source)


def test_files_are_short() -> None:
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 400, path
