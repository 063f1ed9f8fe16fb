"""The matrix product as a cube phase: m and n tiled over L0C, k through L1 to L0A and L0B."""

from __future__ import annotations

from tilesim.program.buffers import Range, Tensor, Value, View, view
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.sizes import ONE, Size
from tilesim.program.units import FRACTAL


def matmul(  # noqa: PLR0913 - one argument a choice of the product
    k: Kernel,
    name: str,
    a: Tensor,
    b: Tensor,
    out: Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    group: Size | None = None,
    batched: bool = False,
    k_block: int = 64,
    l1_slots: int = 2,
    l0c_slots: int = 1,
    note: str = "",
) -> None:
    """Record a phase that computes out[m, n] = a[m, k] @ b[k, n], summed in float32.

    With `transpose_a`, `a` is [k, m]; with `transpose_b`, `b` is [n, k]. With `group`, k is cut into runs of `group`
    elements and out is [groups, m, n], a partial sum each. One mmad sums `k_block` elements of k; blocks and groups are
    added in order, whatever the tiles. `batched` operands and out have one more axis in front, a product for each of
    its indices. `l1_slots` and `l0c_slots` are the numbers of tiles in flight.
    """
    depth, rows = a.shape[-2:] if transpose_a else a.shape[:-3:-1]
    columns = b.shape[-2] if transpose_b else b.shape[-1]
    with k.phase(name, "cube", note) as p:
        p.k_block = k_block
        tm, tn = p.tile("m", rows, FRACTAL), p.tile("n", columns, FRACTAL)
        tk = p.tile("k1", depth, k_block)
        over, run = (a.shape[0], ONE) if batched else (depth, depth if group is None else group)
        for g in p.loop("group", over, run, split="block_balanced", unit=run):
            a_of, b_of = ((t[g.start] if batched else view(t)) for t in (a, b))
            for i in p.loop("mi", rows, tm, split="block_balanced", unit=tm):
                for j in p.loop("ni", columns, tn, split="block_balanced", unit=tn):
                    c = p.buffer("c", (i.size, j.size), slots=l0c_slots, space="l0c")
                    total = p.clear(0.0, out=c)
                    for outer in p.loop("k", depth if batched else g.size, tk, carry=(c,)):
                        span = outer if batched else Range(g.start + outer.start, outer.size)
                        a1 = _into(p, "aL1", a_of[span, i] if transpose_a else a_of[i, span], l1_slots)
                        b1 = _into(p, "bL1", b_of[j, span] if transpose_b else b_of[span, j], l1_slots)
                        for inner in p.loop("kk", outer.size, k_block, carry=(c,)):
                            block = Range(inner.start, inner.size)
                            a0 = p.buffer("aL0", (i.size, block.size), a.dtype, slots=2, space="l0a")
                            b0 = p.buffer("bL0", (block.size, j.size), b.dtype, slots=2, space="l0b")
                            if transpose_a:
                                left = p.emit("copy_transposed", a1[block, :], out=a0)
                            else:
                                left = p.emit("copy", a1[:, block], out=a0)
                            if transpose_b:
                                right = p.emit("copy_transposed", b1[:, block], out=b0)
                            else:
                                right = p.emit("copy", b1[block, :], out=b0)
                            total = p.mmad(left, right, out=c)
                    p.store(total, out[g.index, i, j] if batched or group is not None else out[i, j])


def _into(p: Phase, name: str, source: View, slots: int) -> Value:
    return p.load(source, out=p.buffer(name, source.shape, source.dtype, slots=slots, space="l1"))
