"""Writes docs/API.md from signatures and docstrings: python docs/api.py (a test fails if the page is out of date)."""

import ast
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import highwaynet

PAGE, WIDTH = Path(__file__).parent / "API.md", 120
PUBLIC = {name: getattr(highwaynet, name) for name in highwaynet.__all__ if name != "__version__"}
START = f"""All {len(PUBLIC)} names of the package, by what you want to do: signature, arguments, errors and, if it is short, an example.
Examples assume `import torch`, `from torch import nn` and `from highwaynet import *`. Types that are not names of the package are explained
[at the end](#types-in-signatures). `highwaynet.__version__` is the version."""
GROUPS = {
    "Train and evaluate": "train evaluate load TrainedModel Predictions export Exported train_seeds SeedsRecord Score",
    "Estimators": "HighwayClassifier HighwayRegressor",
    "Look inside": "inspect Study explore observe lesion",
    "Layers": "DenseHighway DensePlain DenseResidual DenseMaxout DepthLSTM ConvHighway ConvHighway1d ConvPlain ConvResidual ConvMaxout "
    "Highway RecurrentHighway PadChannels Subsample auto_gate_bias recompute matrix_parameters MatrixParameters unstacked",
    "Blocks": "CharacterCNN CBHG GatedResidualNetwork",
    "Networks": "list_networks NetworkSummary build_network build_plan Plan",
    "Data": "load_dataset Dataset",
    "Runs and settings": "RunSpec NetworkSpec DataSpec TrainingSpec StartSpec TeacherSpec RunDirectory",
    "Objectives and watching": "Objective Classification Regression Batch BatchLoss Watcher Interruption",
    "Errors": "HighwayError InputError DivergenceError InterruptedRunError",
}
ABOUT = {
    "Estimators": "Networks with scikit-learn's interface; see [Estimators](ESTIMATOR.md).",
    "Train and evaluate": "`RunSpec` has the settings of a run, `train` writes a run directory, `evaluate` and `load` read it.",
    "Look inside": "`inspect` analyses a trained run, `explore` writes a page to try it; "
    "`observe` and `lesion` work on any model that contains layers of this package.",
    "Layers": "Modules for your own models, all subclasses of `nn.Module`, and functions for them.",
    "Blocks": "Blocks of published systems that use highway layers, ready to use.",
    "Errors": "Errors to catch; each message is one sentence for the user. Layers raise `ValueError` for wrong arguments.",
}
SETTINGS = {
    "RunSpec": "all-settings-of-a-run",
    "NetworkSpec": "network",
    "DataSpec": "data",
    "TrainingSpec": "training",
    "StartSpec": "start",
    "TeacherSpec": "teacher",
}
"""Specs whose fields are on the page of settings, with their anchors there."""
HIDDEN = {"extra_repr", "kernel_kind", "InterruptedRunError.with_way", "Interruption.check", "TrainingSpec.interval"}
SHOWN = {
    "RunDirectory": "open name answer finished has_diverged read_spec read_history read_events read_seconds read_environment load_plan",
    "Plan": "outputs removable without",
    "NetworkSpec": "kind origin label title",
    "DataSpec": "built_in in_memory title",
}
"""The members to show, for classes of which users need only some; of other classes all that are not hidden are shown."""
FOUND: dict[tuple[str, str], str] = {}  # types to explain at the end, by name and module


class Docstring(NamedTuple):
    """The parts of a docstring in Google style."""

    paragraphs: list[str]
    sections: dict[str, dict[str, str]]
    """Args, Attributes and Raises: the text of each name."""
    example: str

    @classmethod
    def of(cls, text: str | None) -> "Docstring":
        """Parse a docstring with paragraphs, sections and one doctest, in any order."""
        prose, sections, example, section = "", dict[str, dict[str, str]](), list[str](), ""
        for line in inspect.cleandoc(text or "").splitlines():
            if line in {"Args:", "Attributes:", "Raises:"}:
                section = line[:-1]
                sections[section] = {}
            elif line.startswith(">>>") or (line and section == "Example"):
                section = "Example"
                example.append(line)
            elif section in sections and (item := re.match(r"    ([*\w]+): (.*)", line)):
                sections[section][item[1]] = item[2]
            elif section in sections and line.startswith("      "):
                sections[section][[*sections[section]][-1]] += " " + line.strip()
            else:
                section, prose = "", prose + line + "\n"
        return cls([" ".join(part.split()) for part in prose.split("\n\n") if part.strip()], sections, "\n".join(example))

    @property
    def first_sentence(self) -> str:
        """The first sentence, for tables of contents; "et al." does not end a sentence."""
        return re.split(r"(?<=\.)(?<! al\.)\s", "".join(self.paragraphs[:1]))[0]


