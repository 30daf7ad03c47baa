"""Notes that keep people from trusting numbers that guessing would reach: skewed classes, and networks that learned nothing."""

import math

import torch
from torch import nn

from highwaynet.base.text import either, percent
from highwaynet.data.dataset import Split
from highwaynet.runs.load import load_network
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.training.evaluation import EVALUATION_BATCH, evaluating
from highwaynet.training.fitting import Fitting

SKEWED = 4
"""Classes are skewed if the largest has more than this many times the samples of the median of the others."""
DOMINANT = 0.6
"""With three or more classes they are also skewed if the largest has more than this share of the samples."""


def skewed_classes(train: Split, training: TrainingSpec) -> str | None:
    """Return a note if the classes of the training samples are skewed and count as they are; None if not."""
    record = train.preparation.record
    if record.task != "classification" or training.class_weight or training.objective:
        return None
    counts = train.class_counts()
    sizes = sorted(size for size in counts.tolist() if size)
    if len(sizes) < 2:
        return None
    share, others = sizes[-1] / sum(sizes), sizes[:-1]
    median = (others[(len(others) - 1) // 2] + others[len(others) // 2]) / 2
    if sizes[-1] <= SKEWED * median and not (len(sizes) > 2 and share > DOMINANT):
        return None
    largest = record.class_names[int(counts.argmax())]
    return f"class {largest} has {percent(share)} of the training samples; --class-weight balanced makes all classes count alike"


def no_better_than_guessing(fitting: Fitting) -> str | None:
    """Return a note if the trained network is no better than guessing, by the validation data or, without them, the training data.

    Guessing means the most frequent class of the training samples, or their mean. An accuracy must exceed that by a standard error. If all
    classes count alike (`training.class_weight`), the balanced accuracy may do so instead.
    """
    training, validation = fitting.training, fitting.data.validation
    history = fitting.run.read_history() if fitting.world.leads and fitting.objective.judges_outputs else []
    if not history:
        return None
    line, part = _answer(fitting, history), validation or fitting.data.train
    name, metrics = ("validation", line.validation) if validation and line.validation else ("training", line.train)
    if metrics.accuracy is not None:
        if sentence := _one_class_only(part, name):
            return sentence
        guessed = float((part.targets[part.rows] == int(fitting.data.train.class_counts().argmax())).double().mean())
        if metrics.accuracy > guessed + math.sqrt(guessed * (1 - guessed) / len(part)):
            return None
        if training.class_weight and _recognises_classes(load_network(fitting.run, data=part.preparation.record), part):
            return None
        found = f"its {name} accuracy is {percent(metrics.accuracy)}, and always guessing the most frequent class gives {percent(guessed)}"
        if metrics.accuracy > guessed:
            more = round((metrics.accuracy - guessed) * len(part))
            found += f" ({more} more of {len(part)} samples are right, which may be chance)"
    elif metrics.r2 is not None and metrics.r2 > 0:
        return None
    else:
        found = f"its {name} R² is {metrics.r2 or 0.0:.3f}, and guessing the mean gives 0"
    ways = ["--class-weight balanced"] if skewed_classes(fitting.data.train, training) else []
    ways += [f"a training.learning_rate below {training.learning_rate:g}"]
    ways += ["more epochs"] if len(history) >= training.epochs else []  # otherwise, it stopped early
    start = "not clearly better" if metrics.accuracy is not None and metrics.accuracy > guessed else "no better"
    return f"the network is {start} than guessing: {found}; try {either([*ways, 'another network'])}, and check the labels"


def _one_class_only(part: Split, name: str) -> str | None:
    """Return a note if a part has samples of one class only, so that any network could seem right; None if it has more."""
    names, counts = part.preparation.record.class_names, part.class_counts().tolist()
    absent = [repr(one) for one, count in zip(names, counts, strict=True) if not count]
    if len(absent) < len(names) - 1:
        return None
    which = f"class {absent[0]}" if len(absent) == 1 else f"{len(absent):,} of {len(names):,} classes, {absent[0]} for instance"
    return f"whether the network is better than guessing cannot be judged: the {name} part has no sample of {which}; give more samples"


def _answer(fitting: Fitting, history: list[EpochRecord]) -> EpochRecord:
    """Return the line of the history that is about the weights which are the run's answer."""
    best = fitting.state.best
    return history[best.epoch - 1] if best and fitting.run.answer == "best" else history[-1]


def _recognises_classes(network: nn.Module, split: Split) -> bool:
    """Whether the balanced accuracy exceeds that of guessing, one divided by the number of classes, by a standard error."""
    counts, weights = split.class_counts().double(), next(network.parameters())
    hits = torch.zeros_like(counts)
    with evaluating(network):
        for inputs, targets in split.batches(EVALUATION_BATCH):
            right = network(inputs.to(weights)).argmax(1).cpu() == targets
            hits += torch.bincount(targets[right], minlength=len(counts))
    present = counts > 0
    recall = hits[present] / counts[present]
    error = float((recall * (1 - recall) / counts[present]).sum().sqrt()) / len(recall)
    return float(recall.mean()) > 1 / len(recall) + error
