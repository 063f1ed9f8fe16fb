"""What a recorder refuses: numbers that mean nothing, operands that an instruction cannot take, ambiguous writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from tilesim.errors import BadOperator, did_you_mean
from tilesim.program.buffers import Buffer, View
from tilesim.program.isa import COPIES, ISA, REGISTERS, ROUTES, SPACES, ShapeError, text
from tilesim.program.nodes import Loop, Source
from tilesim.program.sizes import ONE, Size

SPLITS = ("block_balanced", "block", "cyclic")
"""How a loop can be shared out over cores."""


def check_number(what: str, value: object, least: int, where: str) -> None:
    """Refuse what is no whole number, or is less than `least`. Raises BadOperator."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadOperator(f"{what} is {value!r}, must be a whole number", where)
    if value < least:
        raise BadOperator(f"{what} is {value}, must be at least {least}", where)


def check_size(what: str, value: object, least: int, where: str) -> None:
    """Refuse what is no size, or one that is known to be less than `least`. Raises BadOperator."""
    if not isinstance(value, Size):
        check_number(what, value, least, where)
    elif value.constant is not None:
        check_number(what, value.constant, least, where)


def check_split(loop: str, split: object, where: str) -> None:
    """Refuse a way to share a loop out that there is not. Raises BadOperator."""
    if isinstance(split, bool) or split in ("", *SPLITS):
        return
    hint = did_you_mean(split, SPLITS) if isinstance(split, str) else ""
    hint = hint or f" there are: True, {', '.join(SPLITS)}"
    raise BadOperator(f"split of loop '{loop}' is {split!r}, which is no way to share it out;{hint}", where)


def check_operands(core_kind: str, op: str, sources: Sequence[Source], dst: View, where: str) -> None:
    """Refuse operands in the wrong memory, of the wrong shape or dtype. Raises BadOperator."""
    row = ISA[op]
    views = [s for s in sources if isinstance(s, View)]
    if op in COPIES:
        route = (views[0].space, dst.space)
        if route not in ROUTES:
            raise BadOperator(f"{op} from {route[0]} to {route[1]}: there is no such path between memories", where)
        if route[1] not in ("gm", *SPACES[core_kind]) or route[0] not in ("gm", *SPACES[core_kind]):
            raise BadOperator(f"{op} from {route[0]} to {route[1]} is not possible on a {core_kind} core", where)
    elif any(v.space == "gm" for v in (*views, dst)):
        raise BadOperator(f"{op} works on on-chip buffers; copy in or out first", where)
    elif op in ("vld", "vst"):
        if (views[0].space, dst.space) != (("ub", REGISTERS) if op == "vld" else (REGISTERS, "ub")):
            raise BadOperator(f"{op} from {views[0].space} to {dst.space}: it goes between ub and {REGISTERS}", where)
    elif len({v.space for v in (*views, dst) if v.shape}) > 1 and core_kind == "vector":
        raise BadOperator(f"{op} mixes memories: {', '.join(f'{v} in {v.space}' for v in (*views, dst))}", where)
    try:
        expected = row.shape([v.shape for v in views])
    except ShapeError as why:
        if row.shape is not ISA["fill"].shape:
            raise BadOperator(f"{op}: {why}", where) from None
        expected = dst.shape
    if (expected or (ONE,)) != (dst.shape or (ONE,)):
        raise BadOperator(f"{op} yields {text(expected)}; '{dst}' is {text(dst.shape)}", where)
    fixpipe = op == "copy" and views[0].space == "l0c"
    wrong = [v for v in views if v.dtype != dst.dtype and v.shape]
    if wrong and not row.casts and not fixpipe and op != "mmad":
        raise BadOperator(f"{op} of {wrong[0].dtype} '{wrong[0]}' into {dst.dtype} '{dst}'; cast first", where)


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
        raise BadOperator(f"'{buffer.name}' is reserved for an absent option, yet written", where)
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
