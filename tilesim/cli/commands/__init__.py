"""The commands, one file each: a file that is put here is a command of its name, with no entry anywhere else.

A file makes `app = App()` and registers its function, which takes a question of `tilesim.cli.question` and returns the
exit code. Commands import what they need at the top: a file is loaded when its command runs. What several commands
share lives in `tilesim.cli`; commands compute nothing themselves.
"""
