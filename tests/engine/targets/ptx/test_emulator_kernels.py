"""Kernels in the emulator: control flow, shared memory, warps and matrices equal NumPy; errors are located."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.targets.ptx.emulator import rounding
from tests.engine.targets.ptx.emulator.fault import Fault
from tests.engine.targets.ptx.emulator.launch import Buffer, launch
from tests.engine.targets.ptx.modules import kernel, lowered

TILE = ".shared .align 16 .b8 tile[1024];"
THREAD = "mov.u32 %r1, %tid.x;\n    mov.u32 %r2, tile;\n    mad.lo.s32 %r3, %r1, 4, %r2;\n    "
OUT = "ld.param.u64 %rd1, [out];\n    mad.wide.u32 %rd2, %r1, 4, %rd1;\n    "


def words(count: int) -> np.ndarray:
    return np.zeros(count, np.uint32)


def test_a_loop_and_a_branch_differ_by_thread() -> None:
    """Steps of the Collatz sequence from each thread's number on."""
    body = (
        THREAD
        + OUT
        + """add.u32 %r4, %r1, 1;
    mov.u32 %r5, 0;
loop:
    setp.eq.u32 %p1, %r4, 1;
    @%p1 bra done;
    and.b32 %r6, %r4, 1;
    setp.eq.u32 %p2, %r6, 0;
    @%p2 bra even;
    mad.lo.u32 %r4, %r4, 3, 1;
    bra next;
even:
    shr.u32 %r4, %r4, 1;
next:
    add.u32 %r5, %r5, 1;
    bra loop;
done:
    st.global.u32 [%rd2], %r5;
    ret;"""
    )
    expected = []
    for number in range(1, 71):
        steps = 0
        while number != 1:
            number, steps = (number * 3 + 1 if number % 2 else number // 2), steps + 1
        expected.append(steps)
    out = words(70)
    launch(kernel(body, declarations=TILE), 1, 70, [Buffer(out, is_written=False)])
    assert out.tolist() == expected


def turned(barrier: str = "bar.sync 0;") -> str:
    """Reverses a block's numbers through shared memory."""
    return kernel(
        THREAD
        + OUT
        + f"""st.shared.u32 [%r3], %r1;
    {barrier}
    mov.u32 %r4, %ntid.x;
    sub.s32 %r4, %r4, %r1;
    mad.lo.s32 %r4, %r4, 4, %r2;
    ld.shared.u32 %r5, [%r4+-4];
    st.global.u32 [%rd2], %r5;
    ret;""",
        declarations=TILE,
    )


def test_a_barrier_orders_shared_memory() -> None:
    out = words(96)
    launch(turned(), 1, 96, [out])
    assert out.tolist() == list(range(96))[::-1]


def test_a_read_before_the_barrier_is_a_race() -> None:
    with pytest.raises(
        Fault, match=r"k, line 21, `ld\.shared\.u32 .*thread 0 of block 0: race in shared memory: .*thread 95"
    ):
        launch(turned(""), 1, 96, [words(96)])


def test_a_barrier_of_a_warp_orders_its_lanes_and_no_others() -> None:
    out = words(32)
    launch(turned("bar.warp.sync 0xffffffff;"), 1, 32, [out])
    assert out.tolist() == list(range(32))[::-1]
    with pytest.raises(Fault, match="race in shared memory"):
        launch(turned("bar.warp.sync 0xffffffff;"), 1, 64, [words(64)])


def test_named_barriers_order_the_warps_that_meet_at_them() -> None:
    """Warp 0 writes and arrives; warp 1 waits and reads. With another number they never meet."""

    def text(number: int) -> str:
        return kernel(
            THREAD
            + OUT
            + f"""setp.ge.u32 %p1, %r1, 32;
    @%p1 bra consumer;
    st.shared.u32 [%r3], %r1;
    barrier.cta.arrive.aligned 1, 64;
    ret;
consumer:
    barrier.cta.sync.aligned {number}, 64;
    ld.shared.u32 %r4, [%r3+-128];
    st.global.u32 [%rd2+-128], %r4;
    ret;""",
            declarations=TILE,
        )

    out = words(32)
    launch(text(1), 1, 64, [out])
    assert out.tolist() == list(range(32))
    with pytest.raises(Fault, match=r"line 22, `barrier\.cta\.sync.*divergent barrier: 32 threads are at barrier 2"):
        launch(text(2), 1, 64, [out])


def test_a_barrier_in_a_branch_is_divergent() -> None:
    body = THREAD + "setp.lt.u32 %p1, %r1, 7;\n    @%p1 bra end;\n    bar.sync 0;\nend:\n    ret;"
    with pytest.raises(Fault, match="divergent barrier: not all threads of the warp"):
        launch(kernel(body, declarations=TILE), 1, 32, [words(1)])


def test_a_block_that_read_first_races_with_a_write_that_follows_other_reads() -> None:
    """Block 0 reads a word; two threads of block 1 read it, too, and write it after a barrier of their own."""
    body = """ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    ld.global.u32 %r3, [%rd1];
    bar.sync 0;
    add.u32 %r4, %r1, %r2;
    setp.ne.u32 %p1, %r4, 2;
    @%p1 bra end;
    st.global.u32 [%rd1], %r1;
end:
    ret;"""
    for seed in range(4):
        with pytest.raises(Fault, match=r"race in argument 0: a write after a read of thread \d of block 0"):
            launch(kernel(body), 2, 2, [words(1)], seed=seed)


def test_lanes_meet_before_a_barrier_wherever_the_branch_lies() -> None:
    body = (
        THREAD
        + OUT
        + """mov.u32 %r5, 1;
    setp.lt.u32 %p1, %r1, 7;
    @%p1 bra aside;
meet:
    bar.sync 0;
    st.global.u32 [%rd2], %r5;
    ret;
aside:
    mov.u32 %r5, 2;
    bra meet;"""
    )
    out = words(64)
    launch(kernel(body, declarations=TILE), 1, 64, [Buffer(out, is_written=False)])
    assert out.tolist() == [2] * 7 + [1] * 57


def test_shared_memory_that_nobody_wrote_is_not_read() -> None:
    body = THREAD + "ld.shared.u32 %r4, [%r3];\n    ret;"
    with pytest.raises(Fault, match="unwritten memory of shared memory is read"):
        launch(kernel(body, declarations=TILE), 1, 32, [words(1)])


def test_an_output_is_not_read_before_it_is_written() -> None:
    body = THREAD + OUT + "ld.global.u32 %r4, [%rd2];\n    ret;"
    launch(kernel(body, declarations=TILE), 1, 8, [words(8)])
    with pytest.raises(Fault, match="unwritten memory of argument 0 is read"):
        launch(kernel(body, declarations=TILE), 1, 8, [Buffer(words(8), is_written=False)])


def test_a_wide_read_of_memory_that_is_written_in_part_is_found() -> None:
    body = "ld.param.u64 %rd1, [out];\n    ld.global.u64 %rd2, [%rd1];\n    ret;"
    written = np.array([True] * 4 + [False] * 4)
    with pytest.raises(Fault, match="unwritten memory of argument 0 is read"):
        launch(kernel(body), 1, 1, [Buffer(words(2), is_written=written)])
    assert written.tolist() == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("[%rd2+4]", "thread 7 of block 0: out of bounds: an access of 4 bytes at byte 32 of argument 0, which has 32"),
        ("[%rd2+2]", "not aligned"),
        ("[%rd3]", "not in any buffer"),
    ],
)
def test_a_wrong_address_is_found(address: str, message: str) -> None:
    body = THREAD + OUT + f"mov.u64 %rd3, 64;\n    st.global.u32 {address}, %r1;\n    ret;"
    with pytest.raises(Fault, match=message):
        launch(kernel(body, declarations=TILE), 1, 8, [words(8)])


