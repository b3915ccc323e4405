"""Attention against its definition in NumPy: what queries see, gradients of both orders, threads, layers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.graph import primitives as p
from trainer.engine.graph.primitives.attention import UNLIMITED
from trainer.engine.graph.storage import Storage
from trainer.engine.nn import functional as F
from trainer.engine.targets.cpu.device import CpuDevice


def definition(query, key, value, *, mask=None, slopes=None, offset=0, is_causal=False, window_size=(-1, -1)):
    """softmax(query keyᵀ / sqrt(D) + …) value in float64, zeros where a query sees nothing; and the weights."""
    heads, rows, width = query.shape[1:]
    key, value = (np.repeat(x, heads // x.shape[1], axis=1) for x in (key, value))
    scores = query @ key.swapaxes(2, 3) / np.sqrt(width)
    distance = (np.broadcast_to(offset, len(query))[:, None] + np.arange(rows))[:, None, :, None] - np.arange(
        key.shape[2]
    )
    scores = scores + (0 if mask is None else mask)
    if not key.shape[2]:
        return np.zeros((*query.shape[:3], value.shape[3])), np.zeros((*query.shape[:3], 0))
    scores = scores - (0 if slopes is None else slopes[:, None, None] * abs(distance))
    before, after = window_size
    sees = (distance >= 0 if is_causal else distance == distance) & (distance <= (before if before >= 0 else 1 << 40))
    sees &= distance >= (-after if after >= 0 else -(1 << 40))
    weights = np.exp(np.where(sees, scores - scores.max(3, keepdims=True), -np.inf))
    total = weights.sum(3, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return weights @ value, weights


def drawn(batch, heads, groups, rows, keys, width, value_width, seed=0):
    random = np.random.default_rng(seed)
    shapes = ((batch, heads, rows, width), (batch, groups, keys, width), (batch, groups, keys, value_width))
    return [random.standard_normal(shape) for shape in (*shapes, (batch, heads, rows, value_width))]


def computed(arrays, dtype=engine.float64, **options):
    """Output and gradients of query, key and value."""
    query, key, value, dy = (engine.asarray(x, dtype=dtype) for x in arrays)
    y = F.scaled_dot_product_attention(query, key, value, **options)
    return [x.numpy() for x in (y, *engine.gradients(engine.sum(y * dy), [query, key, value]))]


def by_definition(arrays, kept=1.0, **options):
    query, key, value, dy = arrays
    heads, groups = query.shape[1], key.shape[1]
    _, weights = definition(query, key, value, **options)
    keys, values = (np.repeat(x, heads // groups, axis=1) for x in (key, value))
    y = (weights * kept) @ values
    dscores = weights * (kept * (dy @ values.swapaxes(2, 3)) - (dy * y).sum(3, keepdims=True)) / np.sqrt(key.shape[3])
    of_group = (len(key), groups, heads // groups, *key.shape[2:])
    dkey = (dscores.swapaxes(2, 3) @ query).reshape(of_group).sum(2)
    dvalue = ((weights * kept).swapaxes(2, 3) @ dy).reshape(*of_group[:4], value.shape[3]).sum(2)
    return [y, dscores @ keys, dkey, dvalue]


CASES = {
    "whole blocks": ((1, 2, 2, 64, 128, 16, 16), {}),
    "odd sizes": ((2, 2, 2, 70, 133, 17, 33), {"is_causal": True}),
    "one token": ((2, 4, 1, 1, 90, 16, 16), {"is_causal": True, "offset": [5, 89]}),
    "grouped": ((1, 4, 2, 33, 65, 8, 8), {"is_causal": True}),
    "a window": ((1, 2, 2, 150, 150, 8, 8), {"window_size": (20, 30), "offset": [3]}),
    "no keys": ((2, 2, 1, 3, 0, 8, 8), {}),
    "nothing is seen": ((2, 2, 1, 40, 66, 8, 8), {"is_causal": True, "offset": [-10, 20]}),
    "a mask of keys": ((2, 2, 2, 20, 70, 8, 8), {"mask": (2, 1, 1, 70)}),
    "a mask of pairs": ((1, 2, 2, 70, 70, 8, 8), {"mask": (1, 2, 70, 70), "is_causal": True}),
    "slopes": ((1, 2, 2, 70, 70, 8, 8), {"slopes": [0.5, 0.25], "is_causal": True}),
}


def both_options(options):
    """A case's options for the definition and for the function."""
    known, given = dict(options), dict(options)
    if "mask" in options:
        known["mask"] = np.random.default_rng(1).standard_normal(options["mask"])
        given["attn_mask"] = engine.asarray(known["mask"])
        del given["mask"]
    if "slopes" in options:
        known["slopes"] = np.array(options["slopes"])
        given["alibi_slopes"] = engine.asarray(known["slopes"])
        del given["slopes"]
    if "offset" in options:
        given["query_offset"] = engine.asarray(np.array(given.pop("offset"), np.int32))
    return known, given


