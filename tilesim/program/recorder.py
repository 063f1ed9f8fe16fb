"""Tile programs: a kernel is phases, a phase a tree of loops and instructions, recorded by running Python once.

    k = Kernel("glu_backward", ...)
    with k.vector("gate") as p:
        for n in p.loop("n", N, tile=p.tile("rows"), split=True):     # the body is recorded once, for a symbolic tile
            a = p.load(x[n, :H])                                      # copy in; a fresh buffer of two slots
            p.store(p.mul(a, a, out=a), y[n])                         # out= is the buffer plan

Ambiguous programs are refused while recording, with the line: a read of a value that a later write replaced, a silent
broadcast, an uninitialised read, a wrong memory, a buffer written both in a loop and around it without carry.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from tilesim.errors import BadOperator
from tilesim.program.author import caller
from tilesim.program.buffers import Buffer, Range, Tensor, Value, View, padded, view
from tilesim.program.checks import (
    check_dtypes,
    check_memories,
    check_number,
    check_size,
    check_split,
    check_write,
    result_shape,
)
from tilesim.program.isa import ISA, REGISTERS, SPACES
from tilesim.program.nodes import Instr, Loop, Operand, Source, Target, Tile, walk
from tilesim.program.sizes import ONE, ZERO, Scalar, Size, Variable, dim

__all__ = ["Instr", "Kernel", "Loop", "Operand", "Phase", "Reserve", "Source", "Target", "Tile", "walk"]


@dataclass(eq=False)
class Phase:
    """A part of a kernel between two syncs of all cores, run by cores of one kind ("vector" or "cube")."""

    name: str
    core_kind: str
    kernel: Kernel
    note: str = ""
    body: list[Instr | Loop] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    tiles: dict[str, Tile] = field(default_factory=dict)
    k_block: int = 0
    """Elements of k that one mmad of a matmul phase sums; stated by the operator: values do not depend on tiles."""
    _stack: list[Loop] = field(default_factory=list)
    _writes: dict[Buffer, list[tuple[Loop, ...]]] = field(default_factory=dict)
    """The loops around each write of a buffer."""
    _read: set[Buffer] = field(default_factory=set)

    # ---------------------------------------------------------------- the author's calls
    @property
    def cores(self) -> Size:
        """The number of cores that take part in this phase; a workspace of partials has this many rows."""
        return dim(Variable(self.name, "cores"))

    @property
    def core(self) -> Size:
        """The index of the core that runs the phase."""
        return dim(Variable(self.name, "core"))

    def tile(
        self,
        name: str,
        cap: Size | int | None = None,
        multiple_of: int = 1,
        cap_reason: str = "",
        *,
        least: int = 1,
        equal: bool = False,
    ) -> Size:
        """Return a tile size for the plan to decide, as large as fits, at least `least` and at most `cap`.

        An `equal` one is the smallest with which the axis has no more tiles.
        """
        where = caller(self.kernel.where)
        check_size(f"cap of tile '{name}'", 1 if cap is None else cap, 1, where)
        check_number(f"multiple_of of tile '{name}'", multiple_of, 1, where)
        check_number(f"least of tile '{name}'", least, 1, where)
        self.tiles[name] = Tile(name, None if cap is None else Size.of(cap), multiple_of, cap_reason, least, equal)
        return dim(name, multiple_of)

    def loop(  # noqa: PLR0913 - one argument a field of the loop
        self,
        name: str,
        extent: Size | int,
        tile: Size | int = 1,
        *,
        split: str | bool = "",
        unit: Size | int = 1,
        even: bool = False,
        halo: int = 0,
        lead: int = 0,
        rows: Size | int = 1,
        strip: Size | int = 1,
        shares: Size | int | None = None,
        carry: Sequence[Target] = (),
    ) -> Iterator[Range]:
        """Yield the one symbolic tile of a loop over `extent`: `for n in p.loop(...)` records its body once."""
        where = caller(self.kernel.where)
        check_split(name, split, where)
        sizes = (("extent", extent, 0), ("tile", tile, 1), ("unit", unit, 1), ("rows", rows, 0), ("strip", strip, 1))
        for word, size, least in (*sizes, ("shares", 1 if shares is None else shares, 1)):
            check_size(f"{word} of loop '{name}'", size, least, where)
        for word, number in (("halo", halo), ("lead", lead)):
            check_number(f"{word} of loop '{name}'", number, 0, where)
        loop = Loop(
            _unique(name, {loop.name for loop in self.loops()}),
            Size.of(extent),
            Size.of(tile),
            "block_balanced" if split is True else split or "",
            Size.of(unit),
            even,
            halo,
            lead,
            Size.of(rows),
            Size.of(strip),
            None if shares is None else Size.of(shares),
            tuple(_buffer(c, where) for c in carry),
            where=where,
        )
        self._add(loop)
        self._stack.append(loop)
        try:
            yield loop.range
        finally:
            self._stack.pop()

    def buffer(
        self,
        name: str,
        shape: Sequence[Size | int] | Size | int,
        dtype: str = "float32",
        *,
        slots: int = 1,
        space: str = "",
        allocated: Sequence[Size | int] | None = None,
        pool: str = "",
        reserved: bool = False,
    ) -> Buffer:
        """Return a buffer of this phase. `shape` may use the loops around; its bytes are those of full tiles."""
        where = caller(self.kernel.where)
        check_number(f"slots of buffer '{name}'", slots, 1, where)
        sizes = tuple(Size.of(s) for s in (shape if isinstance(shape, Sequence) else (shape,)))
        full = {key: value for loop in self._stack for key, value in loop.full().items()}
        top = tuple(Size.of(s).substitute(full) for s in (sizes if allocated is None else allocated))
        space = space or SPACES[self.core_kind][0]
        if space not in (*SPACES[self.core_kind], *((REGISTERS,) if self.core_kind == "vector" else ())):
            raise BadOperator(f"buffer '{name}' is in {space}, which a {self.core_kind} core does not have", where)
        if pool and pool not in self.kernel.reserves:
            raise BadOperator(f"buffer '{name}' is in pool '{pool}', which the kernel does not reserve", where)
        buffer = Buffer(
            _unique(name, {b.name for b in self.buffers}),
            space,
            sizes,
            padded(top, dtype) if allocated is None else top,
            dtype,
            slots,
            pool,
            reserved=reserved,
            where=where,
        )
        self.buffers.append(buffer)
        return buffer

    def load(self, source: View | Tensor, out: Target | None = None, *, name: str = "", slots: int = 2) -> Value:
        """Record a copy from global memory into `out` or a fresh buffer of `slots` slots."""
        source = source if isinstance(source, View) else view(source)
        if out is None:
            shape = source.shape or (ONE,)
            out = self.buffer(name or f"{source.base.name}In", shape, source.dtype, slots=slots)
        return self.emit("copy", source, out=out)

    def store(self, value: Operand, target: View | Tensor) -> None:
        """Record a copy to global memory."""
        self.emit("copy", value, out=target if isinstance(target, View) else view(target))

    def read(self, buffer: Buffer | View) -> Value:
        """Return the present contents of a buffer written in several parts."""
        where = caller(self.kernel.where)
        contents = buffer if isinstance(buffer, View) else view(buffer)
        writes = self._writes.get(_buffer(contents, where), [])
        if not writes:
            raise BadOperator(f"'{contents.base.name}' is read before anything wrote it", where)
        return Value(contents, len(writes), writes[-1])

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op.startswith("_") or op not in ISA:
            raise AttributeError(f"no instruction '{op}'; there are: {', '.join(ISA)}")

        def emit(*src: Operand, out: Target | None = None, dtype: str = "", name: str = "", slots: int = 1) -> Value:
            return self.emit(op, *src, out=out, dtype=dtype, name=name, slots=slots)

        return emit

    # ---------------------------------------------------------------- recording
    def emit(
        self, op: str, *src: Operand, out: Target | None = None, dtype: str = "", name: str = "", slots: int = 1
    ) -> Value:
        """Record one instruction that writes `out` or a fresh buffer."""
        where = caller(self.kernel.where)
        sources = tuple(self._source(s, op, where) for s in src)
        dst = out.view if isinstance(out, Value) else view(out) if isinstance(out, Buffer | Tensor) else out
        shape = result_shape(op, sources, None if dst is None else dst.shape, where)
        if dst is None:
            first = next(s for s in sources if isinstance(s, View) and s.shape)
            dst = view(self.buffer(name or f"{op}_{first.base.name}", shape, dtype or first.dtype, slots=slots))
        check_memories(self.core_kind, op, sources, dst, where)
        check_dtypes(op, sources, dst, where)
        for read in sources:
            if isinstance(read, View) and isinstance(read.base, Buffer):
                self._read.add(read.base)
            elif isinstance(read, View) and isinstance(read.base, Tensor):
                self.kernel.check_read(read.base, self, where)
        if isinstance(dst.base, Tensor):
            self.kernel.check_written(dst.base, self, where)
            self._add(Instr(op, dst, sources, fresh=False, where=where))
            return Value(dst, 0, ())
        return self._write(op, sources, dst, dst.base, where)

    def _write(self, op: str, sources: tuple[Source, ...], dst: View, buffer: Buffer, where: str) -> Value:
        """Record an instruction that writes a buffer, in its next slot where nothing of the last one is kept."""
        writes = self._writes.setdefault(buffer, [])
        check_write(buffer, writes, self._stack, self._carried(), where)
        reads_itself = ISA[op].accumulates or any(isinstance(s, View) and s.base is buffer for s in sources)
        if reads_itself and not writes:
            raise BadOperator(f"{op} reads its destination '{buffer.name}' before anything wrote it", where)
        around = tuple(self._stack)
        first_here = not any(loops[: len(around)] == around for loops in writes)
        fresh = not reads_itself and buffer not in self._carried() and (dst.whole or first_here)
        self._add(Instr(op, dst, sources, fresh=fresh, where=where))
        writes.append(around)
        return Value(dst, len(writes), around)

    def _add(self, node: Instr | Loop) -> None:
        (self._stack[-1].body if self._stack else self.body).append(node)

    def _carried(self) -> set[Buffer]:
        return {b for loop in self._stack for b in loop.carry}

    def _source(self, s: Operand, op: str, where: str) -> Source:
        """Return the operand as a view or scalar. Raises BadOperator for contents overwritten or not written yet."""
        if isinstance(s, (Scalar, Size, int, float)):
            return Scalar.of(s)
        if isinstance(s, View) and isinstance(s.base, Tensor):
            return s
        value = s if isinstance(s, Value) else self.read(s)
        writes = self._writes.get(value.buffer, [])
        name = value.buffer.name
        if not writes:
            raise BadOperator(f"{op} reads '{name}' before anything wrote it in phase '{self.name}'", where)
        if value.write != len(writes):
            raise BadOperator(
                f"{op} reads '{name}' after its write {value.write} was replaced by write {len(writes)}; "
                "use the later value or give the later write another out=",
                where,
            )
        closed = [loop for loop in value.loops if loop not in self._stack and value.buffer not in loop.carry]
        if closed:
            raise BadOperator(
                f"{op} reads '{name}' outside the loop over {closed[0].name} that wrote it; give that loop "
                f"carry=({name},), its buffer, and read it as p.read({name})",
                where,
            )
        return value.view

    # ---------------------------------------------------------------- reading the record
    def bytes(self, memory: str) -> Size:
        """Return the bytes of its buffers in a memory, without those of pools."""
        return sum((b.bytes for b in self.buffers if b.space == memory and not b.pool), ZERO)

    def instructions(self) -> Iterator[Instr]:
        """Yield its instructions in program order, each once."""
        yield from (node for node, _ in walk(self.body) if isinstance(node, Instr))

    def loops(self) -> Iterator[Loop]:
        """Yield its loops, outer before inner."""
        yield from (node for node, _ in walk(self.body) if isinstance(node, Loop))

    def finish(self) -> None:
        """Check that every buffer is written and read. Raises BadOperator with all that are not."""
        idle = [
            f"'{b.name}' ({b.where}) is never {'written' if b not in self._writes else 'read'}"
            for b in self.buffers
            if not b.reserved and (b not in self._writes or b not in self._read)
        ]
        if idle:
            raise BadOperator(f"phase '{self.name}': " + "; ".join(idle), caller(self.kernel.where))


def _unique(name: str, taken: Container[str]) -> str:
    """Return the name, with the first number from 2 on that distinguishes it from the names `taken`."""
    return name if name not in taken else next(n for i in itertools.count(2) if (n := f"{name}{i}") not in taken)


def _buffer(target: Target, where: str) -> Buffer:
    """Return the buffer of a target. Raises BadOperator for a tensor."""
    base = target if isinstance(target, Buffer) else target.view.base if isinstance(target, Value) else target.base
    if not isinstance(base, Buffer):
        raise BadOperator(f"'{base.name}' is a tensor, not a buffer", where)
    return base


@dataclass(frozen=True)
class Reserve:
    """Bytes of a memory that the operator keeps back from its buffers, as a pool with its own inequality.

    A `share` of the memory, from 0 to 1, is kept back beside the `bytes`.
    """

    name: str
    bytes: int
    reason: str
    memory: str = "ub"
    share: Fraction = Fraction(0)

    def bytes_of(self, memory_bytes: int) -> int:
        """Return the bytes that it keeps back of a memory of `memory_bytes`."""
        return self.bytes + math.ceil(memory_bytes * self.share)


@dataclass(eq=False)
class Kernel:
    """A launch: phases in order with a sync of all cores between them, workspace and reserves.

    `family` and `registers` are the chip's, for reserves and slots that differ; values and shapes never depend on them.
    """

    name: str
    dtype: str
    options: Mapping[str, bool]
    tensors: Mapping[str, Tensor | None]
    family: str = ""
    variant: Hashable = ""
    registers: int = 0
    """Vector registers of a core; 0 where vector instructions work on the unified buffer."""
    whole_memories: tuple[str, ...] = ()
    """Memories of which the stated size counts, less the reserves, rather than the part that the platform shows."""
    where: str = ""
    """Line (file:line) of the operator, for instructions that no line of the author records."""
    route: str = "kernel"
    """Route of the call: "kernel" for the operator's own kernel, else the name of what is launched in its place."""
    launches: bool = False
    """True if every phase is a separate launch, as in a composite of other operators."""
    phases: list[Phase] = field(default_factory=list)
    reserves: dict[str, Reserve] = field(default_factory=dict)
    statics: list[Buffer] = field(default_factory=list)
    workspaces: dict[str, Tensor] = field(default_factory=dict)
    overwrites: dict[str, str] = field(default_factory=dict)
    """Outputs that share the memory of an input, by the input's name: the memory holds those bytes once."""
    tiling_bytes: int = 0
    """Bytes of tiling data that every core reads before it begins; 0 if it is constant in the kernel or unknown."""
    uncached: set[str] = field(default_factory=set)
    """Inputs whose reads bypass the L2 cache."""
    _written_in: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None:
            raise BadOperator(f"'{name}' is absent or not a tensor of {self.name}", caller(self.where))
        return tensor

    def shaped(self, name: str, *shape: Size | int) -> Tensor:
        """Give a tensor of the operator another shape than the declared one, and return it."""
        tensor = self[name].reshape(*shape)
        self.tensors = {**self.tensors, name: tensor}
        return tensor

    @contextmanager
    def phase(self, name: str, core_kind: str, note: str = "") -> Iterator[Phase]:
        """Record a phase of cores of one kind."""
        if name in {p.name for p in self.phases}:
            raise BadOperator(f"two phases of {self.name} are called '{name}'", caller(self.where))
        phase = Phase(name, core_kind, self, note)
        self.phases.append(phase)
        yield phase
        phase.finish()

    def vector(self, name: str, note: str = "") -> AbstractContextManager[Phase]:
        """Record a phase of the vector cores."""
        return self.phase(name, "vector", note)

    def workspace(self, name: str, shape: Sequence[Size | int], dtype: str) -> Tensor:
        """Return a tensor in the workspace, written by one phase and read by later ones."""
        tensor = Tensor(name, tuple(Size.of(s) for s in shape), dtype, "workspace")
        self.workspaces[name] = tensor
        return tensor

    def bypass(self, *names: str) -> None:
        """Let the reads of inputs that are read once bypass the L2 cache: they neither fill nor hit it."""
        where = caller(self.where)
        for name in names:
            role = self[name].role
            if role != "input":
                raise BadOperator(f"'{name}' is an {role}; only the reads of inputs can bypass the cache", where)
        self.uncached.update(names)

    def reserve(self, name: str, size_bytes: int, reason: str) -> None:
        """Keep `size_bytes` of the unified buffer back, in every phase."""
        self.reserves[name] = Reserve(name, size_bytes, reason)

    def static(self, name: str, allocated: Sequence[Size | int], dtype: str, shape: Sequence[Size | int]) -> Buffer:
        """Return a buffer charged in every phase; each phase that reads it writes it first."""
        buffer = Buffer(
            name,
            "ub",
            tuple(Size.of(s) for s in shape),
            tuple(Size.of(s) for s in allocated),
            dtype,
            static=True,
            where=caller(self.where),
        )
        self.statics.append(buffer)
        return buffer

    def check_read(self, tensor: Tensor, phase: Phase, where: str) -> None:
        """Refuse a load of an output, or of a workspace that no earlier phase wrote."""
        if tensor.role == "output":
            raise BadOperator(f"'{tensor.name}' is an output, which a kernel does not read", where)
        if tensor.role == "workspace" and self._written_in.get(tensor.name, phase.name) == phase.name:
            raise BadOperator(
                f"workspace '{tensor.name}' is read in '{phase.name}' before an earlier phase wrote it", where
            )

    def check_written(self, tensor: Tensor, phase: Phase, where: str) -> None:
        """Refuse a store to an input."""
        if tensor.role == "input":
            raise BadOperator(f"'{tensor.name}' is an input, which a kernel does not write", where)
        self._written_in.setdefault(tensor.name, phase.name)
