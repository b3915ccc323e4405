"""PyTorch's files without PyTorch: the tensors that it wrote (`make_torch_files.py`), and nothing else."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import bfloat16, bool_, float16, float32, float64, int32, int64, nn, uint8
from trainer.learner.weights import load_weights, read_weights

FILES = Path(__file__).with_name("torch_files")
STATE_FILES = ["plain.pt", "legacy.pth", "protocol4.pt", "training.pth", "data_parallel.pt"]


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    with np.load(FILES / "expected.npz") as file:
        return dict(file)


def network() -> nn.Module:
    layers = OrderedDict(
        conv1=nn.Conv2d(3, 4, 3), bn1=nn.BatchNorm2d(4), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(),
        fc=nn.Linear(4, 2),
    )  # fmt: skip

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, layer in layers.items():
                setattr(self, name, layer)

        def forward(self, x: engine.Tensor) -> engine.Tensor:
            for layer in layers.values():
                x = layer(x)
            return x

    return Network().set_seed(0)


@pytest.mark.parametrize("name", STATE_FILES)
def test_a_network_with_pytorchs_weights_gives_pytorchs_results(name: str, expected: dict[str, np.ndarray]) -> None:
    net = network()
    match = load_weights(FILES / name, {"net": net})
    assert match.report().removesuffix(" from module") == "9 of 9 arrays loaded"
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value, expected[f"net/{key}"])
    output = net.eval()(engine.asarray(expected["image"])).numpy()
    np.testing.assert_allclose(output, expected["output"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["tensors.pt", "tensors_legacy.pt"])
def test_every_dtype_and_every_view_has_its_numbers(name: str, expected: dict[str, np.ndarray]) -> None:
    arrays = read_weights(FILES / name).arrays
    for key, array in arrays.items():
        np.testing.assert_array_equal(array.widened().astype(np.float32), expected[f"tensors/{key}"], err_msg=key)
    dtypes = (float64, float32, float16, bfloat16, int64, int32, uint8)
    assert all(arrays[dtype.name].dtype is dtype for dtype in dtypes)
    assert arrays["int8"].dtype is arrays["int16"].dtype is int32 and arrays["bool"].dtype is bool_


def test_a_dictionary_inside_is_named_by_entry() -> None:
    arrays = read_weights(FILES / "training.pth", "optimizer.state").arrays
    assert arrays["0.exp_avg"].values.shape == (4, 3, 3, 3)
    with pytest.raises(TrainerError, match="no entry 'ema'") as raised:
        read_weights(FILES / "training.pth", "ema")
    assert "state_dict, optimizer" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [("module.pt", "torch.nn.modules.container.Sequential"), ("program.pt", "a TorchScript program, which is code")],
)
def test_what_needs_code_is_refused_by_its_name(name: str, said: str) -> None:
    with pytest.raises(TrainerError, match=said):
        read_weights(FILES / name)


# --- hostile files ------------------------------------------------------------------------------------------------


class Runs:
    """Pickled, it is a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def archive_of(path: Path, content: bytes, members: dict[str, bytes] | None = None, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", content)
        for name, data in (members or {}).items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("is_legacy", [False, True])
def test_a_file_that_would_run_a_command_is_refused_and_nothing_is_run(
    tmp_path: Path, protocol: int, is_legacy: bool
) -> None:
    marker = tmp_path / "marker"
    content = pickle.dumps({"weight": Runs(os.system, f"touch {marker}")}, protocol)
    path = tmp_path / "w.pt"
    if is_legacy:
        head = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
        path.write_bytes(b"".join([*head, content]))
    else:
        archive_of(path, content)
    with pytest.raises(TrainerError) as raised:
        read_weights(path)
    assert not marker.exists()
    if protocol >= 2:
        assert "posix.system" in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        Runs(eval, "1"), Runs(getattr, "", "join"), Runs(open, "x"), Runs(__import__, "os"), Runs(bytearray, 1 << 40),
        Runs(np.frombuffer, b""), np.float64(1.0), {1, 2}, bytearray(3), object(), len,
    ],
)  # fmt: skip
def test_all_but_containers_and_tensors_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TrainerError, match="needs more than tensors"):
        read_weights(archive_of(tmp_path / "w.pt", pickle.dumps({"weight": value}, 4)))


