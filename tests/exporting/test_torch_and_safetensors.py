"""Programs of torch.export and files of weights: they answer as we do, without this package."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from exporting.made_models import preset_model
from highwaynet import Plan, build_plan, export
from highwaynet.exporting.made_up import made_up

ALONE = """
import sys, json
sys.modules["highwaynet"] = None  # as if it were not installed
import numpy, torch
program = torch.export.load(sys.argv[1])
pixels = torch.from_numpy(numpy.load(sys.argv[2]))
with torch.no_grad():
    numpy.save(sys.argv[3], program.module()({"pixels": pixels})["probabilities"].numpy())
assert not any("highwaynet" in str(node.target) for node in program.graph.nodes if node.op == "call_function")
"""


def test_a_torch_program_needs_torch_only(tmp_path: Path) -> None:
    model = preset_model("fc-highway")
    path = export(model, tmp_path / "file.pt2", "torch").path
    samples = made_up(model, 5).given["pixels"]
    np.save(tmp_path / "in.npy", samples)
    subprocess.run([sys.executable, "-c", ALONE, path, tmp_path / "in.npy", tmp_path / "out.npy"], check=True, timeout=300)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model.predict_proba(samples), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "task"), [("mnist-highway-16", "classification"), ("resnet-20", "regression"), ("fitnet-a", "classification")]
)
def test_torch_programs_of_other_networks(name: str, task: str, tmp_path: Path) -> None:
    model = preset_model(name, task)
    exported = export(model, tmp_path / "file.pt2", "torch")
    assert exported.difference < 1e-5
    with zipfile.ZipFile(exported.path) as archive:
        texts = [archive.read(entry) for entry in archive.infolist()]
    assert not any(text.startswith(b"\x80") and b"torch" in text[:200] for text in texts)  # no pickle
    assert not any(str(Path(__file__).parents[2]).encode() in text for text in texts)  # no path of this machine


def test_safetensors_have_weights_plan_and_preparation(tmp_path: Path) -> None:
    model = preset_model("highway-a")
    path = export(model, tmp_path / "file.safetensors", "safetensors").path
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    network = build_plan(Plan.model_validate_json(facts["plan"])).eval()
    weights = {name.removeprefix("network."): value for name, value in load_file(path).items() if name.startswith("network.")}
    network.load_state_dict(weights)
    inputs = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(network(inputs), model.network(inputs))
    assert json.loads(facts["preparation"])["class_names"][0] == "class 0"
    assert json.loads(facts["classes"])[0] == "class 0"
    assert len(facts["fingerprint"]) == 64
