"""A trained model as a .safetensors file: the weights and, as JSON in its metadata, the plan and the preparation."""

import json

import torch
from safetensors.torch import load, save

from highwaynet.base.errors import HighwayError
from highwaynet.exporting.made_up import made_up
from highwaynet.exporting.origin import Export
from highwaynet.networks.build import build_plan
from highwaynet.networks.plan import Plan

NETWORK, PREPARATION = "network.", "preparation."
"""How the names of tensors start: weights of the network, and statistics of the preprocessing."""


def safetensors_file(export: Export, name: str) -> tuple[bytes, float]:
    """Return the content of the file, and the difference of its answers, which is 0.

    Raises:
        HighwayError: If a network that is built from the file answers otherwise.
    """
    model = export.model
    tensors = {NETWORK + key: value.contiguous() for key, value in model.network.state_dict().items()}
    tensors |= {PREPARATION + key: value.contiguous() for key, value in model.preparation.preprocessing.state.items()}
    facts = {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in export.facts.items()}
    facts |= {"plan": model.network.plan.model_dump_json(), "preparation": model.data.model_dump_json()}
    content = save(tensors, facts)
    network = build_plan(Plan.model_validate_json(facts["plan"]), generator=torch.Generator()).eval()
    network.load_state_dict({key.removeprefix(NETWORK): value for key, value in load(content).items() if key.startswith(NETWORK)})
    samples = made_up(model, 2)
    with torch.inference_mode():
        own, again = model.outputs(samples.own), type(model)(network, model.preparation, model.spec, model.run).outputs(samples.own)
    if not torch.equal(own, again):
        raise HighwayError(f"{name} answers otherwise than the network: nothing was written; please report it")
    return content, 0.0
