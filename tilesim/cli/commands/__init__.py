"""Commands, one file each: a file in this folder is the command of its name, without an entry anywhere else.

A file makes `app = App()` and registers its function, which takes a question of `tilesim.cli.question` and returns the
exit code. Commands import what they need at the top: a file is loaded when its command runs. What several commands
share lives in `tilesim.cli`; commands compute nothing.
"""
