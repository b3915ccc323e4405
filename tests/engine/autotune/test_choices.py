"""The cost model's choices on disk are the ones it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trainer.engine.graph import dtypes
from trainer.engine.targets import disk_cache
from trainer.engine.targets.cpu import choices, defaults, identity, templates
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.pool import SCRATCH_BYTES
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec
from trainer.engine.targets.cpu.templates.depthwise import DepthwiseSpec

SAME = ((1, 1), (1, 1))
PLAIN = ConvolutionSpec(dtypes.float32, "forward", 2, 32, (14, 14), 48, (3, 3), padding=SAME)
SPECS = [
    MatmulSpec(dtypes.float32, 128, 10, 512, (512, 1), (10, 1)),
    MatmulSpec(dtypes.float32, 64, 32, 64, (64, 1), (32, 1), pairs=True),
    PLAIN,
    ConvolutionSpec(dtypes.float32, "input_gradient", 2, 32, (14, 14), 48, (3, 3), padding=SAME),
    ConvolutionSpec(dtypes.float32, "weight_gradient", 2, 32, (14, 14), 48, (3, 3), padding=SAME),
    WinogradSpec(PLAIN, 4),
    DepthwiseSpec(ConvolutionSpec(dtypes.float32, "forward", 2, 32, (9, 9), 32, (3, 3), padding=SAME, groups=32)),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    choices._kept.cache_clear()
    yield tmp_path / "objects"
    choices._kept.cache_clear()
    disk_cache.private_directory.cache_clear()


@pytest.mark.parametrize("direction", ["forward", "input_gradient", "weight_gradient"])
@pytest.mark.parametrize("size, window, stride", [(56, 3, 1), (28, 3, 2), (14, 1, 1), (7, 3, 1), (28, 1, 2)])
def test_what_is_chosen_for_eight_images_is_chosen_for_more_and_fits(
    folder: Path, direction: Direction, size: int, window: int, stride: int
) -> None:
    few = ConvolutionSpec(
        dtypes.float32, direction, choices.ENOUGH_IMAGES, 64, (size, size), 128, (window, window), (stride, stride),
        padding=((window // 2,) * 2,) * 2,
    )  # fmt: skip
    for images in (9, 16, 33, 256):
        more = replace(few, images=images)
        assert choices.candidates(more, AVX512) == choices.candidates(few, AVX512)
        for parameters in choices.candidates(more, AVX512):
            kernel = templates.template_of(more).kernel(more, parameters)
            assert kernel.scratch_bytes <= SCRATCH_BYTES and kernel.tasks > 0


def test_what_is_read_is_what_was_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = {(spec, machine): defaults.candidates(spec, machine) for spec in SPECS for machine in (AVX512, NARROW)}
    assert {key: choices.candidates(*key) for key in computed} == computed
    assert {key: choices.choose(*key) for key in computed} == {key: defaults.choose(*key) for key in computed}
    assert len(list(folder.glob(f"*{choices.CHOICE}"))) == len(computed)
    choices._kept.cache_clear()
    monkeypatch.setattr(defaults, "candidates", None)
    for key, expected in computed.items():
        read = choices.candidates(*key)
        assert read == expected and repr(read) == repr(expected) and choices.choose(*key) == expected[0]
        assert [type(each) for each in read] == [type(each) for each in expected]


def test_a_choice_ends_with_the_source_that_made_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices.choose(SPECS[0], AVX512)
    choices._kept.cache_clear()
    monkeypatch.setattr(identity, "source_hash", lambda: "another source")
    asked: list[object] = []
    monkeypatch.setattr(defaults, "candidates", lambda spec, machine: asked.append(spec) or ["computed"])
    with pytest.raises(AttributeError):  # what it computed is no parameters: it can't be kept
        choices.choose(SPECS[0], AVX512)
    assert asked == [SPECS[0]]
