"""What chooses the program of a traced step among those of other signatures, and in which form arguments arrive."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.tracing.trace import CACHED_SIGNATURES

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True, params=["cpu", "reference"])
def device(request: pytest.FixtureRequest, cpu: CpuDevice) -> Iterator[Any]:
    with engine.device(cpu if request.param == "cpu" else "reference") as chosen:
        yield chosen


def test_a_number_is_compared_exactly() -> None:
    traced = engine.trace(lambda x, number: x / number)
    traced(X, 0.0)
    with (
        pytest.raises(TrainerError, match="argument number of a traced step changed") as caught,
        np.errstate(all="ignore"),
    ):
        traced(X, -0.0)
    assert caught.value.found == "-0.0"
    same = engine.trace(lambda x, number: x + number)
    assert all(np.isnan(same(X, float("nan")).numpy()).all() for _ in range(2))


def test_namedtuples_of_one_name_with_other_fields_have_programs_of_their_own() -> None:
    first, second = namedtuple("Pair", "a b"), namedtuple("Pair", "b a")  # type: ignore[misc]
    traced = engine.trace(lambda pair: pair.a - pair.b)
    assert traced(first(X, X * 3)).tolist() == (X * -2).tolist()
    assert traced(second(X, X * 3)).tolist() == (X * 2).tolist()


def test_keys_of_dictionaries_differ_by_their_types() -> None:
    traced = engine.trace(lambda batch: next(iter(batch.values())) * (2 if isinstance(next(iter(batch)), bool) else 3))
    for key in (1, True, 1.0):
        assert traced({key: X}).tolist() == (X * (2 if key is True else 3)).tolist()


class Batch(dict):  # type: ignore[type-arg]
    """A dictionary that makes no copies of itself by calling its class."""

    def __init__(self, image: Any, label: Any) -> None:
        super().__init__(image=image, label=label)

    @property
    def total(self) -> Any:
        return self["image"] + self["label"]


class Rows(list):  # type: ignore[type-arg]
    def last(self) -> Any:
        return self[-1]


def test_containers_arrive_and_return_as_their_own_classes() -> None:
    seen: list[Any] = []

    def step(batch: Any, ordered: Any, missing: Any, rows: Any) -> Any:
        seen.append((type(batch), type(ordered), type(missing), type(rows), missing.default_factory))
        return batch.total + ordered["x"] + rows.last(), {"batch": batch, "ordered": ordered, "rows": rows}

    traced = engine.trace(step)
    for _ in range(2):
        total, returned = traced(Batch(X, X), OrderedDict(x=X), defaultdict(list, x=X), Rows([X * 0, X]))
        assert total.tolist() == (X * 4).tolist()
        assert [type(value) for value in returned.values()] == [Batch, OrderedDict, Rows]
        assert returned["batch"]["image"].tolist() == X.tolist() and returned["rows"][1].tolist() == X.tolist()
    assert seen == [(Batch, OrderedDict, defaultdict, Rows, list)]
    with pytest.raises(AttributeError, match="total"):
        traced(dict(Batch(X, X)), OrderedDict(x=X), defaultdict(list, x=X), Rows([X]))


@pytest.mark.parametrize("kind", ["dictionary", "list"])
def test_a_container_with_attributes_is_refused(kind: str) -> None:
    given = Batch(X, X) if kind == "dictionary" else Rows([X])
    traced = engine.trace(lambda batch: 1)
    traced(given)
    given.scale = 2.0  # type: ignore[union-attr]
    with pytest.raises(TrainerError, match="argument batch of a traced step has attributes") as caught:
        traced(given)
    assert caught.value.found == f"{type(given).__name__} with the attribute scale"


class Sample:
    def __init__(self, image: Any, scale: float = 2.0) -> None:
        self.image, self.scale = image, scale


class SlottedSample:
    __slots__ = ("image",)

    def __init__(self, image: Any) -> None:
        self.image = image


@pytest.mark.parametrize("made", [Sample, SlottedSample, lambda x: Sample({"pixels": [x]})])
@pytest.mark.parametrize("convert", [np.asarray, engine.asarray])
def test_an_object_that_holds_arrays_is_refused(made: Any, convert: Any) -> None:
    with pytest.raises(
        TrainerError, match=r"argument batch\['a'\] of a traced step is an object that holds arrays"
    ) as caught:
        engine.trace(lambda batch: 1)({"a": made(convert(X))})
    assert str(caught.value.found).endswith("with arrays in the attribute image")
    assert "Pass the arrays in a dictionary, a tuple or a namedtuple." in str(caught.value)


def test_an_object_among_the_arguments_is_known_by_its_identity() -> None:
    traced = engine.trace(lambda x, sample: x * sample.scale)
    first, second = Sample(None), Sample(None, 3.0)
    for _ in range(2):
        assert traced(X, first).tolist() == (X * 2).tolist() and traced(X, second).tolist() == (X * 3).tolist()
    assert len(traced.programs) == 2


def test_a_module_among_the_arguments_may_be_another_one() -> None:
    networks = [nn.Linear(3, 2).set_seed(seed) for seed in range(2)]
    traced = engine.trace(lambda network, x: network(x))
    for network in (*networks, *networks):
        assert traced(network, X).tolist() == network(X).tolist()


def test_the_signature_that_is_used_most_is_kept() -> None:
    runs: list[int] = []

    def step(x: Any) -> Any:
        runs.append(x.shape[0])
        return x + 1

    traced = engine.trace(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for extent in range(1, 3 * CACHED_SIGNATURES):
            traced(np.ones(1, np.float32))
            traced(np.ones(extent + 1, np.float32))
    assert runs.count(1) == 1 and len(traced.programs) == CACHED_SIGNATURES


def arrays_in_any_form() -> Iterator[tuple[str, np.ndarray]]:
    x = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    packed = np.zeros((2, 3, 4), np.dtype([("flag", "i1"), ("value", "<f4"), ("large", ">f4")]))
    packed["value"], packed["large"] = x, x
    shifted = np.frombuffer(b"." + x.tobytes(), np.float32, offset=1).reshape(x.shape)
    pixels = np.arange(1, 97, dtype=np.float32).reshape(2, 3, 4, 4)
    fixed = x.copy()
    fixed.setflags(write=False)
    yield "big-endian", x.astype(">f4")
    yield "unaligned", shifted
    yield (
        "unaligned images, channels last",
        np.frombuffer(b"." + pixels.transpose(0, 2, 3, 1).tobytes(), np.float32, offset=1)
        .reshape(2, 4, 4, 3)
        .transpose(0, 3, 1, 2),
    )
    yield (
        "big-endian images, channels last",
        np.ascontiguousarray(pixels.transpose(0, 2, 3, 1).astype(">f4")).transpose(0, 3, 1, 2),
    )
    yield "read-only", fixed
    yield "negative strides", x[::-1, :, ::-2]
    yield "field", packed["value"]
    yield "big-endian field", packed["large"]
    yield "Fortran order", np.asfortranarray(x)
    yield "broadcast", np.broadcast_to(x[:, :1], x.shape)


@pytest.mark.parametrize(("name", "x"), [pytest.param(*given, id=given[0]) for given in arrays_in_any_form()])
def test_an_array_in_any_form_gives_its_values(name: str, x: np.ndarray) -> None:
    expected = np.ascontiguousarray(x, np.float32)
    traced = engine.trace(lambda x: (x + 0, engine.sum(x), x))
    for _ in range(2):
        shifted, total, same = traced(x)
        assert np.array_equal(shifted.numpy(), expected) and np.array_equal(same.numpy(), expected), name
        assert total.item() == expected.sum()
    assert np.array_equal((engine.asarray(x) + 0).numpy(), expected)
