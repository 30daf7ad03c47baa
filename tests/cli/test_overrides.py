"""Flags on top of a file: what depends on a changed field goes back to its default, everything else stays."""

from pathlib import Path

import pytest

from highwaynet.cli.overrides import gather_spec
from highwaynet.runs.spec import RunSpec


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The complete spec of a dense run."""
    path = tmp_path / "dense.toml"
    path.write_text(gather_spec(None, {"network.depth": "20", "training.epochs": "7", "training.learning_rate": "0.05"}, []).to_toml())
    return path


def with_flags(path: Path, **flags: str) -> RunSpec:
    return gather_spec(path, {field.replace("__", "."): value for field, value in flags.items()}, [])


def test_another_dense_network_keeps_depth_and_learning_rate(written: Path) -> None:
    spec = with_flags(written, network__name="fc-plain")
    assert (spec.network.depth, spec.network.width, spec.network.gate_bias) == (20, 71, None)
    assert (spec.training.epochs, spec.training.learning_rate) == (7, 0.05)


def test_a_network_of_another_family_takes_its_own_settings(written: Path, tmp_path: Path) -> None:
    spec = with_flags(written, network__name="highway-a", data__name="cifar-10")
    assert (spec.network.depth, spec.network.activation, spec.network.init) == (11, "relu", "he")
    assert (spec.training.recipe, spec.training.learning_rate, spec.training.epochs) == ("quick", 0.08, 7)
    assert spec.training.crop == 4
    back = tmp_path / "conv.toml"
    back.write_text(spec.to_toml())
    dense = with_flags(back, network__name="fc-highway", data__name="digits")
    assert (dense.training.recipe, dense.training.schedule, dense.training.crop, dense.data.preprocessing) == (None, "exponential", 0, None)


def test_another_recipe_replaces_all_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "quick.toml"
    path.write_text(gather_spec(None, {"network.name": "highway-b", "data.name": "cifar-10", "training.threads": "1"}, []).to_toml())
    spec = with_flags(path, training__recipe="released")
    fresh = gather_spec(
        None, {"network.name": "highway-b", "data.name": "cifar-10", "training.recipe": "released", "training.threads": "1"}, []
    )
    assert spec == fresh


def test_other_data_are_not_mirrored_because_the_first_were(tmp_path: Path) -> None:
    path = tmp_path / "photographs.toml"
    path.write_text(gather_spec(None, {"network.name": "highway-a", "data.name": "cifar-10"}, []).to_toml())
    assert with_flags(path, data__name="mnist").training.mirror is False


def test_another_variant_brings_its_dropout(tmp_path: Path) -> None:
    path = tmp_path / "paper.toml"
    path.write_text(gather_spec(None, {"network.name": "mnist-highway-16"}, []).to_toml())
    assert with_flags(path, network__variant="released").network.dropout == (0.2, 0.3, 0.4, 0.5)


def test_a_complete_file_is_taken_as_it_is(written: Path) -> None:
    assert gather_spec(written, {}, []).to_toml() == written.read_text()


@pytest.mark.parametrize("recipe", ["paper"])
@pytest.mark.parametrize("network", ["fc-highway", "fc-plain"])
def test_a_recipe_on_top_of_a_run_that_had_none_is_applied(network: str, recipe: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(gather_spec(None, {"network.name": network}, []).to_toml())
    assert with_flags(path, training__recipe=recipe) == gather_spec(None, {"network.name": network, "training.recipe": recipe}, [])


def test_a_recipe_on_top_of_a_written_file_leaves_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[training]\nlearning_rate = 0.07\n")
    spec = with_flags(path, training__recipe="paper")
    assert (spec.training.learning_rate, spec.training.epochs) == (0.07, 400)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("highway-a", "highway-b"),
        ("highway-b", "highway-c"),
        ("resnet-20", "resnet-32"),
        ("fitnet-a", "fitnet-b"),
        ("plain-a", "highway-a"),
        ("highway-a", "plain-a"),
        ("mnist-plain-16", "mnist-highway-16"),
        ("resnet-20", "highway-a"),
        ("nin", "fc-highway"),
    ],
)
def test_any_network_on_top_of_any_run(first: str, second: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(gather_spec(None, {"network.name": first, "data.name": "cifar-10"}, []).to_toml())
    fresh = gather_spec(None, {"network.name": second, "data.name": "cifar-10"}, [])
    assert with_flags(path, network__name=second).network == fresh.network


def test_another_variant_brings_its_recipe_where_that_differs(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(gather_spec(None, {"network.name": "resnet-20", "data.name": "cifar-10"}, []).to_toml())
    fresh = gather_spec(None, {"network.name": "resnet-20", "network.variant": "2016", "data.name": "cifar-10"}, [])
    assert with_flags(path, network__variant="2016") == fresh


def test_another_optimiser_takes_its_own_learning_rate(tmp_path: Path) -> None:
    """On top of a run as on top of a recipe: what suits one optimiser is far too much for another."""
    path = tmp_path / "spec.toml"
    for network in ("fc-highway", "highway-a"):
        path.write_text(gather_spec(None, {"network.name": network, "data.name": "cifar-10"}, []).to_toml())
        fresh = gather_spec(None, {"network.name": network, "data.name": "cifar-10"}, ["training.optimiser=adamw"])
        assert gather_spec(path, {}, ["training.optimiser=adamw"]) == fresh
        assert fresh.training.learning_rate == 0.002
        assert gather_spec(path, {"training.learning_rate": "0.01"}, ["training.optimiser=adamw"]).training.learning_rate == 0.01
        assert gather_spec(path, {}, ["training.optimiser=sgd"]).to_toml() == path.read_text()


def test_without_momentum_there_is_none_of_nesterovs(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(gather_spec(None, {"network.name": "highway-a", "data.name": "cifar-10"}, []).to_toml())
    assert with_flags(path, training__momentum="0.8").training.nesterov is True
    assert with_flags(path, training__momentum="0").training.nesterov is False