def pickled_tensor(storage: Any = ("storage", "torch.FloatStorage", "0", "cpu", 6), offset: Any = 0,
                   shape: Any = (2, 3), strides: Any = (3, 1)) -> bytes:  # fmt: skip
    """{"w": a tensor of these parts}, by the opcodes that PyTorch writes."""

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    class Writer(pickle._Pickler):  # type: ignore[misc, name-defined]  # the one in Python, which can be taught
        def save(self, item: Any, *rest: Any, **options: Any) -> None:
            if isinstance(item, Named):
                self.write(b"c" + "\n".join(item.name.rsplit(".", 1)).encode() + b"\n")
            elif isinstance(item, Tensor):
                self.save(Named("torch._utils._rebuild_tensor_v2"))
                self.write(b"(")
                kind, element, *others = storage
                self.write(b"(")
                for part in (kind, Named(element) if isinstance(element, str) else element, *others):
                    self.save(part)
                self.write(b"tQ")
                for part in (offset, shape, strides, False, {}):
                    self.save(part)
                self.write(b"tR")
            else:
                super().save(item, *rest, **options)

    class Tensor:
        pass

    buffer = io.BytesIO()
    Writer(buffer, 2).dump({"w": Tensor()})
    return buffer.getvalue()


DATA = np.arange(6, dtype=np.float32).tobytes()


def test_a_tensor_of_given_parts_is_read(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "w.pt", pickled_tensor(shape=(3, 2), strides=(1, 3)), {"archive/data/0": DATA})
    np.testing.assert_array_equal(read_weights(path).arrays["w"].values, np.arange(6).reshape(2, 3).T)


@pytest.mark.parametrize(
    "parts",
    [
        {"offset": 1}, {"offset": -1}, {"offset": 1.0}, {"shape": (2, 4)}, {"strides": (4, 1)}, {"strides": (-3, 1)},
        {"shape": (2, 3, 1)}, {"shape": (1 << 47, 1 << 47), "strides": (0, 0)}, {"strides": (0, 0), "shape": (9, 9)},
        {"shape": [2, 3]}, {"shape": (True, 3)}, {"shape": "ab"}, {"shape": (1,) * 40, "strides": (1,) * 40},
        {"storage": ("storage", "torch.FloatStorage", "0", "cpu", 5)},
        {"storage": ("storage", "torch.FloatStorage", "0", "cpu", 1 << 60)},
        {"storage": ("storage", "torch.FloatStorage", "1", "cpu", 6)},
        {"storage": ("storage", "torch.FloatStorage", "../../data.pkl", "cpu", 6)},
        {"storage": ("storage", "torch.DoubleStorage", "0", "cpu", 6)},
        {"storage": ("storage", "torch.Size", "0", "cpu", 6)}, {"storage": ("module", "torch.FloatStorage", "0")},
        {"storage": ("storage", None, "0", "cpu", 6)}, {"storage": ("storage", "torch.FloatStorage", 0, "cpu", 6)},
    ],
)  # fmt: skip
def test_a_tensor_that_lies_about_its_memory_is_refused(tmp_path: Path, parts: dict[str, Any]) -> None:
    path = archive_of(tmp_path / "w.pt", pickled_tensor(**parts), {"archive/data/0": DATA})
    with pytest.raises(TrainerError):
        read_weights(path)


