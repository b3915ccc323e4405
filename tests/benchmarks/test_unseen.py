"""The untuned networks: fixed by name, written once for both frameworks, and where their time goes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "workloads"))

import drawn_networks
import unseen
import untuned_networks


def test_the_networks_are_those_that_were_fixed() -> None:
    assert tuple(untuned_networks.NETWORKS) == unseen.NETWORKS and len(set(unseen.NETWORKS)) == 10
    assert len(set(unseen.OTHERS)) == 20 and not set(unseen.OTHERS) & set(unseen.NETWORKS)
    assert unseen.draw() == sorted(drawn_networks.NETWORKS)
    assert unseen.draw() == unseen.draw() and set(unseen.draw()) < set(unseen.OTHERS) and len(unseen.draw()) == 5


def test_the_decoder_has_thirty_million_parameters() -> None:
    (decoder,) = untuned_networks.NETWORKS["decoder"].build()
    sizes = [untuned_networks.initial(name, shape).size for name, shape in decoder.named_shapes().items()]
    assert 28e6 < sum(sizes) < 32e6


def test_a_network_names_its_figures() -> None:
    names = unseen.names_of("swin", unseen.figures("python"))
    some = ("train", "train_bfloat16", "train_fast", "inference_32", "losses", "first_step_warm")
    assert {f"swin_{each}" for each in some} < set(names)
    assert all(name.startswith("swin_") for name in names)
    drawn = unseen.figures("python", unseen.draw(), "drawn_")
    assert {"drawn_training", "drawn_inference"} < {each.name for each in drawn}
    assert "squeezenet_train_bfloat16" in unseen.names_of("squeezenet", drawn)


def test_launches_that_lose_most_come_first() -> None:
    def launch(kernel: str, busy: float, roofline: float, module: str) -> dict[str, object]:
        return {"kernel": kernel, "shape": "8x8", "busy": busy, "waiting": 0.0, "roofline": roofline, "module": module}

    launches = [
        launch("fast", 0.003, 0.003, "a"),
        launch("slow", 0.002, 0.001, "a"),
        launch("shared", 0.001, 0, ""),
    ]
    lines = list(unseen.launch_table({"seconds": 0.006, "launches": launches}, {"a": 0.004, "": 0.001}, 2))
    assert lines[1].split() == ["1.00", "2.00", "33.3", "50", "5.00", "4.00", "slow", "8x8", "a"]
    assert lines[2].split() == ["1.00", "1.00", "16.7", "0", "-", "-", "shared", "8x8"]
