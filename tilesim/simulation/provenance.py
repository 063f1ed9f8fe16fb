"""Document me."""

from __future__ import annotations

from collections.abc import Sequence

from tilesim.planning.phase_plan import PhasePlan
from tilesim.program import dtypes
from tilesim.program.buffers import View
from tilesim.program.isa import COPIES, ISA, ROUTES


def figures_used(plan: PhasePlan) -> Sequence[str]:
    """Keys of the chip's figures that the cycles and the time of a phase depend on."""
    kind, tables = plan.phase.core_kind, plan.chip.tables()
    names = dict.fromkeys([f"cores.{kind}", f"clock.{kind}_hz"])
    if plan.moved:
        names |= dict.fromkeys(
            f"memory.gm.{key}" for key in tables["memory.gm"].figures() if key != "size_bytes" and _of_time(key, kind)
        )
        names |= dict.fromkeys(f"memory.l2.{key}" for key in tables["memory.l2"].figures() if _of_time(key, kind))
    if kind == "vector" and "overhead" in tables:
        names |= dict.fromkeys(f"overhead.{key}" for key in tables["overhead"].figures())
    for instr in plan.phase.instructions():
        row = ISA[instr.op]
        width = max(dtypes.itemsize(v.dtype) for v in (instr.dst, *instr.src) if isinstance(v, View) and v.shape)
        if instr.op in COPIES:
            table = f"copy.{ROUTES[instr.route][0]}"
            names |= dict.fromkeys(f"{table}.{key}" for key in tables[table].figures())
        elif instr.op == "mmad":
            names |= dict.fromkeys(["cube.head_cycles", f"cube.macs_per_cycle_{8 * min(width, 4)}bit"])
        elif row.cost:
            narrow = {1: "_8bit", 2: "_16bit"}.get(width, "")
            names |= dict.fromkeys([f"cost.{row.cost}.head_cycles", f"cost.{row.cost}.cycles_per_vector{narrow}"])
    return tuple(names)


def _of_time(key: str, core_kind: str) -> bool:
    """Whether a figure of global memory or the cache says how fast it is for a kind of cores."""
    others = ("ub_", "read_alone") if core_kind == "cube" else ("cube_", "l1_")
    return not any(other in key for other in others)
