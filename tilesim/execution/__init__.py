"""Values: a plan computed in numpy tile by tile, with its inputs and outputs in files, and the vendor's two calls.

This wing takes plans. Tiles and cores are planning's, prices timing's.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["aclnn"])
