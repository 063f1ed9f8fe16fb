"""Checks of a recorder: numbers without a meaning, operands that an instruction does not take, ambiguous writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from tilesim.errors import BadOperator, did_you_mean
from tilesim.program.buffers import Buffer, View
from tilesim.program.isa import COPIES, ISA, PIPES, ROUTES, SPACES
from tilesim.program.nodes import Loop, Source
from tilesim.program.signatures import Shape, ShapeError
from tilesim.program.sizes import Size

SPLITS = ("block_balanced", "block", "block_floor", "cyclic")
"""The ways to split a loop over cores."""


def check_number(what: str, value: object, least: int, where: str) -> None:
    """Refuse a value that is not a whole number, or is less than `least`. Raises BadOperator."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadOperator(f"{what} is {value!r}, must be a whole number", where)
    if value < least:
        raise BadOperator(f"{what} is {value}, must be at least {least}", where)


def check_size(what: str, value: object, least: int, where: str) -> None:
    """Refuse a value that is not a size, or is known to be less than `least`. Raises BadOperator."""
    if not isinstance(value, Size):
        check_number(what, value, least, where)
    elif value.constant is not None:
        check_number(what, value.constant, least, where)


def check_split(loop: str, split: object, where: str) -> None:
    """Refuse a split of a loop that does not exist. Raises BadOperator."""
    if isinstance(split, bool) or split in ("", *SPLITS):
        return
    hint = did_you_mean(split, SPLITS) if isinstance(split, str) else ""
    hint = hint or f" there are: True, {', '.join(SPLITS)}"
    raise BadOperator(f"split of loop '{loop}' is {split!r}, which is not a split;{hint}", where)


def result_shape(op: str, sources: Sequence[Source], out: Shape | None, where: str) -> Shape:
    """Return the shape of the result, `out` where the destination is known. Raises BadOperator for any other shape."""
    try:
        return ISA[op].shapes.yields([s.shape if isinstance(s, View) else () for s in sources], out)
    except ShapeError as error:
        raise BadOperator(f"{op}: {error}", where) from None


def check_memories(core_kind: str, op: str, sources: Sequence[Source], dst: View, where: str) -> None:
    """Refuse operands in memories that the instruction does not work on. Raises BadOperator.

    A scalar operand may be an element of a tensor, which the scalar unit reads.
    """
    row = ISA[op]
    views = [s for s in sources if isinstance(s, View) and not (s.space == "gm" and s.element and dst.shape)]
    spaces = tuple(v.space for v in (*views, dst))
    if op in COPIES:
        source, target = spaces
        if (source, target) not in ROUTES:
            raise BadOperator(f"{op} from {source} to {target}: no path connects these memories", where)
        if {source, target} - {"gm", *SPACES[core_kind]}:
            raise BadOperator(f"{op} from {source} to {target} is not possible on a {core_kind} core", where)
    elif row.pipe not in PIPES[core_kind]:
        raise BadOperator(f"{op} runs on the pipe {row.pipe}, which a {core_kind} core does not have", where)
    elif "gm" in spaces:
        raise BadOperator(f"{op} works on on-chip buffers; copy in or out first", where)
    elif row.spaces and spaces != row.spaces:
        raise BadOperator(f"{op} works on {', '.join(row.spaces)}, not on {', '.join(spaces)}", where)
    elif not row.spaces and len({v.space for v in (*views, dst) if v.shape}) > 1:
        raise BadOperator(f"{op} mixes memories: {', '.join(f'{v} in {v.space}' for v in (*views, dst))}", where)


def check_dtypes(op: str, sources: Sequence[Source], dst: View, where: str) -> None:
    """Refuse operands of another dtype than the destination, but for a copy out of L0C. Raises BadOperator."""
    for source in sources:
        if not isinstance(source, View) or not source.shape or source.space == "l0c":
            continue
        if source.dtype != dst.dtype and not ISA[op].casts:
            raise BadOperator(f"{op} of {source.dtype} '{source}' into {dst.dtype} '{dst}'; cast first", where)


def check_write(
    buffer: Buffer,
    earlier: Iterable[tuple[Loop, ...]],
    stack: Sequence[Loop],
    carried: AbstractSet[Buffer],
    where: str,
) -> None:
    """Refuse a write of a reserved buffer, and one both in a loop and around it without carry. Raises BadOperator.

    `earlier` has the loops around each earlier write of the buffer, `stack` those around this one.
    """
    if buffer.reserved:
        raise BadOperator(f"'{buffer.name}' is reserved for an absent option and must not be written", where)
    for loops in earlier:
        shared = 0
        while shared < min(len(loops), len(stack)) and loops[shared] is stack[shared]:
            shared += 1
        inside = stack[shared:] if len(loops) == shared else loops[shared:] if len(stack) == shared else ()
        if inside and buffer not in carried and not any(buffer in loop.carry for loop in inside):
            raise BadOperator(
                f"'{buffer.name}' is written both in the loop over {inside[0].name} and around it; "
                f"give that loop carry=({buffer.name},)",
                where,
            )
