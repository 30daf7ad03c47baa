"""Every network as an ONNX file: ONNX Runtime, which nobody here wrote, answers as we do."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from exporting.made_models import model_of, preset_model, shaken
from highwaynet import HighwayError, InputError, TrainedModel, export, lesion
from highwaynet.exporting import onnx_layers
from highwaynet.exporting.checking import onnx_answer
from highwaynet.exporting.made_up import made_up
from highwaynet.networks.build import build_plan
from highwaynet.networks.plan import Affine, DenseStack
from highwaynet.networks.presets import PRESETS

SETTINGS = [
    *(pytest.param(name, {}, id=name) for name in PRESETS),
    pytest.param("fc-highway", {"carry": "independent", "activation": "relu", "dropout": (0.1, 0.2)}, id="independent-carry"),
    pytest.param("fc-plain", {"activation": "sigmoid"}, id="sigmoid"),
    *(pytest.param(name, {"members": 3}, id=f"{name}-members") for name in ("fc-highway", "fc-plain", "fc-residual", "fc-lstm")),
    pytest.param("fc-residual", {"activation": "identity"}, id="identity"),
    pytest.param("mnist-highway-16", {"carry": "independent", "activation": "tanh"}, id="conv-independent-carry"),
    pytest.param("plain-a", {"deep_supervision": True}, id="companions"),
    pytest.param("highway-a", {"head": "gap"}, id="gap"),
    pytest.param("resnet-20", {"variant": "2016"}, id="resnet-2016"),
    pytest.param("resnet-20", {"shortcut": "project"}, id="projection"),
]


def difference(model: TrainedModel, path: Path, count: int) -> float:
    """The largest difference between the answers of a file and ours."""
    samples = made_up(model, count, seed=7)
    found = onnx_answer(path.read_bytes())(samples.given)
    if model.data.task == "regression":
        return float(np.abs(found["prediction"] - model.predict(samples.own)).max()) / model.data.target_std
    return float(np.abs(found["probabilities"] - model.predict_proba(samples.own)).max())


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_every_network_answers_as_before(name: str, settings: dict[str, object], tmp_path: Path) -> None:
    model = preset_model(name, **settings)
    exported = export(model, tmp_path / "file.onnx")
    assert exported.difference < 1e-4
    for count in (1, 3):
        assert difference(model, exported.path, count) < 1e-4


@pytest.mark.parametrize("name", ["fc-highway", "fc-plain", "fc-residual", "mnist-highway-16"])
def test_a_large_batch(name: str, tmp_path: Path) -> None:
    model = preset_model(name)
    assert difference(model, export(model, tmp_path / "file.onnx").path, 1000) < 1e-4


@pytest.mark.parametrize("name", ["fc-highway", "highway-a"])
def test_regression(name: str, tmp_path: Path) -> None:
    model = preset_model(name, "regression")
    path = export(model, tmp_path / "file.onnx").path
    found = onnx_answer(path.read_bytes())(made_up(model, 3).given)
    assert found["prediction"].dtype == np.float64
    assert found["prediction"].shape == (3,)
    assert difference(model, path, 3) < 1e-4


@pytest.mark.parametrize("name", ["fc-highway", "highway-a", "resnet-20"])
def test_removed_layers(name: str, tmp_path: Path) -> None:
    whole = preset_model(name)
    model = whole.without([2, 3])
    path = export(model, tmp_path / "file.onnx").path
    assert difference(model, path, 3) < 1e-4
    assert difference(whole, path, 3) > 1e-4


@pytest.mark.parametrize("name", ["fc-highway", "fc-residual", "fc-lstm", "highway-a", "resnet-20"])
def test_closed_layers(name: str, tmp_path: Path) -> None:
    model = preset_model(name)
    with lesion(model.network, [2]):
        path = export(model, tmp_path / "file.onnx").path
        assert difference(model, path, 3) < 1e-4
    assert difference(model, path, 3) > 1e-5


@pytest.mark.parametrize("name", ["fc-highway", "highway-a"])
def test_affine_maps(name: str, tmp_path: Path) -> None:
    """As `highway shrink --replace` puts them in place of layers."""
    plan = preset_model(name).network.plan
    parts = list(plan.parts)
    if name == "fc-highway":
        place = next(place for place, part in enumerate(parts) if isinstance(part, DenseStack))
        stack = DenseStack("highway", 4, gate_bias=-1.0, carry="coupled")
        parts[place : place + 1] = [stack, Affine(), stack]
    else:
        parts[2] = Affine()
    model = model_of(shaken(build_plan(plan.model_copy(update={"parts": tuple(parts)}))))
    assert difference(model, export(model, tmp_path / "file.onnx").path, 3) < 1e-4


@pytest.mark.parametrize("steps", [("scale", "standardise"), ("gcn", "zca"), ("scale", "mean-image"), ("gcn",), ()])
@pytest.mark.parametrize("pixels", ["uint8", "float32"])
def test_preprocessing_steps(steps: tuple[str, ...], pixels: str, tmp_path: Path) -> None:
    network = preset_model("fc-highway").network
    shape, size = network.plan.input_shape, 784
    state = {
        "standardise.mean": torch.full((1, 1, 1), 0.4),
        "standardise.inverse_std": torch.full((1, 1, 1), 3.0),
        "mean-image.mean": torch.rand(*shape),
        "zca.mean": torch.rand(size),
        "zca.matrix": torch.eye(size) + 0.01 * torch.rand(size, size),
    }
    used = {name: value for name, value in state.items() if name.split(".")[0] in steps}
    base = model_of(network, pixels=pixels, preprocessing=steps)
    model = model_of(network, pixels=pixels, preprocessing=steps)
    model.preparation.preprocessing.__dict__["state"] = used
    path = export(model, tmp_path / "file.onnx").path
    assert difference(model, path, 3) < 1e-4
    (given,) = onnx.load(path).graph.input
    assert given.type.tensor_type.elem_type == {"uint8": onnx.TensorProto.UINT8, "float32": onnx.TensorProto.FLOAT}[pixels]
    assert base.data == model.data


@pytest.mark.parametrize(("kind", "names", "label"), [("whole number", ("3", "7"), 7), ("truth value", ("False", "True"), True)])
def test_labels_have_the_type_of_the_data(kind: str, names: tuple[str, ...], label: object, tmp_path: Path) -> None:
    network = shaken(build_plan(_with_outputs(2)))
    model = model_of(network, class_names=names, label_kind=kind)
    samples = made_up(model, 50)
    found = onnx_answer(export(model, tmp_path / "file.onnx").path.read_bytes())(samples.given)
    assert found["label"].tolist() == model.predict(samples.own).tolist()
    assert type(found["label"].tolist()[0]) is type(label)


def _with_outputs(outputs: int):  # type: ignore[no-untyped-def]
    from highwaynet import NetworkSpec
    from highwaynet.networks.architectures import plan_of

    return plan_of(NetworkSpec(name="fc-highway", depth=4), (1, 28, 28), outputs)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    path = export(preset_model("fc-highway"), tmp_path / "file.onnx").path
    model = onnx.load(path)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["network"] == "fc-highway"
    assert facts["classes"].startswith('["class 0", "class 1"')
    assert len(facts["fingerprint"]) == 64
    assert {"run", "checkpoint", "task", "inputs", "outputs", "highwaynet"} <= set(facts)
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)] == ["batch"] * 3
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 17}


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    first, second = (export(preset_model("fc-highway"), tmp_path / name).path.read_bytes() for name in ("one.onnx", "two.onnx"))
    assert first == second


def test_a_file_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = onnx_layers._mixed
    monkeypatch.setattr(onnx_layers, "_mixed", lambda graph, x, h, t, c=None: right(graph, x, t, h, c))
    with pytest.raises(HighwayError, match=r"file\.onnx answers otherwise than the network, .*nothing was written"):
        export(preset_model("fc-highway"), tmp_path / "file.onnx")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_layer_is_named(tmp_path: Path) -> None:
    class Strange(torch.nn.Module):
        pass

    model = preset_model("highway-a")
    model.network.layers[1] = Strange()  # type: ignore[index, operator]
    with pytest.raises(InputError, match="a network with a Strange cannot be exported to ONNX"):
        export(model, tmp_path / "file.onnx")
    assert list(tmp_path.iterdir()) == []


def test_wrong_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown export 'onxx': did you mean 'onnx'"):
        export(tmp_path, to="onxx")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no such run directory"):
        export(tmp_path / "nowhere")
    with pytest.raises(InputError, match="the model already has its weights"):
        export(preset_model("fc-highway"), tmp_path / "file.onnx", checkpoint="best")
