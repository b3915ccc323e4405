"""The cost model: every choice fits the machine, is offered at once, and depends on nothing but shape and machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainer.engine.graph import dtypes
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.costs.cycles import PADDING
from trainer.engine.targets.cpu.costs.ranking import best
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.machine import AVX512, NARROW, for_threads
from trainer.engine.targets.cpu.templates import contraction, convolution, weight_gradient
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

SAME = ((1, 1), (1, 1))
CONVOLUTIONS = [
    (8, 64, (56, 56), 64, (3, 3), (1, 1), SAME),
    (8, 512, (7, 7), 512, (3, 3), (1, 1), SAME),
    (8, 256, (56, 56), 64, (1, 1), (1, 1), ((0, 0), (0, 0))),
    (8, 3, (224, 224), 64, (7, 7), (2, 2), ((3, 3), (3, 3))),
    (2, 512, (224, 224), 64, (3, 3), (1, 1), SAME),
    (128, 1, (28, 28), 32, (3, 3), (1, 1), SAME),
    (1, 2048, (250, 250), 16, (3, 3), (1, 1), SAME),
    (1, 3, (1, 5), 1, (1, 1), (1, 1), ((0, 0), (0, 0))),
]
MATMULS = [(128, 512, 784), (128, 10, 512), (1, 1, 1), (1, 4096, 4096), (4096, 3, 16)]


def convolutions(direction):
    return [ConvolutionSpec(dtypes.float32, direction, *shape) for shape in CONVOLUTIONS]


@pytest.mark.parametrize("machine", [AVX512, NARROW], ids=["avx512", "narrow"])
def test_accumulators_stay_in_registers(machine):
    for rows, columns, depth in MATMULS:
        spec = MatmulSpec(dtypes.float32, rows, columns, depth, (depth, 1), (columns, 1))
        for chosen in defaults.candidates(spec, machine):
            assert chosen.tile_rows * chosen.tile_vectors + chosen.tile_vectors + 1 <= machine.vectors
    for direction in ("forward", "input_gradient"):
        for spec in convolutions(direction):
            for chosen in defaults.candidates(spec, machine):
                pixels = chosen.tile_rows * chosen.tile_columns
                assert pixels * chosen.tile_vectors + chosen.tile_vectors + 1 <= machine.vectors
    for spec in convolutions("weight_gradient"):
        for chosen in defaults.candidates(spec, machine):
            assert chosen.tile_rows * chosen.tile_vectors + chosen.tile_vectors + 1 <= machine.vectors


@pytest.mark.parametrize("machine", [AVX512, NARROW], ids=["avx512", "narrow"])
@pytest.mark.parametrize("direction", ["forward", "input_gradient", "weight_gradient"])
def test_scratch_fits_what_a_thread_has(direction, machine):
    module = weight_gradient if direction == "weight_gradient" else convolution
    for spec in convolutions(direction):
        for chosen in defaults.candidates(spec, machine):
            assert module.TEMPLATE.scratch_bytes(spec, chosen) <= 4 << 20


def test_tasks_are_cut_for_the_threads_of_the_machine():
    """Up to eight threads share kernels; 64 get smaller tasks of a product that has eight for fewer."""
    spec = MatmulSpec(dtypes.float32, 128, 512, 784, (784, 1), (512, 1))
    assert for_threads(AVX512, 2) == for_threads(AVX512, 8) == AVX512
    counts = [
        contraction.TEMPLATE.tasks(spec, defaults.choose(spec, for_threads(AVX512, threads))) for threads in (8, 64)
    ]
    assert counts[0] >= 8 and counts[1] >= 32


def test_large_problems_have_tasks_for_eight_threads():
    for direction in ("forward", "input_gradient", "weight_gradient"):
        module = weight_gradient if direction == "weight_gradient" else convolution
        for spec in convolutions(direction)[:5]:
            assert module.TEMPLATE.tasks(spec, defaults.choose(spec, AVX512)) >= 8
    spec = MatmulSpec(dtypes.float32, 128, 512, 784, (784, 1), (512, 1))
    assert contraction.TEMPLATE.tasks(spec, defaults.choose(spec, AVX512)) >= 8


def test_candidates_are_distinct_and_begin_with_the_choice():
    spec = convolutions("forward")[0]
    candidates = defaults.candidates(spec, AVX512)
    assert candidates[0] == defaults.choose(spec, AVX512)
    assert len(set(candidates)) == len(candidates) > 1


def test_candidates_differ_in_more_than_their_tiles():
    choice, *others = defaults.candidates(convolutions("forward")[0], AVX512)
    assert any(each == replace(choice, unroll=2) for each in others)
    assert any(each.copy and each.pixel_padding for each in others)
    tile = (choice.tile_rows, choice.tile_columns, choice.tile_vectors)
    areas = {
        (each.task_images, each.task_rows, each.task_vectors)
        for each in (choice, *others)
        if (each.tile_rows, each.tile_columns, each.tile_vectors) == tile
    }
    assert len(areas) >= 2
    choice, *others = defaults.candidates(convolutions("weight_gradient")[2], AVX512)
    assert {each.pixel_padding for each in others if each.copy} == {0, PADDING}
    choice, *others = defaults.candidates(product(2048, 2048, 2048), AVX512)
    assert any(each.pack_rows for each in others)


def test_what_the_model_holds_for_hopeless_is_no_candidate():
    options = [(2.0, "slow"), (1.0, "choice"), (1.3, "other"), (1.41, "hopeless")]
    assert best(options, lambda choice: [f"{choice}, varied"]) == ("choice", "choice, varied", "other")


def test_only_what_gains_by_it_is_packed():
    depth, columns = 512, 512
    rowwise = MatmulSpec(dtypes.float32, 128, columns, depth, (depth, 1), (columns, 1))
    columnwise = MatmulSpec(dtypes.float32, 128, columns, depth, (depth, 1), (1, depth))
    assert not defaults.prefers_packed(rowwise, AVX512)
    assert defaults.prefers_packed(columnwise, AVX512)
    assert defaults.prefers_packed(convolutions("input_gradient")[0], AVX512)
    assert not defaults.prefers_packed(convolutions("forward")[0], AVX512)
    assert defaults.prefers_packed(convolutions("forward")[1], AVX512)


def test_narrow_machines_pack_what_many_rows_read():
    assert defaults.prefers_packed(product(128, 512, 512), NARROW)
    assert not defaults.prefers_packed(product(32, 512, 512), NARROW)
    assert not defaults.prefers_packed(product(128, 64, 64), NARROW)
    assert defaults.prefers_packed(convolutions("forward")[0], NARROW)
    assert not defaults.prefers_packed(convolutions("forward")[-1], NARROW)


@pytest.mark.parametrize(("width", "images", "packed"), [(1, 1, False), (1, 8, True), (2, 1, True), (64, 1, True)])
def test_weights_that_only_one_pixel_reads_are_not_packed(width, images, packed):
    spec = ConvolutionSpec(dtypes.float32, "forward", images, 512, (width, width), 512, (3, 3), padding=SAME)
    assert defaults.prefers_packed(spec, AVX512) is packed


def product(rows, depth, columns):
    return MatmulSpec(dtypes.float32, rows, columns, depth, (depth, 1), (columns, 1))


def test_a_right_operand_that_no_cache_holds_is_read_once():
    chosen = defaults.choose(product(32, 4096, 4096), AVX512)
    assert chosen.task_rows >= 32


def test_a_right_operand_is_packed_where_its_rows_lie_pages_apart_and_many_rows_read_it():
    for rows, depth, columns, packed in (
        (2048, 2048, 2048, True),
        (512, 512, 512, False),
        (512, 3072, 768, True),
        (32, 4096, 4096, False),
        (4096, 4096, 10, False),
    ):
        assert defaults.prefers_packed(product(rows, depth, columns), AVX512) is packed


@pytest.mark.parametrize("channels", [1000, 1024, 2048])
def test_a_tile_does_not_read_more_pixels_of_one_cache_set_than_it_has_ways(channels):
    layer = ConvolutionSpec(dtypes.float32, "forward", 8, channels, (14, 14), 512, (1, 1), (1, 1), ((0, 0), (0, 0)))
    chosen = defaults.choose(layer, AVX512)
    assert (chosen.tile_rows * chosen.tile_columns < AVX512.level1_ways) == (channels != 1000)


@pytest.mark.parametrize(("depth", "ways", "is_small"), [(3072, 8, True), (3072, 12, True), (3000, 8, False)])
def test_a_tile_does_not_read_more_rows_of_one_cache_set_than_it_has_ways(depth, ways, is_small):
    chosen = defaults.choose(product(784, depth, 768), replace(AVX512, level1_ways=ways))
    assert (chosen.tile_rows < ways) == is_small