@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients_are_those_of_the_definition(case):
    extents, options = CASES[case]
    known, given = both_options(options)
    arrays = drawn(*extents)
    for found, expected in zip(computed(arrays, **given), by_definition(arrays, **known), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


BIASES = {
    "few keys": ((3, 2, 2, 20, 49, 8, 8), (1, 2, 20, 49), {}),
    "odd sizes": ((1, 2, 1, 70, 133, 8, 8), (1, 1, 70, 133), {"is_causal": True}),
    "a window": ((2, 2, 2, 150, 150, 8, 8), (2, 2, 150, 150), {"window_size": (20, 30)}),
    "of keys": ((2, 2, 2, 20, 70, 8, 8), (2, 1, 1, 70), {}),
    "of queries": ((2, 2, 2, 20, 70, 8, 8), (2, 1, 20, 1), {}),
}


@pytest.mark.parametrize("is_turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("case", BIASES)
def test_gradients_of_a_bias_are_those_of_the_definition(case, is_turned):
    """Also of one whose neighbors in memory are queries."""
    extents, shape, options = BIASES[case]
    query, key, value, dy = drawn(*extents)
    bias = np.random.default_rng(1).standard_normal(shape)
    given = engine.asarray(bias.swapaxes(2, 3).copy() if is_turned else bias)
    tensors = [engine.asarray(x) for x in (query, key, value)]
    mask = engine.matrix_transpose(given) if is_turned else given
    y = F.scaled_dot_product_attention(*tensors, mask, **options)
    found = engine.gradients(engine.sum(y * engine.asarray(dy)), [given])[0].numpy()
    expected, weights = definition(query, key, value, mask=bias, **options)
    values = np.repeat(value, query.shape[1] // value.shape[1], axis=1)
    dscores = weights * (dy @ values.swapaxes(2, 3) - (dy * expected).sum(3, keepdims=True))
    total = dscores.sum(tuple(axis for axis in range(4) if shape[axis] == 1), keepdims=True)
    np.testing.assert_allclose(y.numpy(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found, total.swapaxes(2, 3) if is_turned else total, rtol=0, atol=1e-11)


@pytest.mark.parametrize("case", ["odd sizes", "nothing is seen", "a mask of pairs"])
def test_the_reference_device_agrees(case):
    extents, options = CASES[case]
    known, given = both_options(options)
    arrays = drawn(*extents)
    with engine.device("reference"):
        found = computed(arrays, **{name: engine.asarray(x.numpy()) if isinstance(x, engine.Tensor) else x
                                    for name, x in given.items()})  # fmt: skip
    for each, expected in zip(found, by_definition(arrays, **known), strict=True):
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-12)


def test_sums_of_narrow_dtypes_are_float32():
    arrays = drawn(1, 2, 2, 30, 30, 8, 8)
    for dtype, error in ((engine.bfloat16, 2.0**-7), (engine.float16, 2.0**-11)):
        rounded = [engine.asarray(x, dtype=dtype).astype(engine.float64).numpy() for x in arrays]
        y, *_ = computed(arrays, dtype, is_causal=True)
        expected = by_definition(rounded, is_causal=True)[0]
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=error, atol=error)
    single = computed(arrays, engine.float32, is_causal=True)
    for found, expected in zip(single, by_definition(arrays, is_causal=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6)


def relative_errors(found, expected):
    """The largest difference of each array, as a share of its largest element."""
    return [
        abs(one.astype(np.float64) - other).max() / abs(other).max() if other.any() else abs(one).max(initial=0)
        for one, other in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize("case", tiered(CASES, ("odd sizes", "no keys", "a mask of keys")))
def test_products_of_bfloat16_are_those_of_rounded_operands(case):
    """Results are rounded, too, and so are weights and the gradients of scores; widths that are odd have no pairs."""
    extents, options = CASES[case]
    for widths in (extents[5:], (6, 40)):
        known, given = both_options(options)
        arrays = drawn(*extents[:5], *widths)
        rounded = [engine.asarray(x, dtype=engine.bfloat16).astype(engine.float64).numpy() for x in arrays]
        found = computed(arrays, engine.bfloat16, **given)
        assert max(relative_errors(found, by_definition(rounded, **known))) < 2.0**-7


def test_bfloat16_off_the_cpu_and_its_derivatives_of_second_order_are_those_of_rounded_operands():
    arrays = drawn(1, 2, 1, 20, 30, 8, 6)
    rounded = [engine.asarray(x, dtype=engine.bfloat16).astype(engine.float32).numpy() for x in arrays]
    with engine.device("reference"):
        found = computed(arrays, engine.bfloat16, is_causal=True)
    assert max(relative_errors(found, by_definition(rounded, is_causal=True))) < 2.0**-7

    def second(dtype):
        query, key, value, dy = (engine.asarray(x, dtype=dtype) for x in rounded)
        y = F.scaled_dot_product_attention(query, key, value)
        first = engine.gradients(engine.sum(y * dy), [query, key, value])
        return [x.numpy() for x in engine.gradients(sum(engine.sum(x * x) for x in first), [query, key, value, dy])]

    assert max(relative_errors(second(engine.bfloat16), second(engine.float32))) < 2.0**-5


def test_pairs_need_even_widths():
    operands = [p.buffer(Storage.of(np.zeros((1, 1, 2, width), np.uint16), engine.bfloat16)) for width in (4, 4, 3)]
    with pytest.raises(TrainerError, match=r"(?s)an odd width of bfloat16.*even"):
        p.attention(operands, (1.0, (UNLIMITED, UNLIMITED), 0.0, ()))


@pytest.mark.parametrize("dtype", [engine.float32, engine.bfloat16], ids=str)
@pytest.mark.parametrize(
    "settings",
    [
        [{"threads": threads} for threads in (1, 2, 3)],
        pytest.param([{}, {"narrow": True}], marks=pytest.mark.full),
    ],
)
def test_threads_and_narrow_vectors_give_the_same_bits(settings, dtype):
    arrays = drawn(1, 2, 1, 200, 330, 24, 24)
    found = []
    for setting in settings:
        with engine.device(CpuDevice(**setting)):
            found.append(computed(arrays, dtype, is_causal=True))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_dropout_leaves_out_the_same_weights_in_the_backward_pass():
    arrays = drawn(2, 2, 2, 30, 140, 8, 140)
    random = nn.RandomState(3)
    arrays[2][:] = np.eye(140)  # the output is the weights
    query, key, value, dy = map(engine.asarray, arrays)
    with random.step():
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=0.25, is_causal=True)
    kept = y.numpy() / np.where((w := definition(*arrays[:3], is_causal=True)[1]) == 0, 1, w)
    np.testing.assert_allclose(kept[w > 0], np.where(kept[w > 0] > 0.5, 1 / 0.75, 0), atol=1e-9)
    assert abs(np.mean(kept[w > 0] > 0) - 0.75) < 0.02
    found = [x.numpy() for x in engine.gradients(engine.sum(y * dy), [query, key, value])]
    for each, expected in zip(found, by_definition(arrays, kept, is_causal=True)[1:], strict=True):
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-12)


def test_dropout_is_the_same_on_every_device():
    arrays, found = drawn(1, 2, 1, 20, 70, 8, 8), []
    for device in ("cpu", "reference"):
        with engine.device(device), nn.RandomState(3).step():
            found.append(computed(arrays, dropout_p=0.5))
        with engine.device(device), nn.RandomState(3).step():
            query, key, value, dy = (engine.asarray(x) for x in arrays)
            slopes = engine.asarray(np.array([0.5, 0.25]))
            y = F.scaled_dot_product_attention(query, key, value, dropout_p=0.5, alibi_slopes=slopes)
            found[-1].append(engine.gradients(engine.sum(y * dy), [slopes])[0].numpy())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.full
def test_derivatives_of_second_order_are_those_of_differences():
    query, key, value, dy = drawn(1, 2, 1, 3, 4, 2, 2)
    mask, slopes = np.random.default_rng(2).standard_normal((1, 2, 3, 4)), np.array([0.5, 0.25])

    def loss(query, key, value, mask, slopes):
        with nn.RandomState(3).step():
            y = F.scaled_dot_product_attention(query, key, value, mask, 0.2, True, alibi_slopes=slopes, query_offset=1)
        return engine.sum(y * engine.asarray(dy))

    with engine.device("reference"):
        engine.check_gradient(loss, query, key, value, mask, slopes, order=2)


@pytest.mark.parametrize("tokens", [5, 130])
def test_the_gradient_of_joined_operands_is_computed_in_place(tokens):
    """With 130 tokens the keys of a head are shared by several tasks, whose sums are added afterwards."""
    heads, width = 2, 4
    x = np.random.default_rng(3).standard_normal((2, tokens, 3 * heads * width)).astype(np.float32)
    parts = np.ascontiguousarray(x.reshape(2, tokens, 3, heads, width).transpose(2, 0, 3, 1, 4))

    def loss(query, key, value):
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return engine.sum(y * y * y)

    @engine.trace
    def joined(x):
        split = engine.permute_dims(engine.reshape(x, (2, tokens, 3, heads, width)), (2, 0, 3, 1, 4))
        return engine.gradients(loss(split[0], split[1], split[2]), [x])[0]

    @engine.trace
    def separate(query, key, value):
        return engine.gradients(loss(query, key, value), [query, key, value])

    found = np.asarray(joined(x))
    expected = np.stack([np.asarray(each) for each in separate(*parts)], axis=2).transpose(0, 3, 2, 1, 4)
    np.testing.assert_array_equal(found, expected.reshape(x.shape))
    assert "attention_gradient" in engine.explain(joined)
    assert "| concatenate (" not in engine.explain(joined)
    assert "  concatenate (" not in engine.explain(joined)


def test_memory_is_linear_in_tokens():
    def step(query, key, value):
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return engine.gradients(engine.sum(y * y), [query, key, value])

    peaks = []
    for tokens in (256, 1024):
        arrays = [engine.zeros((2, 8, tokens, 8)) for _ in range(3)]
        traced = engine.trace(step)
        traced(*arrays)
        peaks.append(engine.memory_report(traced).arena)
    assert peaks[1] < 4.2 * peaks[0]
    assert peaks[1] < 1024 * 1024 * 4  # bytes of one matrix of scores


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"key": np.zeros((2, 3, 5, 8))}, "query"),
        ({"value": np.zeros((2, 2, 6, 8))}, "query"),
        ({"attn_mask": np.zeros((3, 4))}, "attn_mask"),
        ({"alibi_slopes": np.zeros(3)}, "alibi_slopes"),
        ({"query_offset": np.zeros(3, np.int32)}, "query_offset"),
        ({"query_offset": 0.5}, "query_offset"),
        ({"dropout_p": 1.0}, "dropout_p"),
        ({"window_size": (-2, 0)}, "window_size"),
    ],
)
def test_what_does_not_fit_is_refused(change, found):
    given = {"query": np.zeros((2, 4, 3, 8)), "key": np.zeros((2, 2, 5, 8)), "value": np.zeros((2, 2, 5, 8))} | change
    given = {name: engine.asarray(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    with pytest.raises(TrainerError) as raised:
        F.scaled_dot_product_attention(**given)
    assert found in str(raised.value)


def weights_of(layer, seed=0):
    random = np.random.default_rng(seed)
    return {name: 0.3 * random.standard_normal(shape) for name, shape in layer.named_shapes().items()}


def test_multihead_attention_is_projections_around_the_function():
    layer = nn.MultiheadAttention(8, 4, batch_first=True, num_kv_heads=2)
    values = weights_of(layer)
    assert {name: x.shape for name, x in values.items()} == {
        "in_proj_weight": (16, 8), "in_proj_bias": (16,), "out_proj.weight": (8, 8), "out_proj.bias": (8,)
    }  # fmt: skip
    layer.astype(engine.float64).load_state_dict(values)
    x = np.random.default_rng(1).standard_normal((2, 5, 8))
    hidden = np.zeros((2, 5), bool)
    hidden[1, 3:] = True
    found, _ = layer(engine.asarray(x), key_padding_mask=engine.asarray(hidden), is_causal=True)
    projected = x @ values["in_proj_weight"].T + values["in_proj_bias"]
    q, k, v = (part.reshape(2, 5, -1, 2).swapaxes(1, 2) for part in np.split(projected, [8, 12], axis=2))
    y, _ = definition(q, k, v, mask=np.where(hidden, -1e30, 0)[:, None, None, :], is_causal=True)
    expected = y.swapaxes(1, 2).reshape(2, 5, 8) @ values["out_proj.weight"].T + values["out_proj.bias"]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    other = nn.MultiheadAttention(8, 4, num_kv_heads=2).astype(engine.float64)
    other.load_state_dict(values)
    along, _ = other(engine.asarray(x.swapaxes(0, 1)), key_padding_mask=engine.asarray(hidden), is_causal=True)
    np.testing.assert_allclose(along.numpy().swapaxes(0, 1), expected, atol=1e-12)


def test_widths_of_keys_and_values_may_differ():
    layer = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True)
    assert list(layer.named_shapes()) == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"
    ]  # fmt: skip
    y, weights = layer(engine.zeros((2, 3, 8)), engine.zeros((2, 5, 6)), engine.zeros((2, 5, 4)))
    assert (y.shape, weights) == ((2, 3, 8), None)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(TrainerError, match="divide"):
        nn.MultiheadAttention(8, 3)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_weights_are_those_of_the_definition_and_change_nothing(device):
    """Of two heads of queries for each of keys, a row that sees only some keys, and one that sees none."""
    with engine.device(device):
        layer = nn.MultiheadAttention(8, 4, batch_first=True, num_kv_heads=2).astype(engine.float64)
        values = weights_of(layer)
        layer.load_state_dict(values)
        x = np.random.default_rng(1).standard_normal((3, 5, 8))
        hidden = np.zeros((3, 5), bool)
        hidden[1, 3:], hidden[2] = True, True
        tokens = engine.asarray(x)
        options = {"key_padding_mask": engine.asarray(hidden), "is_causal": True}
        without, _ = layer(tokens, **options)
        found, weights = layer(tokens, **options, need_weights=True, average_attn_weights=False)
        _, mean = layer(tokens, **options, need_weights=True)
        one, other = (engine.gradients(engine.sum(y**2), [tokens, layer.in_proj_weight]) for y in (found, without))
        projected = x @ values["in_proj_weight"].T + values["in_proj_bias"]
        q, k, v = (part.reshape(3, 5, -1, 2).swapaxes(1, 2) for part in np.split(projected, [8, 12], axis=2))
        _, expected = definition(q, k, v, mask=np.where(hidden, -1e30, 0)[:, None, None, :], is_causal=True)
        expected[2] = 0  # which sees none
        np.testing.assert_allclose(weights.numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(mean.numpy(), expected.mean(axis=1), atol=1e-12)
        np.testing.assert_allclose(found.numpy(), without.numpy(), atol=1e-12)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10)


