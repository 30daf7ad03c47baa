"""`highway networks`."""

import re
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.specs import help_for, validated
from highwaynet.cli.output import console, print_json, print_table
from highwaynet.cli.overrides import parse_setting, parse_value
from highwaynet.networks.presets import PRESETS, Preset
from highwaynet.networks.spec import NetworkSpec

if TYPE_CHECKING:
    from highwaynet.networks.description import Description, LayerRow

PAPER_DEPTHS = [10, 20, 50, 100]
FOLD = 8
"""More equal layers than this, one after the other, are printed on one line."""


def networks_command(
    name: Annotated[str | None, typer.Argument(help="A network, to see its layers one by one; all networks if left out.")] = None,
    variant: Annotated[str | None, typer.Option(metavar="NAME", help=help_for(NetworkSpec, "variant"))] = None,
    depth: Annotated[
        list[int] | None,
        typer.Option(help="Dense networks: number of layers before the softmax; repeatable, the paper's four by default."),
    ] = None,
    width: Annotated[int | None, typer.Option(help=help_for(NetworkSpec, "width"))] = None,
    input_: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="CHANNELSxHEIGHTxWIDTH", help="Shape of a sample, or a number of values; by default MNIST's or CIFAR's."
        ),
    ] = None,
    outputs: Annotated[int, typer.Option(min=1, max=2**20, help="Classes.")] = 10,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="network.FIELD=VALUE", help="Set any field of the network, for instance network.head=gap; repeatable."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """List the networks with their layers, parameters and multiply-adds, or show one layer by layer.

    Example: highway networks highway-b --outputs 100
    """
    flags = {"variant": variant, "width": width, "depth": depth[0] if depth and name is not None else None}
    settings = {field: value for field, value in flags.items() if value is not None} | dict(map(_network_setting, set_ or []))
    if name is not None:
        if depth and len(depth) > 1:
            raise InputError(f"--depth {depth[1]}: one network is shown at one depth; leave the name out to compare several")
        _show_one(name, settings, input_, outputs, as_json)
        return
    rows: list[dict[str, Any]] = []
    unfit: list[str] = []
    problem: InputError | None = None
    for network, preset in PRESETS.items():
        if not set(settings) | ({"depth"} if depth else set()) <= preset.settings:
            continue
        versions: list[dict[str, Any]] = []
        for chosen in _versions(preset, depth):
            if (version := chosen | settings) not in versions:
                versions.append(version)
        try:
            rows += [_summary(network, version, input_, outputs) for version in versions]
        except InputError as error:
            problem = error
            unfit.append(network)
    if not rows:
        raise problem or InputError(f"no network has all of these settings: {', '.join(settings)}")
    if as_json:
        print_json({"outputs": outputs, "networks": rows})
        return
    print_table(
        [("network", "left"), ("layers", "right"), ("parameters", "right"), ("multiply-adds", "right"), ("origin", "left")],
        [
            [
                row["label"],
                str(row["layers"]),
                f"{row['parameters']:,}",
                _millions(row["multiply_adds"]),
                re.split("[:;,]", row["origin"])[0],
            ]
            for row in rows
        ],
        title=f"Networks, for {outputs:,} outputs and {input_ or 'the images they were made for'}; multiply-adds of one sample",
    )
    if unfit:
        console.print(f"left out, because that does not fit them: {', '.join(unfit)}", soft_wrap=True)
    console.print("One of them layer by layer, with its recipes: highway networks NAME", soft_wrap=True)


def _versions(preset: Preset, depths: list[int] | None) -> list[dict[str, Any]]:
    """What of a network is listed: dense ones at several depths, others with each head or variant that changes their numbers."""
    if not preset.traits.has_variants:
        return [{"depth": depth} for depth in depths or PAPER_DEPTHS]
    if "head" in preset.settings:
        return [{"head": head} for head in ("gap", "dense")]
    return [{"variant": variant} for variant in preset.origins] if preset.drawing == "resnet" else [{}]


def _spec(name: str, settings: dict[str, Any]) -> NetworkSpec:
    return validated(NetworkSpec, {"name": name} | settings, "network.")


def _summary(name: str, settings: dict[str, Any], input_: str | None, outputs: int) -> dict[str, Any]:
    """A line of the list."""
    from highwaynet.networks.summaries import summary_of

    spec = _spec(name, settings)
    known = summary_of(spec, _input_shape(input_, spec.preset), outputs)
    chosen = {"label": spec.label, "variant": spec.variant, "head": spec.head, "depth": spec.depth, "width": spec.width}
    counted = {"layers": known.layers, "parameters": known.parameters, "multiply_adds": known.multiply_adds}
    return {"name": name} | chosen | counted | {"input": list(known.input_shape), "origin": known.origin}


