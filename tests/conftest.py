"""What holds for the whole suite."""

from hypothesis import settings

# An example's first run loads modules and fills caches, so its time says nothing on a machine that does other work.
settings.register_profile("tilesim", deadline=None)
settings.load_profile("tilesim")
