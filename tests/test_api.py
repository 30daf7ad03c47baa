"""The reference of the package is up to date and complete, and its examples run."""

import ast
import doctest
import re
import runpy
from pathlib import Path

import pytest
import torch

import highwaynet

ROOT = Path(__file__).parents[1]
API = runpy.run_path(str(ROOT / "docs" / "api.py"))
PUBLIC, Docstring = API["PUBLIC"], API["Docstring"]
PAGE = (ROOT / "docs" / "API.md").read_text()
MEMBERS = [(name, node) for name, thing in PUBLIC.items() if isinstance(thing, type) for node in API["members"](thing)]


def test_the_reference_is_up_to_date() -> None:
    assert API["page"]() == PAGE, "run python docs/api.py"


def test_every_public_name_is_in_one_group() -> None:
    grouped = [name for names in API["GROUPS"].values() for name in names.split()]
    assert sorted(grouped) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_and_its_arguments_are_documented(name: str) -> None:
    thing = PUBLIC[name]
    text = Docstring.of(thing.__doc__)
    assert text.first_sentence.endswith("."), "the docstring begins with a sentence"
    fields = {field: words for field, (_, words) in API["fields"](thing).items()}
    documented = fields or text.sections.get("Args", {})
    assert [argument.lstrip("*") for argument in documented] == [*API["parameters"](thing)]
    assert all(documented.values()), documented


@pytest.mark.parametrize(("name", "node"), MEMBERS, ids=[f"{name}.{node.name}" for name, node in MEMBERS])
def test_members_are_documented(name: str, node: ast.FunctionDef) -> None:
    text = Docstring.of(ast.get_docstring(node))
    assert text.first_sentence.endswith(".")
    if documented := text.sections.get("Args"):
        assert [argument.lstrip("*") for argument in documented] == [*API["parameters"](getattr(PUBLIC[name], node.name))]


def test_shown_and_hidden_members_exist() -> None:
    for name, members in API["SHOWN"].items():
        assert {node.name for node in API["members"](PUBLIC[name])} == set(members.split())
    for name, member in (hidden.split(".") for hidden in API["HIDDEN"] if "." in hidden):
        assert hasattr(PUBLIC[name], member)


def test_examples_on_the_page_run() -> None:
    names = PUBLIC | {"torch": torch, "nn": torch.nn}
    for block in re.findall(r"```pycon\n(.*?)```", PAGE, flags=re.DOTALL):
        example = doctest.DocTestParser().get_doctest(block, dict(names), "API.md", None, None)
        assert doctest.DocTestRunner(verbose=False).run(example).failed == 0, block


def test_links_on_the_page_lead_somewhere() -> None:
    def anchors(page: str) -> list[str]:
        headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), flags=re.MULTILINE)
        return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]

    own, settings = anchors(PAGE), anchors((ROOT / "docs" / "SETTINGS.md").read_text())
    assert len(set(own)) == len(own)
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= set(own)
    assert set(re.findall(r"\]\(SETTINGS\.md#([^)]*)\)", PAGE)) <= set(settings)


def test_the_page_fits_and_does_not_depend_on_the_machine() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > 120] == []
    assert not re.search(r"0x[0-9a-f]{6}|/home/|/tmp/|<[\w.]+ (object|function)", PAGE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("int | None", "int | None"),
        ("'RunSpec'", "RunSpec"),
        ("Literal['final', 'best'] | None", 'Literal["final", "best"] | None'),
        ("Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)]", "tuple[int, ...]"),
    ],
)
def test_types_are_shown_without_noise(text: str, shown: str) -> None:
    assert API["type_text"](ast.parse(text, mode="eval").body, "highwaynet.runs.spec") == shown


def test_docstrings_are_read_in_their_parts() -> None:
    text = Docstring.of("""One (He et al. 2015). Two.

    Args:
        a: First,
            continued.
        **b: Second.

    Raises:
        ValueError: Never.

    After.

    >>> 1 + 1
    2
    """)
    assert text.first_sentence == "One (He et al. 2015)."
    assert text.paragraphs == ["One (He et al. 2015). Two.", "After."]
    assert text.sections == {"Args": {"a": "First, continued.", "**b": "Second."}, "Raises": {"ValueError": "Never."}}
    assert text.example == ">>> 1 + 1\n2"


def test_type_checkers_see_the_names_that_are_loaded_on_first_use() -> None:
    tree = ast.parse(Path(highwaynet.__file__).read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(checked.body)
    seen = {alias.name: node.module for node in imports for alias in node.names if alias.asname == alias.name}
    assert seen == {name: f"highwaynet.{home}" for name, home in highwaynet._HOMES.items()}
    assert all(getattr(thing, "__module__", seen[name]) == seen[name] for name, thing in PUBLIC.items())
