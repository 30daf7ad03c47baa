"""Removing layers greedily: always the one whose removal costs least. Says how many layers a network needs."""

from collections.abc import Sequence

from highwaynet.analysis.analysis_records import DepthRecord, Origin
from highwaynet.analysis.closing import closing, score_routes
from highwaynet.analysis.watching import Progress
from highwaynet.base.errors import InputError
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.network import Network
from highwaynet.networks.plan import Plan
from highwaynet.runs.run_records import Score


def removable_layers(plan: Plan) -> list[int]:
    """Return the numbers of the layers that can be removed: those that keep the shape of their input.

    Raises:
        InputError: If there is none, or if some are plain layers, which cannot be closed and ranked.
    """
    numbers = [number for number in range(1, plan.removable + 1) if _keeps_shape(plan, number)]
    if not plan.removable:
        raise InputError(f"{plan.name} has no layer that can be removed: it has no highway or residual layers, or all were removed before")
    if not numbers:
        raise InputError(f"{plan.name} has no layer that can be removed: shrinking needs highway or residual layers that keep their shape")
    if plan.closable != plan.removable:
        raise InputError(f"{plan.name} has plain layers: only highway and residual layers can be closed and ranked")
    return numbers


def _keeps_shape(plan: Plan, number: int) -> bool:
    try:
        plan.without([number])
    except ValueError:
        return False
    return True


def greedy_order(network: Network, split: Split, layers: Sequence[int], progress: Progress | None = None) -> tuple[list[int], list[Score]]:
    """Remove the cheapest layer, again and again. All candidates of a round share the computation up to where they differ.

    Args:
        network: The network; it stays as it is.
        split: The samples on which the loss is computed.
        layers: Numbers of the layers that may be removed.
        progress: Called with (done, total) candidates.

    Returns:
        The layers in the order of removal, and the scores after 0, 1, 2, … removals.
    """
    count, left, order = count_layers(network), list(layers), list[int]()
    intact = closing(count, ())
    scores = [score_routes(network, split, [intact])[intact]]
    done, total = 0, len(left) * (len(left) + 1) // 2
    while left:
        routes = {number: closing(count, {*order, number}) for number in left}
        found = score_routes(network, split, routes.values())
        cheapest = min(left, key=lambda number: found[routes[number]].loss)
        done += len(left)
        order.append(cheapest)
        left.remove(cheapest)
        scores.append(found[routes[cheapest]])
        if progress:
            progress(done, total)
    return order, scores


def analyse_depth(network: Network, split: Split, *, origin: Origin, progress: Progress | None = None) -> DepthRecord:
    """Score the network after removing 0, 1, 2, … layers, always the cheapest one, without further training.

    Args:
        network: A network with highway or residual layers.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        progress: Called with (done, total).
    """
    order, scores = greedy_order(network, split, removable_layers(network.plan), progress)
    return DepthRecord(**origin.fields(len(split)), removed=tuple(order), scores=tuple(scores))
