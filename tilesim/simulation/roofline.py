"""Roofline of a plan: operations a byte against operations a second, under the roofs of memories and cores.

An operation of a vector core is one element of one vector instruction, of a cube core a multiply or an add. Bytes are
those that copies move between global memory and the cores, so repeated reads count again: they may come from the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program import dtypes
from tilesim.program.buffers import View
from tilesim.program.loop_nest import Step, executed
from tilesim.simulation.timeline import Timeline
from tilesim.timing.cost import MACS
from tilesim.timing.parameters import Parameters

ELEMENT_BYTES = 4
"""Bytes of the elements of the vector roof."""


@dataclass(frozen=True)
class Roof:
    """Upper bound: bytes a second of a memory, or operations a second of all cores of a kind."""

    name: str
    core_kind: str
    """Kind of the cores, "" for a memory."""
    per_s: float
    keys: tuple[str, ...]
    """Keys of the chip that it rests on."""


@dataclass(frozen=True)
class RooflinePoint:
    """Phase under the roofs."""

    phase: str
    core_kind: str
    operations: int
    bytes: int
    time_us: float

    @property
    def intensity(self) -> float:
        """Operations a byte; infinite if no byte moves."""
        return self.operations / self.bytes if self.bytes else math.inf

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.time_us * 1e6 if self.time_us else 0.0


@dataclass(frozen=True)
class Roofline:
    """Roofs of a chip, and the phases of a plan that compute and move data."""

    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]

    def ceiling(self, point: RooflinePoint) -> float:
        """Return the operations a second that a phase can reach at its intensity from global memory."""
        compute = [r.per_s for r in self.roofs if r.core_kind == point.core_kind]
        memory = next(r.per_s for r in self.roofs if not r.core_kind)
        return min([*compute, memory * point.intensity])

    def to_json(self) -> dict[str, Any]:
        """Return roofs and points as plain data."""
        return {
            "roofs": [{"name": r.name, "core_kind": r.core_kind, "per_s": r.per_s, "keys": r.keys} for r in self.roofs],
            "points": [
                {
                    "phase": p.phase,
                    "core_kind": p.core_kind,
                    "operations": p.operations,
                    "bytes": p.bytes,
                    "intensity": round(p.intensity, 4),
                    "per_s": float(f"{p.per_s:.4g}"),
                    "share_of_ceiling": round(p.per_s / self.ceiling(p), 4),
                }
                for p in self.points
            ],
        }


def roofline(timeline: Timeline) -> Roofline:
    """Return the roofs and points of a plan with its times."""
    plans = timeline.plan.phases
    kinds = dict.fromkeys(p.phase.core_kind for p in plans)
    roofs = [
        _memory_roof("global memory", timeline.plan.chip, "memory.gm.read_bytes_per_s"),
        _memory_roof("L2 cache", timeline.plan.chip, "memory.l2.read_bytes_per_s"),
        *(_vector_roof(timeline.plan) if kind == "vector" else _cube_roof(timeline.plan) for kind in kinds),
    ]
    points = [
        RooflinePoint(p.phase.name, p.phase.core_kind, operations(p), p.traffic.bytes, phase_time.time_us)
        for p, phase_time in zip(plans, timeline.phases, strict=True)
    ]
    return Roofline(tuple(roofs), tuple(p for p in points if p.operations and p.bytes and p.time_us))


def operations(plan: PhasePlan) -> int:
    """Return the operations of a phase on all cores."""
    return sum(_work(step) * times for nest, _, cores in plan.nests for step, times in executed(nest, cores))


def _work(step: Step) -> int:
    """Return the operations of one instruction."""
    instr = step.instr
    if instr.pipe == "v":
        shapes = [instr.dst.shape, *(s.shape for s in instr.src if isinstance(s, View))]
        return max(math.prod(int(n.bind(step.sizes)) for n in shape) for shape in shapes)
    if instr.op == "mmad":
        a, b = (v for v in instr.src if isinstance(v, View))
        m, k = (int(n.bind(step.sizes)) for n in a.shape)
        return 2 * m * k * int(b.shape[1].bind(step.sizes))
    return 0


def _memory_roof(name: str, chip: Chip, key: str) -> Roof:
    """Return the roof of a memory, at the rate that a parameter of the chip states."""
    parameters = Parameters(chip)
    return Roof(name, "", parameters[key], parameters.keys)


def _vector_roof(plan: Plan) -> Roof:
    """Return the roof of all vector cores, each with one vector a cycle."""
    parameters = Parameters(plan.chip)
    per_s = parameters["cores.vector"] * parameters["clock.vector_hz"]
    return Roof(
        "vector cores", "vector", per_s * (parameters.whole("vector.width_bytes") // ELEMENT_BYTES), parameters.keys
    )


def _cube_roof(plan: Plan) -> Roof:
    """Return the roof of all cube cores at the rate of the plan's dtype; a multiply-add counts as two operations."""
    parameters = Parameters(plan.chip)
    per_s = 2 * parameters["cores.cube"] * parameters["clock.cube_hz"]
    rate = MACS.get(dtypes.itemsize(plan.kernel.dtype), "macs_per_cycle_32bit")
    return Roof("cube cores", "cube", per_s * parameters[f"cube.{rate}"], parameters.keys)
