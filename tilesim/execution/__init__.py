"""Values: a plan computed in numpy tile by tile, with its inputs and outputs in files, and the vendor's two calls.

It takes plans and the wings below them, and never decides how work is tiled or what it costs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["aclnn"])
