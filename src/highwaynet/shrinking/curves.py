"""Removal curves: what is left of a network after 0, 1, 2, … layers are removed, by every criterion, without further training."""

from collections.abc import Callable

from highwaynet.analysis.closing import closing, score_routes
from highwaynet.analysis.collect import Study
from highwaynet.analysis.watching import Progress, batch_size
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import count_layers
from highwaynet.shrinking.criteria import Ranking, rank
from highwaynet.shrinking.names import CRITERIA, Criterion
from highwaynet.shrinking.shrink_record import RemovalCurve, RemovalCurves
from highwaynet.shrinking.states import measure_states

MOST_FOR_CURVES = 5000
"""Samples on which the curves are computed, at most."""

MOST_FOR_GREEDY = 200
"""With more layers greedy lesions take hours: their time grows with the cube."""

Announce = Callable[[str], Progress | None]
"""Called with what is computed next; returns a function for its progress."""


def selection_part(study: Study) -> Split:
    """Return the samples that decide: validation samples, or training samples if there are none."""
    return study.data.validation or study.data.train


def compute_curves(study: Study, samples: int, chosen: Criterion, show: Announce = lambda title: None) -> RemovalCurves:
    """Rank the layers by every criterion that applies, and score what each leaves.

    Args:
        study: The run.
        samples: Training samples for the rankings.
        chosen: The criterion that is used; greedy is left out for very deep networks unless it is this one.
        show: Called with what is computed next.

    Raises:
        InputError: If the network has no layer that can be removed.
    """
    network, rankings = study.network, list[Ranking]()
    train = study.data.train.spread(samples)
    states = measure_states(network, train, batch_size(network), progress=show("measuring layers"))
    for criterion in CRITERIA:
        if criterion == "greedy" and chosen != "greedy" and network.plan.closable > MOST_FOR_GREEDY:
            continue
        if criterion != "gates" or study.has_gates:
            progress = show(f"ranking layers: {criterion}")
            rankings.append(rank(criterion, network, train, states=states, progress=progress))
    count = count_layers(network)
    routes = {removed: closing(count, removed) for ranking in rankings for removed in ranking.removed}
    split = selection_part(study).spread(MOST_FOR_CURVES)
    scores = score_routes(network, split, routes.values(), show("scoring what is left"))
    return RemovalCurves(
        fingerprint=study.run.fingerprint(),
        samples=len(train),
        part="validation" if study.data.validation else "train",
        curves=tuple(
            RemovalCurve(
                criterion=ranking.criterion,
                removed=ranking.removed,
                scores=tuple(scores[routes[removed]] for removed in ranking.removed),
            )
            for ranking in rankings
        ),
    )
