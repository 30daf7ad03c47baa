"""Milliseconds of a training step over depth and over batch size, for highwaynet and the naive module."""

from highwaynet.bench.bench_records import BenchRecord, Setting
from highwaynet.figures.style import COLOURS, WIDTH, Figure, house_style, log_scale


def draw_sweep(record: BenchRecord) -> Figure:
    """Draw two panels: over depth with batches of 128, and over batch size with 50 layers."""
    usual = Setting()
    with house_style():
        figure = Figure(figsize=(2 * WIDTH, 3.4))
        panels = figure.subplots(1, 2)
        for axes, field, label in zip(panels, ("layers", "batch"), ("layers", "samples in a batch"), strict=True):
            for number, peer in enumerate(dict.fromkeys(row.peer for row in record.sweep)):
                points: dict[int, float] = {}
                for row in record.sweep:
                    if row.peer == peer and row.setting.model_copy(update={field: getattr(usual, field)}) == usual:
                        place = getattr(row.setting, field)
                        points[place] = min(points.get(place, row.milliseconds), row.milliseconds)
                axes.plot(*zip(*sorted(points.items()), strict=True), color=COLOURS[number], marker="o", markersize=4, label=peer)
            axes.set_xscale("log")
            axes.set_xticks(sorted(points), [f"{place:,}" for place in sorted(points)])
            axes.minorticks_off()
            log_scale(axes.yaxis)
            axes.set_xlabel(label)
            axes.set_ylabel("ms per training step")
        panels[0].legend()
        environment = record.environment
        figure.suptitle(
            f"highway layers 50 wide, {environment.get('threads')} threads, {environment.get('processor')}, {environment.get('kernel')}",
            fontsize=9,
        )
        return figure
