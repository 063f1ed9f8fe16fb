"""The element types: bytes per element, numpy stand-in, and the one place where values are rounded."""

from __future__ import annotations

import re
from typing import Any, Final

import ml_dtypes
import numpy as np

from tilesim.errors import BadInput, did_you_mean

_NUMPY: Final[dict[str, np.dtype[Any]]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
    "int64": np.dtype(np.int64),
    "uint64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

DTYPES: Final[tuple[str, ...]] = tuple(_NUMPY)
"""The canonical names of the dtypes of the vendor's tensors, those that no operator takes included; floats first."""

FLOATS: Final[tuple[str, ...]] = ("float16", "bfloat16", "float32", "float64")
"""The floating-point dtypes that kernels compute with."""

_ALIASES: Final[dict[str, str]] = {
    "half": "float16",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "fp32": "float32",
    "f32": "float32",
    "double": "float64",
    "fp64": "float64",
    "f64": "float64",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "short": "int16",
    "i32": "int32",
    "int": "int32",
    "i64": "int64",
    "long": "int64",
    "bool_": "bool",
}


def dtype_named(dtype: object) -> str:
    """Return the canonical name of a dtype: a name, a numpy dtype or scalar type, or an object that prints as a name.

    Letter case and prefixes of frameworks do not matter.

    >>> dtype_named("BF16"), dtype_named("torch.half"), dtype_named("DT_FLOAT"), dtype_named(np.float32)
    ('bfloat16', 'float16', 'float32', 'float32')

    Raises BadInput for anything else.
    """
    scalar = isinstance(dtype, type) and issubclass(dtype, np.generic)
    word = np.dtype(dtype).name if scalar else str(dtype)  # type: ignore[call-overload]
    word = word.strip().lower().rsplit(".", 1)[-1].removeprefix("dt_")
    name = _ALIASES.get(word, word)
    if name not in _NUMPY:
        swapped = _other_byte_order(word)
        if swapped:
            raise BadInput("dtype", [f"{dtype!r} is {swapped} in another byte order; astype({swapped!r}) changes it"])
        hint = did_you_mean(word, [*DTYPES, *_ALIASES]) or f" there are: {', '.join(DTYPES)}"
        raise BadInput("dtype", [f"{dtype!r} is not a dtype;{hint}"])
    return name


def _other_byte_order(word: str) -> str:
    """Return the dtype's name for a numpy code such as ">f4" in another byte order than the machine's; else ""."""
    if not re.fullmatch(r"[<>][fiuc]\d+", word):
        return ""
    try:
        dtype = np.dtype(word)
    except TypeError:  # no dtype has this width
        return ""
    return dtype.name if not dtype.isnative and dtype.name in _NUMPY else ""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the numpy dtype that holds elements of `dtype` (a canonical name or an alias)."""
    return _NUMPY[dtype if dtype in _NUMPY else dtype_named(dtype)]


def itemsize(dtype: str) -> int:
    """Return the bytes of one element.

    >>> [itemsize(dtype) for dtype in DTYPES]
    [2, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8, 16, 1, 1]
    """
    return numpy_dtype(dtype).itemsize


def is_float(dtype: str) -> bool:
    """Return True if `dtype` is one of FLOATS."""
    return dtype in FLOATS


def is_short_float(dtype: str) -> bool:
    """Return True if `dtype` is a float of 16 bits."""
    return is_float(dtype) and itemsize(dtype) == 2


def in_dtype(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return `array` as elements of `dtype`, its values unchanged; no copy where its bytes are those elements.

    bfloat16 may come as its bits, in uint16 or in the two-byte void of .npy files, and both 16-bit floats as float32.
    Raises BadInput for any other dtype, and for a float32 value that the 16-bit float does not have.
    """
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    if dtype == "bfloat16" and array.dtype in (np.dtype(np.uint16), np.dtype("V2")):
        return array.view(target)
    short = is_short_float(dtype)
    if not short or array.dtype != np.float32:
        others = [
            *(["its bits in uint16"] if dtype == "bfloat16" else []),
            *(["exact values in float32"] if short else []),
        ]
        raise BadInput("array", [" or ".join([f"is {array.dtype}, must be {dtype}", *others])])
    narrow = rounded(array, dtype)
    off = (narrow.astype(np.float32) != array) & ~np.isnan(array)
    if off.any():
        first = float(array[off].flat[0])
        raise BadInput(
            "array", [f"has {off.sum():,} of {array.size:,} values that {dtype} does not, such as {first:g}"]
        )
    return narrow


def rounded(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return `array` in `dtype`: nearest, ties to even; same shape, no copy if it has that dtype already.

    A float becomes infinite beyond the largest value; an integer stops at the ends of its range, and NaN becomes 0.
    A 16-bit float is rounded from 32 bits only: from 64 bits the value would be rounded twice, once on the way, and
    could land on the wrong side of a tie. Round to "float32" first where the kernel does so.
    Raises TypeError for a 64-bit float on its way to 16 bits.
    """
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    if is_short_float(dtype) and array.dtype == np.float64:
        message = f"float64 to {dtype} would round twice; round to float32 first"
        raise TypeError(message)
    if target.kind in "iu" and array.dtype.kind not in "iub":
        return _rounded_to_integer(array, target)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(target)


def _rounded_to_integer(array: np.ndarray[Any, Any], target: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the nearest integers that `target` can hold."""
    limits = np.iinfo(target)
    nearest = np.rint(array.astype(np.float64))
    below, above = nearest < limits.min, nearest >= float(limits.max)
    inside = np.where(below | above | np.isnan(nearest), 0.0, nearest).astype(target)
    return np.where(above, target.type(limits.max), np.where(below, target.type(limits.min), inside))
