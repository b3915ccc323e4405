"""PTX for the emulator's tests: kernels written by hand, and LLVM IR lowered to PTX."""

from __future__ import annotations

import llvmlite.binding as llvm


def kernel(body: str, parameters: str = ".param .u64 out", declarations: str = "") -> str:
    """A module with the kernel `k` that has registers of every kind."""
    return f""".version 8.3
.target sm_90a
.address_size 64
{declarations}
.visible .entry k({parameters})
{{
    .reg .pred %p<8>;
    .reg .b16 %rs<16>;
    .reg .b32 %r<48>;
    .reg .b64 %rd<32>;
    {body}
}}
"""


def operation(instruction: str, inputs: tuple[str, ...], output: str) -> str:
    """A kernel that applies an instruction to one element of each input array for each thread of a block.

    The instruction's operands are %0 (the result), %1, %2, ...; types are PTX's.
    """
    registers = {1: "%rs", 2: "%rs", 4: "%r", 8: "%rd"}
    sizes = {"8": 1, "16": 2, "32": 4, "64": 8}
    lines, names = ["mov.u32 %r40, %tid.x;"], {}
    for number, kind in enumerate((output, *inputs)):
        size = sizes[kind.lstrip("bsuf")]
        names[number] = f"{registers[size]}{number}"
        place = f"%rd{20 + number}"
        lines += [f"ld.param.u64 {place}, [p{number}];", f"mad.wide.u32 {place}, %r40, {size}, {place};"]
        if number:
            lines.append(f"ld.global.{kind} {names[number]}, [{place}];")
    for number, name in names.items():
        instruction = instruction.replace(f"%{number}", name)
    lines += [f"{instruction};", f"st.global.{output} [%rd20], {names[0]};", "ret;"]
    parameters = ", ".join(f".param .u64 p{number}" for number in range(len(inputs) + 1))
    return kernel("\n    ".join(lines), parameters)


def lowered(ir: str, processor: str = "sm_90a") -> str:
    """LLVM IR as PTX."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=processor, features="+ptx83", opt=3)
    with llvm.parse_assembly(f'target triple = "nvptx64-nvidia-cuda"\n{ir}') as module:
        module.verify()
        return str(machine.emit_assembly(module))
