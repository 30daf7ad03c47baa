"""Records in words."""

from statistics import mean

from highwaynet.analysis.records import GatesRecord, LesionsRecord
from highwaynet.base.text import loss_text, percent
from highwaynet.runs.records import Score

PART_NAMES = {"train": "training", "validation": "validation", "test": "test"}

IDLE_ACCURACY = 0.001
IDLE_LOSS = 0.01
"""A layer counts as idle if closing it changes the accuracy by no more than this; in a regression the loss by no more than this share."""


def lesion_finding(record: LesionsRecord) -> str:
    """Which layer matters most, and how many do nothing when taken one at a time."""
    worst = max(range(len(record.closed)), key=lambda index: record.closed[index].loss)
    worst_loss, part = record.closed[worst].loss, PART_NAMES[record.part]
    idle = sum(_idle(record.intact, score) for score in record.closed)
    limit = (
        f"0.1 percentage points' change of the {part} accuracy ({record.intact.headline})"
        if record.intact.accuracy is not None
        else f"1 % change of the {part} loss"
    )
    most = (
        f"Layer {worst + 1} matters most: without it the loss goes from {loss_text(record.intact.loss)} to {loss_text(worst_loss)}."
        if worst_loss > record.intact.loss
        else "No layer, closed alone, raises the loss."
    )
    return f"{idle} of {len(record.closed)} layers can be closed one at a time with at most {limit}. {most}"


def _idle(intact: Score, closed: Score) -> bool:
    if intact.accuracy is not None and closed.accuracy is not None:
        return abs(closed.accuracy - intact.accuracy) <= IDLE_ACCURACY
    return abs(closed.loss - intact.loss) <= IDLE_LOSS * intact.loss


def gate_finding(record: GatesRecord) -> str:
    """How open the gates are on average, and where their biases went."""
    opening = [mean(row) for row in record.mean]  # of each layer
    busiest = max(range(len(opening)), key=lambda index: opening[index])
    fell = mean(float(value < record.start_bias) for row in record.bias for value in row)
    return (
        f"Over {record.samples:,} {PART_NAMES[record.part]} samples the transform gates are open by {mean(opening):.2f} on average "
        "(1 is fully open), "
        f"most in layer {busiest + 1} ({opening[busiest]:.2f}). All gate biases started at {record.start_bias:.3g}; "
        f"training lowered {percent(fell)} of them."
    )