def test_two_blocks_that_write_one_place_race() -> None:
    with pytest.raises(Fault, match=r"race in argument 0: a write.*thread \d of block \d"):
        launch(kernel(THREAD + OUT + "st.global.u32 [%rd2], %r1;\n    ret;", declarations=TILE), 2, 8, [words(8)])


def test_atomic_additions_do_not_race_and_return_what_was_there() -> None:
    body = THREAD + OUT + "atom.global.add.u32 %r4, [%rd1], 2;\n    st.global.u32 [%rd2+4], %r4;\n    ret;"
    out = words(65)
    launch(kernel(body, declarations=TILE), 1, 64, [out])
    assert out[0] == 128
    assert sorted(out[1:]) == list(range(0, 128, 2))


@pytest.mark.parametrize(
    ("instruction", "source"),
    [
        ("shfl.sync.bfly.b32 %r4|%p1, %r1, 5, 0x1f, 0xffffffff;", lambda lane: lane ^ 5),
        ("shfl.sync.down.b32 %r4|%p1, %r1, 3, 0x1f, 0xffffffff;", lambda lane: lane + 3 if lane + 3 < 32 else lane),
        ("shfl.sync.up.b32 %r4|%p1, %r1, 3, 0, 0xffffffff;", lambda lane: lane - 3 if lane >= 3 else lane),
        ("shfl.sync.idx.b32 %r4|%p1, %r1, 9, 0x181f, 0xffffffff;", lambda lane: lane & 24 | 1),
        ("vote.sync.ballot.b32 %r4, %p2, 0xffffffff;", lambda lane: 0xFFFFF000),
        ("redux.sync.add.u32 %r4, %r1, 0xffffffff;", lambda lane: 496),
    ],
)
def test_lanes_of_a_warp_exchange_values(instruction: str, source: object) -> None:
    body = "mov.u32 %r1, %laneid;\n    setp.gt.u32 %p2, %r1, 11;\n    " + OUT + instruction
    out = words(32)
    launch(kernel(f"{body}\n    st.global.u32 [%rd2], %r4;\n    ret;"), 1, 32, [out])
    assert out.tolist() == [source(lane) for lane in range(32)]  # type: ignore[operator]