def _show_one(name: str, settings: dict[str, Any], input_: str | None, outputs: int, as_json: bool) -> None:
    from highwaynet.networks.description import describe
    from highwaynet.runs.recipes import recipes_of

    spec = _spec(name, settings)
    shape = _input_shape(input_, spec.preset)
    table = describe(spec, shape, outputs)
    recipes = {recipe: {"source": known.source} | known.training for recipe, known in recipes_of(name, spec.variant).items()}
    if as_json:
        layers = [vars(row) | {"number": number} for number, row in _numbered(table)]
        print_json(_summary(name, settings, input_, outputs) | {"summary": spec.preset.summary, "table": layers, "recipes": recipes})
        return
    columns = [
        ("layer", "right"),
        ("what", "left"),
        ("output", "left"),
        ("parameters", "right"),
        ("multiply-adds", "right"),
        ("gate bias", "right"),
    ]
    lines = [["", "input", _shape(shape), "", "", ""]]
    for row, group in groupby(_numbered(table), key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        folded = [numbers] if len(numbers) > FOLD else [[number] for number in numbers]
        lines += [_line(row, part) for part in folded]
    lines.append(["", "total", "", f"{table.parameters:,}", _millions(table.multiply_adds), ""])
    print_table(columns, lines, title=f"{name}: {spec.preset.summary}")
    console.print(f"origin: {spec.origin}", soft_wrap=True)
    if spec.variant is not None and len(spec.preset.origins) > 1:
        console.print(f"variants: {', '.join(spec.preset.origins)}", soft_wrap=True)
    for recipe, known in recipes.items():
        console.print(f"recipe {recipe}: {_recipe(known)} ({known['source']})", soft_wrap=True)


def _numbered(table: "Description") -> list[tuple[int | None, "LayerRow"]]:
    """Rows with the number of their (last) layer; None where they are no layer."""
    pairs, number = [], 0
    for row in table.rows:
        number += row.layers
        pairs.append((number if row.layers else None, row))
    return pairs


def _line(row: "LayerRow", numbers: list[int | None]) -> list[str]:
    times = f" ({len(numbers)} times)" if len(numbers) > 1 else ""
    first, last = (numbers[0] or 0) - max(row.layers - 1, 0), numbers[-1]
    count = "" if last is None else str(last) if first == last else f"{first}–{last}"
    bias = "" if row.gate_bias is None else f"{row.gate_bias:.3g}"
    parameters = f"{row.parameters:,}" if row.parameters else ""
    return [count, row.label + times, _shape(row.shape), parameters, _millions(row.multiply_adds) if row.multiply_adds else "", bias]


def _recipe(known: dict[str, Any]) -> str:
    """A recipe in a few words."""
    momentum = "" if known.get("nesterov") is None else " with Nesterov's momentum" if known["nesterov"] else " with momentum"
    return (
        f"{known['epochs']} epochs in batches of {known['batch_size']}, {known.get('optimiser', 'sgd')}{momentum}, learning rate "
        f"{known['learning_rate']:g}, {known['schedule']}, weight decay {known.get('weight_decay', 0):g}"
    )


def _network_setting(text: str) -> tuple[str, Any]:
    field, value = parse_setting(text)
    section, _, name = field.partition(".")
    if section != "network" or not name:
        raise InputError(f"--set {text!r}: only fields of the network apply here, for instance --set network.gate_bias=-2")
    if name == "name":
        raise InputError(f"--set {text!r}: name the network itself, for instance highway networks highway-b")
    if name not in NetworkSpec.model_fields:
        raise InputError(str(unknown("field of [network]", name, NetworkSpec.model_fields)))
    return name, value


def _input_shape(text: str | None, preset: Preset) -> tuple[int, ...]:
    """The shape of a sample: 784, 28x28 (one channel) or 3x32x32."""
    if text is None:
        return preset.made_for
    sizes = [parse_value(part) for part in text.lower().replace("×", "x").split("x")]
    if not 1 <= len(sizes) <= 3 or not all(isinstance(size, int) and 1 <= size <= 2**24 for size in sizes):
        raise InputError(f"--input {text!r}: write it as 784, 28x28 or 3x32x32")
    return (1, *sizes) if len(sizes) == 2 else tuple(sizes)


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _millions(count: int) -> str:
    return f"{count / 1e6:,.1f} M" if count >= 100_000 else f"{count:,}"