def test_archives_that_grow_or_that_are_none_are_refused(tmp_path: Path) -> None:
    compressed = archive_of(tmp_path / "z.pt", pickled_tensor(), {"archive/data/0": bytes(1 << 20)},
                            compression=zipfile.ZIP_DEFLATED)  # fmt: skip
    with pytest.raises(TrainerError, match="compressed"):
        read_weights(compressed)
    with pytest.raises(TrainerError, match=r"one data\.pkl"), zipfile.ZipFile(tmp_path / "n.pt", "w") as archive:
        archive.writestr("nothing", b"")
        archive.close()
        read_weights(tmp_path / "n.pt")
    for content in (b"", b"PK", b"PK\x03\x04", b"\x80\x02", b"text", pickle.dumps(3, 2)):
        (tmp_path / "t.pt").write_bytes(content)
        with pytest.raises(TrainerError):
            read_weights(tmp_path / "t.pt")


def test_dictionaries_within_dictionaries_without_end_are_refused(tmp_path: Path) -> None:
    loops: dict[str, Any] = {}
    loops["self"] = loops
    wide: Any = {}
    for _ in range(7):
        wide = {str(key): wide for key in range(12)}
    for value in (loops, wide):
        with pytest.raises(TrainerError, match=r"no tensors by name|more than 1,000,000 values"):
            read_weights(archive_of(tmp_path / "w.pt", pickle.dumps(value, 2)))


def loaded(path: Path) -> dict[str, bytes] | None:
    """What a file gives, or None where it is refused; anything but a TrainerError is a fault."""
    try:
        return {
            name: repr((array.values.shape, array.dtype)).encode() + array.values.tobytes()
            for name, array in read_weights(path).arrays.items()
        }
    except TrainerError:
        return None


@pytest.mark.parametrize("name", ["plain.pt", "tensors.pt"])
def test_a_changed_byte_is_noticed_or_changes_nothing(tmp_path: Path, name: str) -> None:
    random = np.random.default_rng(0)
    content, path = (FILES / name).read_bytes(), tmp_path / "w.pt"
    whole, refused = loaded(FILES / name), 0
    for _ in range(500):
        changed = bytearray(content)
        if random.integers(10):
            place = int(random.integers(len(content)))
            changed[place] ^= 1 << int(random.integers(8))
        else:
            del changed[int(random.integers(len(content))) :]
        path.write_bytes(changed)
        found = loaded(path)
        assert found in (None, whole)
        refused += found is None
    assert refused > 100


@pytest.mark.parametrize("name", ["plain.pt", "legacy.pth", "tensors_legacy.pt"])
def test_a_changed_pickle_gives_tensors_or_an_error(tmp_path: Path, name: str) -> None:
    """The archive is whole here (its CRCs are right), so that the interpreter itself meets what nobody wrote."""
    random = np.random.default_rng(1)
    path = tmp_path / "w.pt"
    if name.endswith(".pth") or "legacy" in name:
        pieces, content = {}, (FILES / name).read_bytes()
    else:
        with zipfile.ZipFile(FILES / name) as archive:
            pieces = {member: archive.read(member) for member in archive.namelist()}
        content = pieces.pop("plain/data.pkl")
        pieces = {member.replace("plain/", "archive/"): data for member, data in pieces.items()}
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(int(random.integers(1, 4))):
            place = int(random.integers(len(content)))
            changed[place] = int(random.integers(256))
        if pieces:
            archive_of(path, bytes(changed), pieces)
        else:
            path.write_bytes(changed)
        loaded(path)


def test_numbers_in_the_zip_that_lie_are_refused(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "w.pt", pickled_tensor(), {"archive/data/0": DATA})
    content = path.read_bytes()
    assert content.count(struct.pack("<II", len(DATA), len(DATA))) == 2  # the member's header, and the list of contents
    path.write_bytes(content.replace(struct.pack("<II", len(DATA), len(DATA)), struct.pack("<II", 1 << 31, 1 << 31)))
    with pytest.raises(TrainerError):
        read_weights(path)
