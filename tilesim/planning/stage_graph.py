"""Stages of a plan as a graph: copies and computations are nodes, the data between them in memory are edges.

One node stands for an instruction of one full tile, so the graph has no cycles; with `tiles=N` each of the first N
tiles of every loop has its own nodes, and edges also give the slot that a stage waits for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tilesim.chip.chip import Chip
from tilesim.planning.phase_plan import PhasePlan
from tilesim.program import dtypes
from tilesim.program.buffers import Tensor, View, tensor_bytes
from tilesim.program.dependences import Dependency, Flow, first, tour
from tilesim.program.isa import COPIES, ISA
from tilesim.program.loop_nest import Nest, Sizes, Step, TileRun
from tilesim.program.recorder import Instr, Kernel, walk
from tilesim.timing.bursts import bursts
from tilesim.timing.cost import passed_bytes

if TYPE_CHECKING:
    import networkx as nx

KINDS = ("input", "copy-in", "copy", "compute", "cube", "copy-out", "output")
"""Kinds of nodes: a tensor at either end, or a stage between."""


class PlannedKernel(Protocol):
    """Protocol of a plan, from which a graph is made."""

    @property
    def kernel(self) -> Kernel:
        """Planned kernel."""

    @property
    def chip(self) -> Chip:
        """Chip of the plan."""

    @property
    def phases(self) -> Sequence[PhasePlan]:
        """Phases in order."""


def graph(plan: PlannedKernel, tiles: int | None = None) -> nx.DiGraph:
    """Return the graph of a plan.

    Nodes carry kind (one of KINDS), phase, core_kind, op, pipe, memory and name of the written buffer or tensor, shape,
    dtype, cycles and bytes of one execution, times (executions on the slowest core), loop (the loops around, outer
    first), tile and where; inputs and outputs are nodes too, without a phase. Edges carry kind ("data", "slot",
    or "workspace" between phases), name (the buffer or tensor), memory and bytes. With `tiles`, the first tiles of
    every loop, each apart.
    """
    import networkx  # noqa: PLC0415, ICN001 - slow to import, and few need it

    stages: nx.DiGraph = networkx.DiGraph(operator=plan.kernel.name, chip=plan.chip.name)
    stores: dict[str, list[tuple[str, str]]] = {}
    for phase in plan.phases:
        _Stages(stages, phase, stores, tiles).add()
    return stages


class _Stages:
    """Stages of one phase, which `add` adds to a graph. `stores` has the (phase, node) that wrote each tensor last."""

    def __init__(
        self, graph: nx.DiGraph, plan: PhasePlan, stores: dict[str, list[tuple[str, str]]], tiles: int | None
    ) -> None:
        self.graph, self.plan, self.stores, self.tiles = graph, plan, stores, tiles
        self.name = plan.phase.name
        self.number = {instr: i for i, instr in enumerate(plan.phase.instructions())}
        self.loops = {n: " > ".join(loop.name for loop in around) for n, around in walk(plan.phase.body)}
        self.times = executions(plan.slowest)
        self.flow: Flow[str] = Flow()
        self.wrote: dict[str, dict[Instr, str]] = {}
        self.read: set[str] = set()

    def add(self) -> None:
        """Add all stages and edges."""
        added: set[Instr] = set()
        for item, place in tour(self.plan.slowest, first(self.tiles or 1)):
            if isinstance(item, TileRun) or (self.tiles is None and item.instr in added):
                continue
            added.add(item.instr)
            tile = ", ".join(f"{loop} {number}" for loop, number in place)
            self._stage(item, tile if self.tiles is not None else "")
        for tensor, nodes in self.wrote.items():
            earlier = [] if tensor in self.read else self.stores.get(tensor, [])
            self.stores[tensor] = [*earlier, *((self.name, node) for node in nodes.values())]

    def _stage(self, item: Step, tile: str) -> None:
        instr = item.instr
        node = f"{self.name} / {self.number[instr]} {instr.op} {instr.dst.base.name}{f' / {tile}' if tile else ''}"
        shape = [int(s.bind(item.sizes)) for s in instr.dst.shape]
        self.graph.add_node(
            node,
            kind=kind_of(instr),
            phase=self.name,
            core_kind=self.plan.phase.core_kind,
            op=instr.op,
            pipe=instr.pipe,
            memory=instr.dst.space,
            name=instr.dst.base.name,
            shape="x".join(map(str, shape)) or "1",
            dtype=instr.dst.dtype,
            cycles=self.plan.scheduler.timed(item).cycles,
            bytes=passed_bytes(item, self.plan.chip.vector.width_bytes),
            times=self.times.get(instr, 0),
            loop=self.loops[instr],
            tile=tile,
            where=instr.where,
        )
        for dependency in self.flow.add(instr, node):
            self._depend(dependency, node, instr, item.sizes)
        source = instr.src[0] if instr.src else None
        if isinstance(source, View) and isinstance(source.base, Tensor):
            self._load(source.base, node, item)
        if isinstance(instr.dst.base, Tensor):
            self._store(instr.dst.base, node, item)

    def _depend(self, dependency: Dependency[str], node: str, instr: Instr, sizes: Sizes) -> None:
        if dependency.kind == "slot" and self.tiles is None:
            return
        buffer = dependency.buffer
        view = next((v for v in instr.reads() if v.base is buffer), instr.dst)
        size = view_bytes(view, sizes) if dependency.kind == "data" else 0
        self._edge(dependency.source, node, dependency.kind, buffer.name, buffer.space, size)

    def _load(self, tensor: Tensor, node: str, item: Step) -> None:
        size = bursts(item).total_bytes
        self.read.add(tensor.name)
        writers = [(phase, store) for phase, store in self.stores.get(tensor.name, []) if phase != self.name]
        for _, store in writers:
            self._edge(store, node, "workspace", tensor.name, "gm", size)
        if not writers and tensor.name not in self.wrote:
            self._edge(self._end(tensor, "input"), node, "data", tensor.name, "gm", size)

    def _store(self, tensor: Tensor, node: str, item: Step) -> None:
        self.wrote.setdefault(tensor.name, {})[item.instr] = node
        if tensor.role == "output":
            self._edge(node, self._end(tensor, "output"), "data", tensor.name, "gm", bursts(item).total_bytes)

    def _end(self, tensor: Tensor, kind: str) -> str:
        """Add the node of an input or output and return its name."""
        recorded = self.plan.phase.kernel.tensors.get(tensor.name) or tensor
        self.graph.add_node(
            tensor.name,
            kind=kind,
            phase="",
            core_kind="",
            op="",
            pipe="",
            memory="gm",
            name=tensor.name,
            shape="x".join(str(s.bind(self.plan.sizes)) for s in recorded.shape) or "1",
            dtype=recorded.dtype,
            cycles=0,
            bytes=tensor_bytes(recorded, self.plan.sizes),
            times=1,
            loop="",
            tile="",
            where="",
        )
        return tensor.name

    def _edge(self, source: str, target: str, kind: str, name: str, memory: str, size: int) -> None:
        """Add an edge; two buffers between the same stages share one edge, and data replaces a slot."""
        old = self.graph.edges.get((source, target))
        if old is None or (old["kind"] == "slot" and kind != "slot"):
            self.graph.add_edge(source, target, kind=kind, name=name, memory=memory, bytes=size)
        elif kind == old["kind"] and name not in old["name"].split(", "):
            old.update(name=f"{old['name']}, {name}", bytes=old["bytes"] + size)


def kind_of(instr: Instr) -> str:
    """Return the kind of a stage: one of KINDS."""
    if instr.op in COPIES:
        source, target = instr.route
        return "copy-in" if source == "gm" else "copy-out" if target == "gm" else "copy"
    return "cube" if ISA[instr.op].pipe == "m" else "compute"


def executions(nest: Nest) -> dict[Instr, int]:
    """Return the number of times that a nest executes each instruction."""
    out: dict[Instr, int] = {}
    for item in nest:
        part = {item.instr: 1} if isinstance(item, Step) else executions(item.body)
        times = 1 if isinstance(item, Step) else item.times
        for instr, each in part.items():
            out[instr] = out.get(instr, 0) + each * times
    return out


def view_bytes(view: View, sizes: Sizes) -> int:
    """Return the bytes of the elements of a view."""
    return math.prod((int(size.bind(sizes)) for size in view.sizes), start=dtypes.itemsize(view.dtype))