def test_weights_that_drop_out_are_those_of_the_output():
    layer = nn.MultiheadAttention(8, 1, dropout=0.5, batch_first=True).astype(engine.float64)
    layer.load_state_dict(weights_of(layer))
    x = engine.asarray(np.random.default_rng(1).standard_normal((1, 6, 8)))
    with nn.RandomState(3).step():
        y, weights = layer(x, need_weights=True)
    with nn.RandomState(3).step():
        expected, _ = layer(x)
    assert 0 < np.mean(weights.numpy() == 0) < 1
    np.testing.assert_allclose(y.numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_positions_turn_pairs(interleaved):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 6))
    offsets = np.array([2, 7], np.int32)
    layer = nn.RotaryEmbedding(6, max_positions=20, interleaved=interleaved)
    pairs = x.reshape(2, 3, 5, 3, 2) if interleaved else x.reshape(2, 3, 5, 2, 3).swapaxes(3, 4)
    angle = (offsets[:, None] + np.arange(5))[..., None] * 10000.0 ** (-np.arange(3) / 3)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angle)[:, None]
    expected = np.stack([turned.real, turned.imag], axis=4)
    expected = (expected if interleaved else expected.swapaxes(3, 4)).reshape(x.shape)
    np.testing.assert_allclose(layer(engine.asarray(x), engine.asarray(offsets)).numpy(), expected, atol=1e-12)
    np.testing.assert_array_equal(
        layer(engine.asarray(x[:1]), 2).numpy(), layer(engine.asarray(x), engine.asarray(offsets)).numpy()[:1]
    )
    for offset in (16, np.int64(16), -1):
        with pytest.raises(TrainerError, match="positions"):
            layer(engine.asarray(x), offset)


