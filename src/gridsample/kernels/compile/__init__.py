"""How kernels are compiled, kept and entered; the only contact with the compilers' internals.

    records     flattens named groups of arguments, and checks them by name
    lower       makes twins of functions for a target, with names bound anew
    jit         compiles them with Numba: by `pipeline`, or by Numba's plain decorators
    pipeline    Numba's own classes, in an order of our own
    extending   Numba's low-level interface for extensions: arrays, registers, rows of arguments
    triton_jit  compiles them with Triton
    folders     chooses a folder for machine code, and reads and writes its files
    cache       keeps the machine code of Numba's dispatchers there
    forks       makes a fork wait for a compilation in another thread

Elsewhere only public names are used: `numba.njit` and `numba.extending`, llvmlite's builder of
instructions, and `triton.language`.
"""
