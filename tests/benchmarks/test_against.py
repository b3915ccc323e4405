"""The comparison with an older checkout: what its processes import, its figures, and when bits are equal."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "workloads"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import against
import contractions
import steps
from against import Checkout, check, share_equal
from digest import digest, networks, parsed
from harness import Family, Figure

from trainer.engine import nn

ROOT = str(Path(__file__).parents[2])


def checkout(root: Path) -> Checkout:
    return Checkout(root, root / "cache")


def test_processes_of_a_checkout_import_from_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    program = "import os, trainer; print(os.getcwd(), trainer.__file__)"
    assert checkout(tmp_path).output("-c", program).split() == [str(tmp_path), str(tmp_path / "trainer/__init__.py")]
    assert ROOT not in checkout(tmp_path).environment()["PYTHONPATH"].split(os.pathsep)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not a checkout"):
        check(checkout(tmp_path))


def test_every_step_and_contraction_of_cpu_py_is_compared(tmp_path: Path) -> None:
    stepped, guards, layers, bits = against.figures(checkout(tmp_path), checkout(tmp_path))
    assert isinstance(stepped, Family) and isinstance(layers, Family)
    compared_with_torch = {figure.name for figure in steps.FIGURES if isinstance(figure.peer, steps.TorchPeer)}
    assert {figure.name for figure in stepped.figures} == compared_with_torch - {"resnet50_memory", *steps.OTHERS}
    assert {figure.name for figure in layers.figures} == {
        family.name for family in contractions.FAMILIES if "numpy" not in family.name
    }
    assert (stepped.bar, layers.bar, guards.bar, bits.bar) == (0.99, 0.99, 0.98, 1.0)
    assert isinstance(bits, Figure) and not bits.is_timing


def test_bits_are_equal_only_if_every_digest_is() -> None:
    assert share_equal({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == 1
    assert share_equal({"a": "1", "b": "2"}, {"a": "1", "b": "3"}) == 0.5
    assert share_equal({"a": "1", "b": ""}, {"a": "1", "b": ""}) == 0.5, "no digest is equal to none"
    assert share_equal({"a": "1"}, {}) == 0


def test_digests_of_all_steps_can_be_requested() -> None:
    assert [parsed(words).workload for words in against.WAYS.values()] == [words[0] for words in against.WAYS.values()]


def test_a_digest_is_of_losses_in_order_and_of_states_in_any() -> None:
    a, b = np.array([1.0, 2.0], np.float32), np.array([3.0], np.float32)
    assert digest([1.0, 2.0], [a, b]) == digest([1.0, 2.0], [b, a])
    others = [digest([2.0, 1.0], [a, b]), digest([1.0, 2.0], [a]), digest([1.0, 2.0], [a, np.nextafter(b, b + 1)])]
    others += [digest([1.0, 2.0], [a[:, None], b]), digest([1.0, 2.0], [a.view(np.int32), b])]
    assert len({digest([1.0, 2.0], [a, b]), *others}) == 6


@pytest.mark.parametrize(
    ("losses", "states"),
    [([1.0], []), ([], [np.ones(1)]), ([float("nan")], [np.ones(1)]), ([1.0], [np.array([np.inf])])],
)
def test_what_is_not_finite_or_nothing_has_no_digest(losses: list[float], states: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"finite|losses"):
        digest(losses, states)


def test_the_networks_of_a_step_are_also_those_of_functions_in_it() -> None:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)

    def judged() -> None:
        second(first)  # type: ignore[arg-type]

    def step() -> None:
        first(judged)  # type: ignore[arg-type]

    assert networks(step) == [first, second] or networks(step) == [second, first]