def test_positions_are_added():
    x = np.zeros((2, 3, 4), np.float32)
    table = nn.SinusoidalPositions(4, 9)(engine.asarray(x), 5).numpy()
    np.testing.assert_allclose(table[1, 2], [np.sin(7), np.cos(7), np.sin(0.07), np.cos(0.07)], rtol=1e-5)
    learned = nn.LearnedPositions(4, 9)
    found = learned(engine.asarray(x), engine.asarray(np.array([1, 6], np.int32))).numpy()
    np.testing.assert_array_equal(found, np.stack([learned.weight.numpy()[1:4], learned.weight.numpy()[6:9]]))


def test_blocks_have_the_names_of_torch():
    encoder, decoder = nn.TransformerEncoderLayer(8, 2, 16), nn.TransformerDecoderLayer(8, 2, 16)
    attention = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    rest = [f"{layer}.{kind}" for layer in ("linear1", "linear2", "norm1", "norm2") for kind in ("weight", "bias")]
    own = [f"self_attn.{name}" for name in attention]
    assert sorted(encoder.named_shapes()) == sorted([*own, *rest])
    other = [f"multihead_attn.{name}" for name in attention] + ["norm3.weight", "norm3.bias"]
    assert sorted(decoder.named_shapes()) == sorted([*own, *rest, *other])
    x, memory = engine.ones((2, 3, 8)), engine.ones((5, 3, 8))
    assert encoder.eval()(x).shape == decoder.eval()(x, memory).shape == (2, 3, 8)
    with pytest.raises(TrainerError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")


def test_tokens_one_by_one_give_what_all_at_once_give_and_compile_once():
    layer = nn.TransformerEncoderLayer(
        16, 4, 32, dropout=0.0, batch_first=True, norm_first=True, num_kv_heads=2, rotary=nn.RotaryEmbedding(4, 32)
    ).set_seed(1).eval()  # fmt: skip
    x = engine.asarray(np.random.default_rng(0).standard_normal((2, 9, 16)).astype(np.float32))
    expected = layer(x, is_causal=True).numpy()
    cache = nn.KeyValueCache(2, 2, 12, 4)

    @engine.trace
    def step(tokens):
        return layer(tokens, cache=cache)

    prompt = step(x[:, :4]).numpy()
    tokens = [step(x[:, place : place + 1]).numpy() for place in range(4, 9)]
    np.testing.assert_allclose(np.concatenate([prompt, *tokens], axis=1), expected, atol=1e-5)
    assert (cache.room(), cache.length.numpy().tolist()) == (3, [9, 9])
    assert len(step.programs) == 2
    kernels = [row.kernel for row in engine.profile(step, x[:, :1], steps=1, warm_up=0).rows]
    assert not any("update" in kernel for kernel in kernels)  # copies
    cache.length.assign(engine.asarray(np.array([4, 2], np.int32)))  # the second prompt was shorter
    shorter = step(x[:, 2:3]).numpy()[1]
    np.testing.assert_allclose(shorter, layer(x[1:, :3], is_causal=True).numpy()[0, 2:], atol=1e-5)
    cache.reset()
    assert cache.room() == 12
    with pytest.raises(TrainerError, match="another shape"):
        cache.update(engine.zeros((2, 2, 13, 4)), engine.zeros((2, 2, 13, 4)))


@pytest.mark.parametrize("values", [(2, 2, 1, 4), (2, 2, 2, 5)], ids=["fewer values", "wider values"])
def test_a_cache_that_refuses_tokens_is_unchanged(values):
    cache = nn.KeyValueCache(2, 2, 12, 4)
    with pytest.raises(TrainerError, match=r"without values|another shape"):
        cache.update(engine.ones((2, 2, 2, 4)), engine.ones(values))
    assert not cache.key.numpy().any() and not cache.value.numpy().any() and not cache.length.numpy().any()


def test_arrays_are_taken_like_tensors():
    x, slopes = np.ones((2, 1, 3, 4), np.float32), np.ones(1, np.float32)
    mask = np.tri(3, dtype=bool)
    found = nn.functional.scaled_dot_product_attention(x, x, x, mask, alibi_slopes=slopes)
    tensors = [engine.asarray(each) for each in (x, x, x, mask)]
    expected = nn.functional.scaled_dot_product_attention(*tensors, alibi_slopes=engine.asarray(slopes))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    for layer, array in ((nn.RotaryEmbedding(4), x), (nn.SinusoidalPositions(4), x[:, 0]), (nn.GRUCell(4, 2), x[0, 0])):
        np.testing.assert_array_equal(layer(array).numpy(), layer(engine.asarray(array)).numpy())


def test_keys_and_values_of_tensors_are_those_of_a_cache():
    """Two tokens, then one; the first row had two before."""
    drawn = np.random.default_rng(0).standard_normal((2, 2, 3, 4))
    cache = nn.KeyValueCache(2, 2, 6, 4, dtype=engine.float64)
    cache.length.set_value([2, 0])
    held = nn.KeyValues(cache.key + 0, cache.value + 0, cache.length + 0)
    for tokens in (drawn[:, :, :2], drawn[:, :, 2:]):
        for one, other in zip(*(each.update(*[engine.asarray(tokens)] * 2) for each in (cache, held)), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    np.testing.assert_array_equal(held.key.numpy()[0, :, 2:5], drawn[0])
    np.testing.assert_array_equal(held.value.numpy()[1, :, :3], drawn[1])
    assert held.length.tolist() == cache.length.tolist() == [5, 3]
    with pytest.raises(TrainerError, match="don't fit"):
        nn.KeyValues(held.key, held.value[:, :, :5], held.length)


def test_a_cache_that_got_too_many_tokens_has_no_room():
    cache = nn.KeyValueCache(1, 1, 4, 2)
    for _ in range(2):
        cache.update(engine.ones((1, 1, 3, 2)), engine.ones((1, 1, 3, 2)))
    assert cache.room() == 0 and cache.key.numpy().sum() == 8


def test_a_saved_program_holds_attention(tmp_path):
    layer = nn.MultiheadAttention(8, 2, batch_first=True).set_seed(1).eval()
    x = np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32)

    def model(x):
        return layer(x, is_causal=True)[0]

    engine.save_program(tmp_path / "attention.program", model, engine.zeros((1, 5, 8)), any_batch=True)
    found = engine.load_program(tmp_path / "attention.program")(x)
    np.testing.assert_allclose(next(iter(found.values())).numpy(), model(engine.asarray(x)).numpy(), atol=1e-6)
