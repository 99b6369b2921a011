"""Compile, cache and call kernels; only this package uses the compilers' internals.

    records     flattens named groups of arguments, and checks them by name
    lower       makes twins of functions for a target, with other values for global names
    jit         compiles them with Numba: with `pipeline`, or with Numba's plain decorators
    pipeline    Numba's own classes, in an order of our own
    extending   Numba's low-level extension interface: arrays, registers, rows of arguments
    triton_jit  compiles them with Triton
    folders     selects a folder for machine code, and reads and writes its files
    cache       stores the machine code of Numba's dispatchers there
    forks       makes a fork wait for a compilation in another thread

All other modules use only public names: `numba.njit` and `numba.extending`, llvmlite's builder of
instructions, and `triton.language`.
"""
