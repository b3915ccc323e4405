"""Times attention, a decoder's training step and its token generation. Each line of standard input names a case; the
answer is the milliseconds of a call (median of several), or another measure of the case.

Usage: attention.py trainer|torch

    attention[_causal]    forward and backward, batch 4, 8 heads, 1,024 tokens of width 64
    attention_bfloat16    the same in bfloat16
    decoder_step          4 pre-norm layers of width 256 with 8 heads and rotary positions, batch 8, 256 tokens, AdamW
    generation            one token after another from the same decoder, with a key-value cache, batch 1
    arena_1024, _4096     MB of the arena of attention's forward and backward pass: memory between launches
    layers FILE           torch: writes layers' weights, inputs, outputs and gradients, in float64. trainer: the maximum
                          absolute difference from them
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from operations import milliseconds

BATCH, HEADS, TOKENS, WIDTH = 4, 8, 1024, 64
LAYERS, MODEL, LENGTH, SEQUENCES, VOCABULARY = 4, 256, 256, 8, 128
PROMPT, GENERATED, CAPACITY = 16, 64, 256
SECONDS = 1.0
"""Time budget of one measurement."""

ENCODER = {"d_model": 12, "nhead": 3, "dim_feedforward": 20, "dropout": 0.0, "batch_first": True}
LAYER_CASES = {
    "attention": "MultiheadAttention",
    "encoder_pre": "TransformerEncoderLayer",
    "encoder_post": "TransformerEncoderLayer",
    "decoder": "TransformerDecoderLayer",
}

Case = Callable[[], object]


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def tokens(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, VOCABULARY, shape)


def options_of(name: str) -> dict[str, Any]:
    """Returns the constructor arguments of a layer of `LAYER_CASES`."""
    if name == "attention":
        return {"embed_dim": 12, "num_heads": 3, "batch_first": True}
    return {**ENCODER, "norm_first": name != "encoder_post", "activation": "gelu" if name == "decoder" else "relu"}


class OfTrainer:
    """The engine."""

    def __init__(self) -> None:
        from trainer import engine
        from trainer.engine import nn
        from trainer.learner.optimizers.adam import AdamW

        self.engine, self.nn, self.adam = engine, nn, AdamW

    def attention(self, *, is_causal: bool = False, length: int = TOKENS, dtype: str = "float32") -> Any:
        def step(query: Any, key: Any, value: Any, dy: Any) -> Any:
            y = self.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
            return self.engine.gradients(self.engine.sum(y * dy), [query, key, value])

        given = (values(BATCH, HEADS, length, WIDTH, seed=seed) for seed in range(4))
        arrays = [self.engine.asarray(each, dtype=getattr(self.engine, dtype)) for each in given]
        traced = self.engine.trace(step)
        return traced, lambda: traced(*arrays)

    def decoder(self, capacity: int) -> Any:
        nn = self.nn

        class Decoder(nn.Module):
            def __init__(self) -> None:
                self.embedding = nn.Embedding(VOCABULARY, MODEL)
                rotary = nn.RotaryEmbedding(MODEL // HEADS, capacity)
                self.layers = nn.ModuleList(
                    nn.TransformerEncoderLayer(
                        MODEL, HEADS, 4 * MODEL, 0.0, "gelu", batch_first=True, norm_first=True, rotary=rotary
                    )
                    for _ in range(LAYERS)
                )
                self.norm, self.head = nn.LayerNorm(MODEL), nn.Linear(MODEL, VOCABULARY, bias=False)

            def forward(self, x: Any, caches: Any = (None,) * LAYERS) -> Any:
                x = self.embedding(x)
                for layer, cache in zip(self.layers, caches, strict=True):
                    x = layer(x, is_causal=True, cache=cache)
                return self.head(self.norm(x))

        return Decoder()

    def decoder_step(self) -> Case:
        network = self.decoder(LENGTH)
        optimizer = self.adam(network)

        def step(x: Any, target: Any) -> Any:
            logits = self.engine.reshape(network(x), (-1, VOCABULARY))
            loss = self.nn.cross_entropy(logits, self.engine.reshape(target, (-1,)))
            optimizer.minimize(loss)
            return loss

        traced = self.engine.trace(step)
        x, target = (self.engine.asarray(tokens(SEQUENCES, LENGTH, seed=seed)) for seed in range(2))
        return lambda: traced(x, target).item()

    def generation(self) -> Callable[[], float]:
        network = self.decoder(CAPACITY).eval()
        caches = [self.nn.KeyValueCache(1, HEADS, CAPACITY, MODEL // HEADS) for _ in range(LAYERS)]

        @self.engine.trace
        def step(x: Any) -> Any:
            return self.engine.argmax(network(x, caches)[:, -1:], axis=2)

        prompt = self.engine.asarray(tokens(1, PROMPT))

        def run() -> float:
            for cache in caches:
                cache.reset()
            token = step(prompt)
            token.item()
            start = time.perf_counter()
            for _ in range(GENERATED):
                token = step(token)
                token.item()
            return 1e3 * (time.perf_counter() - start) / GENERATED

        return run

    def layers(self, file: str) -> float:
        """Returns the maximum absolute difference of outputs and gradients from those in the file."""
        engine, differences = self.engine, list[float]()
        with np.load(file) as held:
            for name, kind in LAYER_CASES.items():
                own = {key.removeprefix(f"{name}/"): held[key] for key in held if key.startswith(f"{name}/")}
                layer = getattr(self.nn, kind)(**options_of(name)).astype(engine.float64)
                layer.load_state_dict({key[6:]: x for key, x in own.items() if key.startswith("state/")})
                x, memory, dy = (engine.asarray(own[key]) for key in ("x", "memory", "dy"))
                hidden = engine.asarray(own["hidden"])
                if name == "attention":
                    y, _ = layer(x, key_padding_mask=hidden, is_causal=True)
                elif name == "decoder":
                    y = layer(x, memory, tgt_is_causal=True, memory_key_padding_mask=hidden)
                else:
                    y = layer(x, src_key_padding_mask=hidden, is_causal=True)
                parameters = layer.named_parameters()
                found = engine.gradients(engine.sum(y * dy), [x, *parameters.values()])
                pairs = [(y, own["y"]), (found[0], own["gradient/x"])]
                pairs += [(g, own[f"gradient/{key}"]) for key, g in zip(parameters, found[1:], strict=True)]
                differences += [float(np.abs(a.numpy() - b).max()) for a, b in pairs]
        return float(np.max(differences))  # NaN if any is

    def answer(self, request: str) -> Callable[[], float]:
        if request.startswith("layers "):
            return lambda: self.layers(request.split(maxsplit=1)[1])
        if request.startswith("arena_"):
            traced, call = self.attention(is_causal=True, length=int(request.removeprefix("arena_")))
            call()
            return lambda: self.engine.memory_report(traced).arena / 1e6
        if request == "generation":
            return self.generation()
        if request == "decoder_step":
            return timed(self.decoder_step())
        dtype = "bfloat16" if request == "attention_bfloat16" else "float32"
        return timed(self.attention(is_causal=request == "attention_causal", dtype=dtype)[1])


class OfTorch:
    """PyTorch: compiled if the case's name ends with `_compiled`, otherwise eager."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def attention(self, *, is_causal: bool, dtype: str) -> Case:
        torch = self.torch
        given = (torch.tensor(values(BATCH, HEADS, TOKENS, WIDTH, seed=seed)) for seed in range(4))
        query, key, value, dy = (each.to(getattr(torch, dtype)) for each in given)
        inputs = [x.requires_grad_() for x in (query, key, value)]

        def step() -> object:
            y = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=is_causal)
            return torch.autograd.grad(y, inputs, dy)

        return step

    def decoder(self, capacity: int) -> Any:
        torch = self.torch
        nn, F = torch.nn, torch.nn.functional
        width = MODEL // HEADS
        angles = torch.outer(torch.arange(capacity), 10000.0 ** (-torch.arange(0, width, 2) / width))
        cos, sin = torch.cos(angles), torch.sin(angles)

        def turned(x: Any, first: Any, count: int) -> Any:
            places = first + torch.arange(count)
            c, s = cos[places], sin[places]
            low, high = x.chunk(2, -1)
            return torch.cat([low * c - high * s, high * c + low * s], -1)

        class Layer(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(MODEL), nn.LayerNorm(MODEL)
                self.qkv, self.out = nn.Linear(MODEL, 3 * MODEL), nn.Linear(MODEL, MODEL)
                self.linear1, self.linear2 = nn.Linear(MODEL, 4 * MODEL), nn.Linear(4 * MODEL, MODEL)

            def forward(self, x: Any, cache: Any, first: Any, end: Any) -> Any:
                batch, count, _ = x.shape
                qkv = self.qkv(self.norm1(x)).view(batch, count, 3, HEADS, width).permute(2, 0, 3, 1, 4)
                query, key, value = turned(qkv[0], first, count), turned(qkv[1], first, count), qkv[2]
                mask = None
                if cache is not None:
                    places = first + torch.arange(count)
                    cache[0].index_copy_(2, places, key)
                    cache[1].index_copy_(2, places, value)
                    if end is None:  # static shapes: the whole cache, and a mask
                        key, value = cache
                        mask = torch.arange(capacity)[None, :] <= places[:, None]
                    else:
                        key, value = cache[0][:, :, :end], cache[1][:, :, :end]
                y = F.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None and count > 1)
                x = x + self.out(y.transpose(1, 2).reshape(batch, count, MODEL))
                return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))

        class Decoder(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = nn.Embedding(VOCABULARY, MODEL)
                self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
                self.norm, self.head = nn.LayerNorm(MODEL), nn.Linear(MODEL, VOCABULARY, bias=False)

            def forward(self, x: Any, caches: Any = (None,) * LAYERS, first: Any = 0, end: Any = None) -> Any:
                x = self.embedding(x)
                for layer, cache in zip(self.layers, caches, strict=True):
                    x = layer(x, cache, first, end)
                return self.head(self.norm(x))

        return Decoder()

    def decoder_step(self, *, compiled: bool) -> Case:
        torch = self.torch
        network = self.decoder(LENGTH)
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        forward = torch.compile(network) if compiled else network
        x, target = (torch.tensor(tokens(SEQUENCES, LENGTH, seed=seed)) for seed in range(2))

        def step() -> object:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(forward(x).view(-1, VOCABULARY), target.view(-1))
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    def generation(self, *, compiled: bool) -> Callable[[], float]:
        torch = self.torch
        network = self.decoder(CAPACITY).eval()
        caches = [tuple(torch.zeros(1, HEADS, CAPACITY, MODEL // HEADS) for _ in range(2)) for _ in range(LAYERS)]
        forward = torch.compile(network) if compiled else network
        prompt = torch.tensor(tokens(1, PROMPT))

        def run() -> float:
            with torch.inference_mode():
                token = network(prompt, caches, 0, PROMPT)[:, -1:].argmax(2)
                start = time.perf_counter()
                for place in range(PROMPT, PROMPT + GENERATED):
                    where = torch.tensor(place) if compiled else place
                    token = forward(token, caches, where, None if compiled else place + 1)[:, -1:].argmax(2)
                    token.item()
                return 1e3 * (time.perf_counter() - start) / GENERATED

        return run

    def layers(self, file: str) -> float:
        """Writes the reference values for the engine."""
        torch = self.torch
        torch.manual_seed(0)
        held: dict[str, np.ndarray] = {}
        for name, kind in LAYER_CASES.items():
            layer = getattr(torch.nn, kind)(**options_of(name)).double()
            for parameter in layer.parameters():
                torch.nn.init.normal_(parameter, 0.1, 0.5)
            x, memory, dy = (torch.randn(2, 7, 12, dtype=torch.float64) for _ in range(3))
            x.requires_grad_()
            hidden = torch.zeros(2, 7, dtype=torch.bool)
            hidden[1, 4:] = True
            causal = torch.ones(7, 7, dtype=torch.bool).triu(1)
            if name == "attention":
                y, _ = layer(x, x, x, key_padding_mask=hidden, attn_mask=causal)
            elif name == "decoder":
                y = layer(x, memory, tgt_mask=causal, memory_key_padding_mask=hidden)
            else:
                y = layer(x, src_mask=causal, src_key_padding_mask=hidden)
            parameters = dict(layer.named_parameters())
            gradients = torch.autograd.grad((y * dy).sum(), [x, *parameters.values()])
            arrays = {"x": x, "memory": memory, "dy": dy, "hidden": hidden, "y": y, "gradient/x": gradients[0]}
            arrays |= {f"gradient/{key}": g for key, g in zip(parameters, gradients[1:], strict=True)}
            arrays |= {f"state/{key}": each for key, each in layer.state_dict().items()}
            held |= {f"{name}/{key}": each.detach().numpy() for key, each in arrays.items()}
        np.savez(file, **held)
        return 0.0

    def answer(self, request: str) -> Callable[[], float]:
        if request.startswith("layers "):
            return lambda: self.layers(request.split(maxsplit=1)[1])
        name, compiled = request.removesuffix("_compiled"), request.endswith("_compiled")
        if name == "generation":
            return self.generation(compiled=compiled)
        if name == "decoder_step":
            return timed(self.decoder_step(compiled=compiled))
        dtype = "bfloat16" if name == "attention_bfloat16" else "float32"
        return timed(self.attention(is_causal=name == "attention_causal", dtype=dtype))


def timed(call: Case) -> Callable[[], float]:
    """Returns a function that measures the median milliseconds of a call. For attention, the median is over about seven
    calls (with three calls, the middle half of the rounds' ratios ranged from 1.08 to 1.46).
    """
    call()  # compiles, or warms up

    return lambda: milliseconds(call, SECONDS)


if __name__ == "__main__":
    peer: OfTrainer | OfTorch = OfTrainer() if sys.argv[1] == "trainer" else OfTorch()
    known: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in known:
            known[name] = peer.answer(name)
            known[name]()
        value = known[name]()
        assert not math.isnan(value)
        print(value, flush=True)
