"""Tensors in files: .npz, a folder of .npy files, .safetensors; keys are the documents' names.

bfloat16 has no type of its own in .npz and .npy files. It is written there as float32, which holds its values exactly,
and read from float32, from its bits in uint16 or from the two-byte void that numpy makes of it.
"""

from __future__ import annotations

import functools
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from tilesim.errors import BadInput
from tilesim.files import write_all
from tilesim.program.dtypes import numpy_dtype

Array = Any

SAFETENSORS: Final = {
    "BF16": numpy_dtype("bfloat16"),
    "F16": numpy_dtype("float16"),
    "F32": numpy_dtype("float32"),
    "F64": numpy_dtype("float64"),
    "BOOL": numpy_dtype("bool"),
    "I8": numpy_dtype("int8"),
    "U8": numpy_dtype("uint8"),
    "I16": numpy_dtype("int16"),
    "U16": np.dtype(np.uint16),
    "I32": numpy_dtype("int32"),
    "I64": numpy_dtype("int64"),
}
"""Dtypes of tensors in .safetensors files, U16 for bits of bfloat16. Source: the format's document."""
MOST_HEADER_BYTES: Final = 100_000_000
"""The largest header that the format allows."""
BROKEN: Final = (
    ValueError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of reading a file whose content does not match its name."""
OBJECTS: Final = ("allow_pickle", "Object arrays", "Python objects")
"""Words in numpy's errors about arrays of Python objects, which may hold any value."""
CHUNK: Final = 1 << 20
"""Elements that are converted at once."""


class Malformed(ValueError):
    """A file without the format of its name; the message is for the user."""


def read_arrays(path: str | Path) -> dict[str, Array]:
    """Return all arrays of a .npz or .safetensors file or a folder of .npy files, as stored. Raises BadInput."""
    source = Path(path)
    if not source.exists():
        raise BadInput(str(path), ["does not exist"])
    try:
        if source.is_dir():
            arrays = {file.stem: _npy(file) for file in sorted(source.glob("*.npy"))}
        elif source.suffix == ".npz":
            arrays = _npz(source)
        elif source.suffix == ".safetensors":
            arrays = _safetensors(source)
        else:
            raise BadInput(str(path), ["is not a .npz file, a .safetensors file or a folder of .npy files"])
    except OSError as error:
        raise BadInput(str(path), [f"cannot be read: {error.strerror or error}".lower()]) from None
    except Malformed as error:
        raise BadInput(str(path), [f"cannot be read: {error}"]) from None
    except BROKEN:
        raise BadInput(str(path), [f"cannot be read: it is not a complete {source.suffix} file"]) from None
    if not arrays:
        raise BadInput(str(path), ["has no arrays"])
    return arrays


def _npz(path: Path) -> dict[str, Array]:
    """The arrays of numpy's archive. Raises Malformed."""
    arrays: dict[str, Array] = {}
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise Malformed("it is not a .npz archive of arrays")
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = _array(name, np.lib.format.read_array, member)
    return arrays


def _npy(path: Path) -> Array:
    """The array of a file in numpy's format, memory-mapped. Raises Malformed."""
    return _array(path.name, functools.partial(np.lib.format.open_memmap, mode="r"), path)


def _array(name: str, read: Callable[[Any], Array], source: Any) -> Array:
    """The array that `read` returns of a source. Raises Malformed, with its name, for any other content."""
    try:
        return read(source)
    except BROKEN as error:
        objects = any(words in str(error) for words in OBJECTS)
        problem = "holds Python objects, not numbers" if objects else "is not a complete array in numpy's format"
        raise Malformed(f"{name} {problem}") from None


def _safetensors(path: Path) -> dict[str, Array]:
    """The tensors of a file, memory-mapped. Raises Malformed or an error of BROKEN."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(size - 8, MOST_HEADER_BYTES):
            raise Malformed(f"its header states {length} bytes, the file has {size}")
        header = json.loads(file.read(length))
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in SAFETENSORS:
            raise Malformed(f"{name} is {entry['dtype']}, a dtype of no operator")
        dtype, shape = SAFETENSORS[entry["dtype"]], tuple(entry["shape"])
        first, last = entry["data_offsets"]
        if last - first != math.prod(shape) * dtype.itemsize or not 0 <= first <= last <= size - 8 - length:
            raise Malformed(f"{name} is stated in bytes {first} to {last} of {size - 8 - length}")
        empty = first == last
        arrays[name] = np.zeros(shape, dtype) if empty else np.memmap(path, dtype, "r", 8 + length + first, shape)
    return arrays


def save_outputs(path: str | Path, outputs: Mapping[str, Array]) -> Path:
    """Write the outputs to a .npz or .safetensors file by its suffix, else to a folder of .npy files; return the path.

    Files are written under another name and renamed once all are complete; after an error the old files stay, and
    other files of a folder always stay. Raises BadInput if a file cannot be written.
    """
    target = Path(path)
    if target.suffix not in ("", ".npz", ".safetensors") and not target.is_dir():
        raise BadInput(str(path), [f"ends in {target.suffix}, must be a .npz file, a .safetensors file or a folder"])
    try:
        if target.suffix == ".npz":
            write_all({target: functools.partial(_write_npz, outputs=outputs)})
        elif target.suffix == ".safetensors":
            write_all({target: functools.partial(_write_safetensors, outputs=outputs)})
        else:
            target.mkdir(exist_ok=True)
            write_all({target / f"{n}.npy": functools.partial(_write_npy, array=x) for n, x in outputs.items()})
    except OSError as error:  # of the folder; write_all handles those of files
        raise BadInput(str(path), [f"cannot be written: {error.strerror or error}".lower()]) from None
    return target


def _write_npz(file: BinaryIO, outputs: Mapping[str, Array]) -> None:
    """Write the arrays in numpy's archive, as np.savez writes it, without a second copy in memory."""
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_npy(member, array)


def _write_npy(file: Any, array: Array) -> None:
    """Write the array in numpy's format, bfloat16 as float32, one part after the other."""
    kind = np.dtype(np.float32) if array.dtype == numpy_dtype("bfloat16") else array.dtype
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    for part in _parts(array):
        file.write(part.astype(kind).tobytes())


def _parts(array: Array) -> Iterator[Array]:
    """The elements in order, flat, in parts; views if the array has no gaps."""
    flat = array.reshape(-1)
    return (flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK))


def _write_safetensors(file: BinaryIO, outputs: Mapping[str, Array]) -> None:
    """Write the arrays in the format of safetensors: the length of a header, the header, the elements."""
    codes = {dtype: code for code, dtype in SAFETENSORS.items()}
    header: dict[str, Any] = {}
    offset = 0
    for name, array in outputs.items():
        last = offset + array.nbytes
        header[name] = {"dtype": codes[array.dtype], "shape": list(array.shape), "data_offsets": [offset, last]}
        offset = last
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in outputs.values():
        file.writelines(part.tobytes() for part in _parts(array))
