"""`highway bench`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from highwaynet.base.errors import InputError
from highwaynet.base.files import write_atomically
from highwaynet.cli.output import console, messages, print_json, print_table


def bench_command(
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads; by default all.")] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds for each comparison.")] = 6.0,
    only: Annotated[
        Literal["dense", "recurrent"] | None, typer.Option(help="Measure only dense networks, or only recurrent layers.")
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Also measure depths 10 … 1000 and batches of 32 … 1024, with a figure.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Measure wide stacks instead: CBHG, BiDAF, character CNN, ELMo.")] = False,
    compile_: Annotated[bool, typer.Option("--compile", help="Also measure torch.compile, which takes a minute to start.")] = False,
    out: Annotated[Path | None, typer.Option(help="A file for the record (.json); the figure is saved next to it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Measure a training step of thin, deep networks and of recurrent layers on this machine, and compare with PyTorch and JAX.

    With --wide, the stacks are those of systems that use highway layers, next to PyTorch modules with separate and with merged H and T.
    Peers that are not installed are skipped; JAX comes with the extra `bench`. Run nothing else at the same time.

    Example: highway bench --sweep --out bench.json
    """
    if out is not None and out.suffix != ".json":
        raise InputError(f"--out {out}: name a file that ends in .json")
    if wide:
        if sweep or compile_ or only:
            raise InputError(
                f"--wide and --{'sweep' if sweep else 'compile' if compile_ else 'only'}: choose one; --wide has its own shapes and peers"
            )
        _wide(seconds, threads, out, as_json)
        return
    from highwaynet.bench.bench_records import Measurement, RecurrentMeasurement
    from highwaynet.bench.measure import SETTINGS, run_bench
    from highwaynet.bench.recurrent import SETTINGS as RECURRENT_SETTINGS

    if sweep and out is not None:
        from highwaynet.figures.bench_plot import draw_sweep
    record = run_bench(
        settings=() if only == "recurrent" else SETTINGS,
        recurrent=() if only == "dense" else RECURRENT_SETTINGS,
        seconds=seconds,
        compile_too=compile_,
        sweep=sweep,
        threads=threads,
        report=lambda text: messages.print(f"measuring: {text}", soft_wrap=True),
    )
    if out is not None:
        write_atomically(out, record.model_dump_json(indent=2) + "\n")
        if sweep:
            draw_sweep(record).savefig(out.with_suffix(".png"), dpi=150)
    if as_json:
        print_json(record.model_dump())
        return

    def row(found: Measurement) -> list[str]:
        setting = found.setting
        what = f"{setting.kind}, {setting.layers}×{setting.width}, batch {setting.batch}"
        times = f"{found.times_naive:.2f}" if found.times_naive else ""
        return [what, found.peer, f"{found.milliseconds:.2f}", times, f"{found.gflops:.0f}", f"{found.share_of_product:.0%}"]

    columns = [
        ("network", "whole"),
        ("peer", "left"),
        ("ms per step", "right"),
        ("× naive", "right"),
        ("GFLOP/s", "right"),
        ("of product", "right"),
    ]
    columns_of_recurrent = [("recurrent layer", "whole"), *columns[1:4], ("× LSTM", "right"), columns[5]]

    def recurrent_row(found: RecurrentMeasurement) -> list[str]:
        setting = found.setting
        what = f"depth {setting.depth}, width {setting.width}, {setting.steps} steps, batch {setting.batch}"
        times = [f"{found.milliseconds:.2f}", f"{found.times_naive:.2f}", f"{found.times_lstm:.2f}"]
        return [what, found.peer, *times, f"{found.share_of_product:.0%}"]

    title = _title(record.environment)
    if dense := [row(found) for found in (*record.steps, *record.stacks, *record.sweep)]:
        print_table(columns, dense, title=title)
    if record.recurrent:
        print_table(columns_of_recurrent, [recurrent_row(found) for found in record.recurrent], title=title)
    console.print(f"product: a 2048×2048 matrix product, at {record.product_gflops:.0f} GFLOP/s", soft_wrap=True)


def _wide(seconds: float, threads: int | None, out: Path | None, as_json: bool) -> None:
    from highwaynet.bench.wide import run_wide

    record = run_wide(seconds=seconds, threads=threads, report=lambda text: messages.print(f"measuring: {text}", soft_wrap=True))
    if out is not None:
        write_atomically(out, record.model_dump_json(indent=2) + "\n")
    if as_json:
        print_json(record.model_dump())
        return
    rows = []
    for found in record.steps:
        setting = found.setting
        what = f"{setting.system}, {setting.layers}×{setting.width}, {setting.rows:,} rows"
        rows.append([what, found.peer, f"{found.milliseconds:.1f}", f"{found.times_by_hand:.2f}", f"{found.gflops:.0f}"])
    columns = [("stack", "whole"), ("peer", "left"), ("ms per step", "right"), ("× by hand", "right"), ("GFLOP/s", "right")]
    print_table(columns, rows, title=_title(record.environment))
    console.print("by hand: the faster one of naive and merged PyTorch", soft_wrap=True)


def _title(environment: dict[str, Any]) -> str:
    return f"{environment['processor']}, {environment['threads']} threads, kernel {environment['kernel']}"
