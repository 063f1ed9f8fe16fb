"""Independent float64 references of every operator, written from the formulas alone: a module for each, of its name.

`expected(call, inputs)` of a module returns the float64 outputs; `inputs` are tensors under their documented names, of
any dtype that numpy can widen to float64. Outputs have the tolerance of a float32 computation that is rounded once,
unless the module compares them itself: `compare(plan, inputs, outputs, values)`.

Nothing here imports tilesim: a mistake in the library can not hide behind the same mistake in its reference.
"""

import importlib
from types import ModuleType


def reference_of(operator: str) -> ModuleType:
    """Return the reference of an operator."""
    return importlib.import_module(f"{__name__}.{operator}")