def test_a_shuffle_in_a_branch_is_divergent() -> None:
    body = "mov.u32 %r1, %laneid;\n    setp.gt.u32 %p2, %r1, 11;\n    @%p2 bra end;\n    "
    text = kernel(body + "shfl.sync.idx.b32 %r4|%p1, %r1, 9, 0x1f, 0xffffffff;\nend:\n    ret;")
    with pytest.raises(Fault, match=r"divergent warp: shfl\.sync for the lanes 0xffffffff, executed by 0xfff"):
        launch(text, 1, 32, [words(32)])


def test_lanes_meet_again_after_a_branch() -> None:
    body = (
        "mov.u32 %r1, %laneid;\n    setp.gt.u32 %p2, %r1, 11;\n    @%p2 bra other;\n    mov.u32 %r5, 1;\n    bra end;\n"
    )
    body += "other:\n    mov.u32 %r5, 2;\nend:\n    " + OUT + "redux.sync.add.u32 %r4, %r5, 0xffffffff;\n"
    out = words(32)
    launch(kernel(body + "    st.global.u32 [%rd2], %r4;\n    ret;"), 1, 32, [out])
    assert out.tolist() == [12 + 40] * 32


def test_a_warp_may_wait_for_what_another_one_does_later() -> None:
    body = """setp.eq.u32 %p3, %r1, 0;
    @%p3 st.shared.u32 [tile], 0;
    bar.sync 0;
    setp.lt.u32 %p1, %r1, 32;
    @!%p1 bra other;
wait:
    ld.volatile.shared.u32 %r4, [tile];
    setp.eq.u32 %p2, %r4, 0;
    @%p2 bra wait;
    ret;
other:
    atom.shared.exch.b32 %r4, [tile], 1;
    ret;"""
    launch(kernel(THREAD + body, declarations=TILE), 1, 64, [words(1)])


COPY = """cvt.u64.u32 %rd3, %r3;
    cp.async.ca.shared.global [%r3], [%rd2], 4;
    cp.async.commit_group;
    {wait}
    ld.shared.u32 %r5, [%r3];
    add.u32 %r5, %r5, 1;
    st.global.u32 [%rd2], %r5;
    ret;"""


def test_an_asynchronous_copy_arrives_at_its_wait() -> None:
    out = np.arange(64, dtype=np.uint32)
    launch(kernel(THREAD + OUT + COPY.format(wait="cp.async.wait_group 0;"), declarations=TILE), 1, 64, [out])
    assert out.tolist() == list(range(1, 65))
    with pytest.raises(Fault, match="unwritten memory of shared memory"):
        launch(kernel(THREAD + OUT + COPY.format(wait="cp.async.wait_group 1;"), declarations=TILE), 1, 64, [out])


@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_an_asynchronous_copy_over_memory_that_is_still_read_is_a_race(barrier: str) -> None:
    """Each thread reads what a thread of the other warp wrote, and copies to its own place in shared memory."""
    body = f"""st.shared.u32 [%r3], %r1;
    bar.sync 0;
    xor.b32 %r4, %r1, 32;
    mad.lo.s32 %r4, %r4, 4, %r2;
    ld.shared.u32 %r5, [%r4];
    {barrier}
    cp.async.ca.shared.global [%r3], [%rd2], 4;
    cp.async.commit_group;
    bar.sync 0;
    cp.async.wait_group 0;
    ret;"""
    text = kernel(THREAD + OUT + body, declarations=TILE)
    if barrier:
        launch(text, 1, 64, [words(64)])
        return
    with pytest.raises(Fault, match=r"`cp\.async\.ca.*race in shared memory: a write after a read"):
        launch(text, 1, 64, [words(64)])


