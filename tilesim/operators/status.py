"""The status codes that the first call of a vendor operator returns.

Source: the vendor's documents of the operators, tables of return values, and its common table of aclnn codes.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Status(NamedTuple):
    """A status: its `name` in the vendor's header and its `code`."""

    name: str
    code: int


SUCCESS: Final = Status("ACLNN_SUCCESS", 0)
"""The parameters are valid and the execution is prepared."""
PARAM_NULLPTR: Final = Status("ACLNN_ERR_PARAM_NULLPTR", 161001)
"""A pointer that must be given is null."""
PARAM_INVALID: Final = Status("ACLNN_ERR_PARAM_INVALID", 161002)
"""A dtype, rank, shape or attribute is not one of the documented ones."""
RUNTIME_ERROR: Final = Status("ACLNN_ERR_RUNTIME_ERROR", 361001)
"""A call of the runtime below the library failed."""
INNER: Final = Status("ACLNN_ERR_INNER", 561000)
"""An error inside the library."""
TILING_ERROR: Final = Status("ACLNN_ERR_INNER_TILING_ERROR", 561002)
"""The operator's tiling refused the shape."""
INNER_NULLPTR: Final = Status("ACLNN_ERR_INNER_NULLPTR", 561103)
"""A tensor inside the library cannot be created, or a combination of sizes is not supported."""
