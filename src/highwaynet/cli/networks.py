"""`highway networks`."""

from typing import Annotated, Any

import typer

from highwaynet.base.specs import help_for, validated
from highwaynet.cli.output import console, print_json, print_table
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec

PAPER_DEPTHS = [10, 20, 50, 100]


def networks_command(
    depth: Annotated[
        list[int] | None,
        typer.Option(help="Number of layers before the softmax; repeatable, the paper's four by default."),
    ] = None,
    width: Annotated[int | None, typer.Option(help=help_for(NetworkSpec, "width"))] = None,
    inputs: Annotated[int, typer.Option(min=1, max=2**24, help="Input values per sample; 784 is MNIST.")] = 784,
    outputs: Annotated[int, typer.Option(min=1, max=2**20, help="Classes.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """List the networks with their depth, width and parameters.

    Example: highway networks --depth 50 --inputs 64
    """
    import torch

    from highwaynet.networks.build import build_network, count_parameters

    rows: list[dict[str, Any]] = []
    for name, preset in PRESETS.items():
        for layers in depth or PAPER_DEPTHS:
            spec = validated(NetworkSpec, {"name": name, "depth": layers, "width": width})
            with torch.device("meta"):  # shapes without memory
                count = count_parameters(build_network(spec, (inputs,), outputs))
            rows.append({"name": name, "depth": layers, "width": spec.width, "parameters": count, "origin": preset.origin})
    if as_json:
        print_json({"inputs": inputs, "outputs": outputs, "networks": rows})
        return
    columns = [("network", "left"), ("depth", "right"), ("width", "right"), ("parameters", "right"), ("origin", "left")]
    print_table(
        columns,
        [[row["name"], str(row["depth"]), str(row["width"]), f"{row['parameters']:,}", row["origin"]] for row in rows],
        title=f"Networks, for {inputs:,} inputs and {outputs:,} outputs",
    )
    for name, preset in PRESETS.items():
        console.print(f"{name}: {preset.summary}", soft_wrap=True)
