"""Images are read in every mode, resized and cropped as PyTorch does it, or refused."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay_vision.image_files import open_image
from enginebay_vision.steps import Placement

if TYPE_CHECKING:
    from pathlib import Path


def noise(height: int, width: int, channels: int = 3) -> Image.Image:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8))


def array(image: Any, **fields: Any) -> Any:
    task = vision.ImageClassification(image=vision.ImageInput(input="x", **fields))
    return task.preprocess(image)["x"]


def test_pixels_are_scaled_and_laid_out_as_specified() -> None:
    image = noise(3, 5)
    pixels = np.asarray(image).astype(np.float64)
    found = array(image)
    assert found.dtype == np.float32
    assert np.allclose(found[0], pixels.transpose(2, 0, 1) / 255, atol=1e-6)
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    found = array(image, mean=mean, std=std, layout="NHWC", channels="BGR")
    assert np.allclose(found[0], (pixels[..., ::-1] / 255 - mean) / std, atol=1e-6)
    grey = array(image, channels="L", scale=1.0, mean=(127.5,))
    assert np.allclose(grey[0, 0], np.asarray(image.convert("L")) - 127.5)
    raw = array(image, scale=1, dtype="uint8")
    assert (raw.dtype, raw.shape) == (np.uint8, (1, 3, 3, 5))
    assert np.array_equal(raw[0].transpose(1, 2, 0), np.asarray(image))
    assert array(image, dtype="float16").dtype == np.float16


@pytest.mark.parametrize("size", [(97, 131), (40, 31), (64, 64), (1, 1), (5, 300)])
def test_resizing_without_antialias_matches_pytorch(size: tuple[int, int]) -> None:
    image = noise(*size)
    tensor = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None].float()
    wanted = torch.nn.functional.interpolate(tensor, (33, 57), mode="bilinear").numpy()
    found = array(image, steps=(vision.Resize(33, 57, antialias=False),), scale=1.0)
    assert np.abs(found - wanted).max() < 0.51  # it is rounded to whole numbers


@pytest.mark.parametrize(
    ("step", "image", "size"),
    [
        (vision.Resize(256, 256, fit="cover"), (640, 480), (341, 256)),
        (vision.Resize(256, 256, fit="cover"), (480, 640), (256, 341)),
        (vision.Resize(256, 256, fit="cover", rounding="nearest"), (640, 481), (341, 256)),
        (vision.Resize(320, 640, fit="contain"), (100, 100), (320, 320)),
        (vision.Resize(320, 640, fit="contain"), (1000, 100), (640, 64)),
        (vision.Resize(320, 640, fit="contain"), (9999, 1), (640, 1)),
        (vision.Resize(8, 9), (100, 10), (9, 8)),
        (vision.Crop(8, 9), (100, 1), (9, 8)),
    ],
)
def test_steps_produce_the_expected_sizes(
    step: Any, image: tuple[int, int], size: tuple[int, int]
) -> None:
    placed = step.place(Placement(*image))
    assert (placed.width, placed.height) == size
    height, width = array(noise(image[1], image[0]), steps=(step,)).shape[2:]
    assert (width, height) == size


@pytest.mark.parametrize(
    ("found", "rounding", "left"),
    [(10, "nearest", 3), (11, "nearest", 4), (13, "nearest", 4), (11, "down", 3)],
)
def test_the_crop_offset_is_rounded_as_specified(found: int, rounding: Any, left: int) -> None:
    """torchvision rounds a half to the even number, transformers without it rounds down."""
    step = vision.Crop(4, 4, rounding=rounding)
    assert step.place(Placement(found, found)).left == -left
    image = noise(found, found)
    pixels = np.asarray(image)[left : left + 4, left : left + 4]
    assert np.array_equal(array(image, steps=(step,), scale=1.0)[0].transpose(1, 2, 0), pixels)


def test_a_crop_pads_images_that_are_too_small() -> None:
    image = noise(2, 6)
    found = array(image, steps=(vision.Crop(5, 4, fill=(1, 2, 3)),), scale=1.0)[0]
    assert np.array_equal(found[:, 1:3].transpose(1, 2, 0), np.asarray(image)[:, 1:5])
    assert found[:, 0].T.tolist() == [[1, 2, 3]] * 4
    assert found[:, 3:].transpose(1, 2, 0).tolist() == [[[1, 2, 3]] * 4] * 2
    assert vision.Crop(5, 4).place(Placement(4, 2)).top == 1
    assert vision.Crop(5, 4, rounding="down").place(Placement(4, 2)).top == 2
    corner = array(image, steps=(vision.Crop(5, 8, at="corner"),), scale=1.0)[0]
    assert np.array_equal(corner[:, :2, :6].transpose(1, 2, 0), np.asarray(image))
    assert array(noise(2, 2, 1), steps=(vision.Crop(4, 4, fill=(9, 9, 9)),), channels="L").max() > 0


def test_every_image_mode_is_read(tmp_path: Path) -> None:
    colour, alpha = noise(6, 5), noise(6, 5, 4)
    files = {
        "colour.png": colour,
        "alpha.png": alpha,
        "cmyk.tif": colour.convert("CMYK"),
        "palette.png": colour.quantize(16),
        "grey.png": colour.convert("L"),
        "grey_alpha.png": alpha.convert("LA"),
        "one_bit.png": colour.convert("1"),
        "animated.gif": colour,
    }
    for name, image in files.items():
        image.save(tmp_path / name)
        assert open_image(tmp_path / name).mode == "RGB"
        assert open_image(tmp_path / name, "L").mode == "L"
    for name in ("colour.png", "alpha.png"):
        wanted = np.asarray(files[name].convert("RGB"))
        assert np.array_equal(np.asarray(open_image(tmp_path / name)), wanted)
    transparent = colour.quantize(16)
    transparent.save(tmp_path / "clear.png", transparency=bytes(range(16)))
    wanted = np.asarray(transparent.convert("RGB"))
    assert np.array_equal(np.asarray(open_image(tmp_path / "clear.png")), wanted)


def test_16_bit_images_are_scaled_to_8_bits(tmp_path: Path) -> None:
    values = np.array([[0, 257, 32896, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    assert np.asarray(open_image(tmp_path / "deep.png"))[0, :, 0].tolist() == [0, 1, 128, 255]


def test_the_exif_orientation_is_applied(tmp_path: Path) -> None:
    image, exif = noise(4, 9), Image.Exif()
    exif[0x0112] = 6  # orientation: turned by a quarter
    image.save(tmp_path / "turned.png", exif=exif)
    found = np.asarray(open_image(tmp_path / "turned.png"))
    assert np.array_equal(found, np.rot90(np.asarray(image), -1))


def refusal(path: Path) -> str:
    with pytest.raises(eb.EnginebayError) as caught:
        array(path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_unreadable_images_are_refused(tmp_path: Path) -> None:
    noise(64, 64).save(tmp_path / "whole.png")
    noise(64, 64).save(tmp_path / "whole.jpg")
    for name in ("whole.png", "whole.jpg"):
        (tmp_path / f"cut_{name}").write_bytes((tmp_path / name).read_bytes()[:900])
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.jpg").touch()
    for name in ("cut_whole.png", "cut_whole.jpg"):
        assert refusal(tmp_path / name).startswith(
            f"'{tmp_path / name}' cannot be read as an image: "
        )
    for name in ("text.png", "empty.jpg"):
        assert refusal(tmp_path / name) == (
            f"'{tmp_path / name}' cannot be read as an image: cannot identify image file it"
        )
    assert refusal(tmp_path / "no.png") == f"'{tmp_path}/no.png' does not exist; expected an image"
    assert refusal(tmp_path) == f"'{tmp_path}' is a folder; expected an image"
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "float.tif")
    assert refusal(tmp_path / "float.tif") == (
        f"'{tmp_path}/float.tif' contains 32-bit numbers, for which the value of white is unknown"
    )
    with (
        Image.open(tmp_path / "cut_whole.jpg") as opened,
        pytest.raises(eb.EnginebayError, match="the image cannot be read as an image: "),
    ):
        array(opened)
    with pytest.raises(eb.EnginebayError, match=r"expected a path or a PIL\.Image, found ndarray"):
        array(np.zeros((2, 2, 3), np.uint8))


def test_images_above_pillows_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise(40, 40).save(tmp_path / "huge.png")
    for limit in (1500, 700):  # Pillow warns above its limit, and raises above twice as many
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert refusal(tmp_path / "huge.png") == (
                f"'{tmp_path}/huge.png' has more than {limit} pixels"
            )


def test_threads_do_not_change_the_warning_filters(tmp_path: Path) -> None:
    noise(40, 40).save(tmp_path / "a.png")
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(array, [tmp_path / "a.png"] * 400):
            assert found.shape == (1, 3, 40, 40)
    assert list(warnings.filters) == before


def test_resizing_above_pillows_limit_is_refused(tmp_path: Path) -> None:
    noise(1, 4000).save(tmp_path / "line.png")
    with pytest.raises(eb.EnginebayError) as caught:
        array(tmp_path / "line.png", steps=(vision.Resize(256, 256, fit="cover"),))
    assert str(caught.value) == (
        "an image of 4000x1 pixels would become 1024000x256 pixels, which is more than Pillow's "
        "limit"
    )
