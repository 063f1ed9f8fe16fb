"""Tiling, resource planning and simulation of NPU operators, without the NPU.

The public names are stated in `__init__.pyi` and load when they are first used, so that `import tilesim` costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