@cache
def syntax(thing: Any) -> Any:
    """Return the syntax tree of a module, function or class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing))))
    return tree if inspect.ismodule(thing) else tree.body[0]


def assignments(thing: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the names that a module or class assigns, each with its syntax tree and docstring."""
    for node, after in pairwise([*syntax(thing).body, ast.Pass()]):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            name = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            yield ast.unparse(name), node, " ".join(str(after.value.value).split()) if is_text else ""


def own_classes(cls: type) -> list[type]:
    """Return the class, and before it those of its bases in this package that have no entry of their own."""
    ours = [base for base in reversed(cls.__mro__) if base.__module__.startswith("highwaynet.")]
    return [base for base in ours if base is cls or base.__name__ not in PUBLIC]


def fields(cls: Any) -> dict[str, tuple[str, str]]:
    """Return type and docstring of each field of a spec, a dataclass or a named tuple."""
    if not any(hasattr(cls, mark) for mark in ("model_fields", "__dataclass_fields__", "_fields")):
        return {}
    rows = [(name, node, base, text) for base in own_classes(cls) for name, node, text in assignments(base)]
    described = {name: field.description or "" for name, field in getattr(cls, "model_fields", {}).items()}
    return {
        name: (type_text(node.annotation, base.__module__), text or described.get(name, ""))
        for name, node, base, text in rows
        if isinstance(node, ast.AnnAssign) and not name.startswith("_")
    }


def members(cls: type) -> Iterator[ast.FunctionDef]:
    """Yield the methods and properties to show."""
    for node in (node for base in own_classes(cls) for node in syntax(base).body if isinstance(node, ast.FunctionDef)):
        is_other = {"overload", f"{node.name}.setter"} & {ast.unparse(decorator) for decorator in node.decorator_list}
        is_hidden = node.name.startswith("_") or {node.name, f"{cls.__name__}.{node.name}"} & HIDDEN
        if not is_other and not is_hidden and node.name in SHOWN.get(cls.__name__, node.name).split():
            yield node


