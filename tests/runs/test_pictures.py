"""Prediction for images as people have them: paths, folders, lists, images of Pillow, of any size."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from highwaynet import InputError, RunSpec, TrainedModel, load, train


def picture(bright: bool, size: int, seed: int) -> Image.Image:
    low = 128 if bright else 0
    return Image.fromarray(np.random.default_rng(seed).integers(low, low + 127, (size, size, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    root = tmp_path_factory.mktemp("pictures")
    for name in ("bright", "dark"):
        (root / "set" / name).mkdir(parents=True)
        for number in range(24):
            picture(name == "bright", 12, number).save(root / "set" / name / f"{number}.png")
    spec = RunSpec.for_data(root / "set", network={"name": "fc-highway", "depth": 3}, training={"epochs": 15, "threads": 1})
    return load(train(spec, root / "run").path)


def test_every_form_gives_the_same(model: TrainedModel, tmp_path: Path) -> None:
    shown = [picture(bright, 31, 99) for bright in (True, False)]
    for number, image in enumerate(shown):
        image.save(tmp_path / f"{number}.png")
    paths = [tmp_path / "0.png", tmp_path / "1.png"]
    expected = model.predict_proba(paths)
    assert model.predict(paths).tolist() == ["bright", "dark"]
    assert model.classes.tolist() == ["bright", "dark"]
    for form in (tmp_path, str(tmp_path), [str(path) for path in paths], tuple(shown), [shown[0], paths[1]]):
        assert np.array_equal(model.predict_proba(form), expected)
    assert np.array_equal(model.predict_proba(shown[0]), expected[:1])
    assert np.array_equal(model.predict_proba(paths[1]), expected[1:])
    array = np.stack([np.asarray(image.resize((12, 12), Image.Resampling.BILINEAR)) for image in shown])
    assert np.allclose(model.predict_proba(array), expected, atol=1e-6)


def test_grey_and_transparent_pictures_are_converted(model: TrainedModel) -> None:
    image = picture(True, 12, 5)
    assert model.predict([image.convert("L"), image.convert("RGBA"), image.convert("P")]).tolist() == ["bright"] * 3


def test_wrong_pictures(model: TrainedModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.png: no such file or folder"):
        model.predict(tmp_path / "nothing.png")
    with pytest.raises(InputError, match="no images"):
        model.predict(tmp_path)
    (tmp_path / "bad.png").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"bad\.png is not a PNG"):
        model.predict([tmp_path / "bad.png"])