def _product(shape: str, kinds: str, a: int, b: int, size: int) -> str:
    """One warp multiplies fragments that lie one behind the other, register by register."""
    groups = {"a": range(a), "b": range(8, 8 + b), "c": range(16, 20)}
    lines = ["mov.u32 %r30, %laneid;"]
    for number, (name, group) in enumerate(groups.items()):
        lines.append(f"ld.param.u64 %rd{number}, [{name}];")
        lines += [f"mad.wide.u32 %rd{number}, %r30, {4 * len(group)}, %rd{number};"]
        lines += [f"ld.global.u32 %r{r}, [%rd{number}+{4 * place}];" for place, r in enumerate(group)]
    registers = {name: "{" + ", ".join(f"%r{r}" for r in group) + "}" for name, group in groups.items()}
    operands = f"{registers['c']}, {registers['a']}, {registers['b']}, {registers['c']}"
    lines.append(f"mma.sync.aligned.{shape}.row.col.f32.{kinds}.{kinds}.f32 {operands};")
    lines += [f"st.global.u32 [%rd2+{4 * place}], %r{r};" for place, r in enumerate(groups["c"])]
    return kernel("\n    ".join([*lines, "ret;"]), ".param .u64 a, .param .u64 b, .param .u64 c")


@pytest.mark.parametrize(
    ("shape", "kind"), [("m16n8k16", "bf16"), ("m16n8k16", "f16"), ("m16n8k8", "bf16"), ("m16n8k8", "tf32")]
)
def test_a_warp_multiplies_matrices(shape: str, kind: str) -> None:
    """Fragments are laid out here as the PTX manual's figures have them, element by element."""
    k = int(shape.split("k")[1])
    random = np.random.default_rng(0)
    a, b, c = (random.integers(-4, 5, size).astype(np.float32) for size in ((16, k), (k, 8), (16, 8)))

    def bits(values: np.ndarray) -> np.ndarray:
        if kind == "tf32":
            return values.view(np.uint32)
        if kind == "f16":
            return values.astype(np.float16).view(np.uint16)
        return rounding.to_bfloat16(values, "rn")

    fragments: dict[str, list[object]] = {"a": [], "b": [], "c": []}
    for lane in range(32):
        group, place = divmod(lane, 4)
        if kind == "tf32":
            fragments["a"] += [a[group + 8 * (i & 1), place + 4 * (i >> 1)] for i in range(4)]
            fragments["b"] += [b[place + 4 * i, group] for i in range(2)]
        else:
            for column in range(0, k, 8):
                for row in (group, group + 8):
                    fragments["a"] += [a[row, column + 2 * place], a[row, column + 2 * place + 1]]
                fragments["b"] += [b[column + 2 * place, group], b[column + 2 * place + 1, group]]
        fragments["c"] += [c[row, 2 * place + i] for row in (group, group + 8) for i in (0, 1)]
    packed = {name: np.array(values, np.float32) for name, values in fragments.items()}
    out = packed["c"].copy()
    registers = [np.ascontiguousarray(bits(packed[name])).view(np.uint32) for name in "ab"]
    text = _product(shape, kind, len(registers[0]) // 32, len(registers[1]) // 32, k)
    launch(text, 1, 32, [*registers, out])
    expected, found = a @ b + c, out.reshape(32, 4)
    for lane in range(32):
        group, place = divmod(lane, 4)
        rows = [expected[row, 2 * place + i] for row in (group, group + 8) for i in (0, 1)]
        assert found[lane].tolist() == rows


def test_llvm_ir_runs_as_lowered() -> None:
    """A look-up in a constant table, 16-byte accesses and local memory that is indexed by a variable."""
    text = lowered("""
@table = internal addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0]
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr <4 x float>, ptr addrspace(1) %in, i32 %t
  %v = load <4 x float>, ptr addrspace(1) %p, align 16
  %own = alloca [4 x float], align 16
  store <4 x float> %v, ptr %own, align 16
  %i = and i32 %t, 3
  %q = getelementptr float, ptr %own, i32 %i
  %x = load volatile float, ptr %q
  %e = getelementptr float, ptr addrspace(4) @table, i32 %i
  %f = load float, ptr addrspace(4) %e
  %y = fmul float %x, %f
  %o = getelementptr float, ptr addrspace(1) %out, i32 %t
  store float %y, ptr addrspace(1) %o
  ret void
}""")
    values, out = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32), np.zeros(40, np.float32)
    launch(text, 1, 40, [Buffer(values, is_writable=False), Buffer(out, is_written=False)])
    lane = np.arange(40)
    np.testing.assert_array_equal(out, values[lane, lane % 4] * np.float32(2) ** (lane % 4))
    with pytest.raises(Fault, match="constant"):
        launch(text, 1, 40, [values, Buffer(out, is_writable=False)])


@pytest.mark.parametrize("seed", [0, 1])
def test_blocks_run_in_any_order(seed: int) -> None:
    """More blocks than run at once; each writes its number."""
    body = """mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r2, %r1, %r3, %r2;
    ld.param.u64 %rd1, [out];
    mad.wide.u32 %rd2, %r2, 4, %rd1;
    st.global.u32 [%rd2], %r1;
    ret;"""
    out = words(100 * 1024)
    launch(kernel(body), 100, 1024, [Buffer(out, is_written=False)], seed=seed)
    np.testing.assert_array_equal(out, np.repeat(np.arange(100), 1024))