def type_text(node: Any, module: str) -> str:
    """Return a type as it is written, but without quotes, and with int for Annotated[int, Field(ge=1)]."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node).replace("'", '"')
    for _ in range(text.count("Annotated")):  # from the inside to the outside
        text = re.sub(r"Annotated\[((?:(?!Annotated).)*), Field\([^()]*\)\]", r"\1", text)
    return re.sub(r'(?<![\w."-])\b[A-Za-z]\w*\b(?![".])', lambda name: name_text(name[0], module), text)


def name_text(name: str, module: str) -> str:
    """Return the name of a type; types of this package that are not public are added to FOUND."""
    imports = [line for line in ast.walk(syntax(sys.modules[module])) if isinstance(line, ast.ImportFrom)]
    home = next((line.module or "" for line in imports if name in {alias.name for alias in line.names}), module)
    value = getattr(sys.modules.get(home), name, None)
    if typing.get_origin(value) is typing.Annotated:
        return str(typing.get_args(value)[0].__name__)
    if value is not None and name not in PUBLIC and home.startswith("highwaynet."):
        FOUND[name, home] = meaning(name, value, sys.modules[home])
    return name


def meaning(name: str, value: Any, module: Any) -> str:
    """Explain a type: the first sentence and members of a class, or the definition of an alias."""
    if not isinstance(value, type):
        node, text = next((node, text) for other, node, text in assignments(module) if other == name)
        return f"`{ast.unparse(node.value)}`. {text}".replace("'", '"')
    names = [
        field for base in own_classes(value) for field, node, _ in assignments(base) if isinstance(node, ast.AnnAssign) and field[0] != "_"
    ]
    names += [node.name for node in members(value)]
    return Docstring.of(value.__doc__).first_sentence + (f" Has `{', '.join(names)}`." if names else "")


def parameters(thing: Any) -> dict[str, tuple[inspect.Parameter, str]]:
    """Return the arguments of a function or class, each with its type."""
    types = {name: kind for name, (kind, _) in fields(thing).items()}
    if not types:
        function = inspect.unwrap(vars(thing).get("__init__", object.__init__) if isinstance(thing, type) else thing)
        written: list[Any] = list(ast.walk(syntax(function).args)) if function is not object.__init__ else []
        types = {node.arg: type_text(node.annotation, function.__module__) for node in written if getattr(node, "annotation", None)}
    known = inspect.signature(thing).parameters if types else {}
    return {name: (parameter, types[name]) for name, parameter in known.items() if name != "self"}


def value_text(value: object) -> str:
    """Return a default value as text; "..." for functions."""
    if value is None or isinstance(value, str | int | float | tuple):
        return repr(value).replace("'", '"')
    return "..." if callable(value) else f"{type(value).__name__}()"


def signature(name: str, thing: Any, width: int = WIDTH) -> str:
    """Return the signature with types and defaults, on one line if it fits."""
    words: list[str] = []
    for parameter, kind in parameters(thing).values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {value_text(parameter.default)}"
        words.append(f"{stars}{parameter.name}: {kind}{default}")
    result = "" if isinstance(thing, type) else f" -> {type_text(syntax(thing).returns, thing.__module__)}"
    if inspect.isgeneratorfunction(inspect.unwrap(thing)):  # a context manager
        result = result.replace("Iterator", "AbstractContextManager")
    line = f"{name}({', '.join(words)}){result}"
    return line if len(line) <= width else "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])


def wrapped(text: str, first: str = "", rest: str = "", about: str = "") -> list[str]:
    """Wrap prose, with links for names other than `about`, but not for "`name`:" in lists; no line starts like a Markdown list."""
    names = "|".join(name for name in PUBLIC if name != about)
    linked = re.sub(rf"(?<!`)`({names})`(?![`:])", lambda found: f"[{found[0]}](#{found[1].lower()})", " ".join(text.split()))
    held = re.sub(r" (?=(?:[-+=>#*]|\d+[.)]) )", "\xa0", linked)
    lines = textwrap.wrap(held, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def listed(items: dict[str, str], about: str = "", *, mark: str = ":", title: str = "", indent: str = "") -> list[str]:
    """Return a list of names with their texts, below its title."""
    rows = [line for name, text in items.items() for line in wrapped(f"`{name}`{mark} {text}", f"{indent}- ", f"{indent}  ", about)]
    return [f"**{title}**", "", *rows, ""] if rows and title else rows


def member(cls: type, node: ast.FunctionDef) -> list[str]:
    """Return the lines about a method or property."""
    text, value = Docstring.of(ast.get_docstring(node)), getattr(cls, node.name)
    name = f"{cls.__name__}.{node.name}" if inspect.ismethod(value) else node.name  # of the class, or of an object
    form = signature(name, value, sys.maxsize) if callable(value) else f"{node.name}: {type_text(node.returns, cls.__module__)}"
    return listed({form: text.first_sentence}, node.name) + listed(text.sections.get("Args", {}), node.name, indent="  ")


def entry(name: str) -> list[str]:
    """Return the section about one name."""
    thing, text = PUBLIC[name], Docstring.of(PUBLIC[name].__doc__)
    form = f"{name}(**fields)" if name in SETTINGS and len(thing.model_fields) > 10 else signature(name, thing)
    if isinstance(thing, type) and issubclass(thing, Exception):
        form = f"class {name}({thing.__mro__[1].__name__})"
    lines = [f"### {name}", "", "```python", form, "```", ""]
    for paragraph in text.paragraphs:
        lines += [*wrapped(paragraph, about=name), ""]
    own = listed({field: words for field, (_, words) in fields(thing).items()}, name, title="Fields") if name not in SETTINGS else []
    lines += own or ([f"Its fields are explained in [SETTINGS.md](SETTINGS.md#{SETTINGS[name]}).", ""] if name in SETTINGS else [])
    lines += listed(text.sections.get("Args", {}), name, title="Arguments")
    lines += listed(text.sections.get("Attributes", {}), name, title="Attributes")
    lines += listed(text.sections.get("Raises", {}), mark=" –", title="Raises")
    lines += ["```pycon", text.example, "```", ""] if text.example else []
    rows = [line for node in members(thing) for line in member(thing, node)] if isinstance(thing, type) else []
    return lines + (["**Methods and properties**", "", *rows, ""] if rows else [])


def page() -> str:
    """Return the whole page."""
    FOUND.clear()
    lines = ["# What `import highwaynet` offers", "", *wrapped(START), ""]
    for title, names in GROUPS.items():
        contents = {name: Docstring.of(PUBLIC[name].__doc__).first_sentence for name in names.split()}
        lines += [f"## {title}", "", *wrapped(ABOUT.get(title, "")), "", *listed(contents, mark=" –"), ""]
        lines += [line for name in contents for line in entry(name)]
    lines += ["## Types in signatures", "", "Types of the package that `import highwaynet` does not offer, each with its module.", ""]
    lines += [line for (name, home), text in sorted(FOUND.items()) for line in wrapped(f"`{name}` (`{home}`): {text}", "- ", "  ")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
