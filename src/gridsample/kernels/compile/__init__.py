"""Contact with the compilers' internals: the kernels' cache on disk, and what a fork must not cut.

`folders` chooses a folder, and reads and writes its files; `cache` keeps the machine code of
Numba's dispatchers there; `forks` makes a fork wait for a compilation in another thread.
"""
