"""Wrappers of Numba's low-level extension interface, beyond `numba.extending`.

Intrinsics in other modules write LLVM instructions with llvmlite's builder.  Only this module knows
how Numba lays out an array, and uses Numba's helpers for loops and declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from gridsample.kernels.compile.jit import compile_inline, is_plain

I64 = ir.IntType(64)
# The length of arrays of unknown length.
LONG = 1 << 62
# Not annotated in Numba.
Tuple: Any = nb.types.Tuple
CPointer: Any = nb.types.CPointer
numba_carray: Any = vars(nb)["carray"]


# LLVM ---------------------------------------------------------------------------------------------


def declare(module: Any, function: Any, name: str) -> Any:
    """Declare one of LLVM's functions, once in a module."""
    return cgutils.get_or_insert_function(module, function, name)  # type: ignore[no-untyped-call]


def variable(builder: Any, value: Any) -> Any:
    """Allocate a variable on the stack, with an initial value."""
    return cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]


def count_to(builder: Any, count: Any) -> Any:
    """Make a loop over 0 to ``count``: a context manager whose value has the ``index``."""
    return cgutils.for_range(builder, count)


class Lanes(nb.types.Type):
    """A type: ``count`` numbers in one vector register."""

    def __init__(self, number: Any, count: int) -> None:
        """Define ``count`` lanes of type ``number``."""
        self.number, self.count = number, count
        super().__init__(name=f"Lanes({number}, {count})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Represent lanes by an LLVM vector."""

    def __init__(self, manager: Any, kind: Lanes) -> None:
        """Make the model, with the arguments that Numba passes."""
        number = manager.lookup(kind.number).get_value_type()
        super().__init__(manager, kind, ir.VectorType(number, kind.count))  # type: ignore[no-untyped-call]


# Arrays -------------------------------------------------------------------------------------------


def pointer(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the address of an array's first entry."""
    return context.make_array(kind)(context, builder, array).data


def make_array(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    """Make a flat array at an address; its length is unknown, and no code reads it."""
    from numba.np.arrayobj import populate_array

    fill_array: Any = populate_array  # not annotated in Numba
    array = context.make_array(kind)(context, builder)
    size = I64(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    fill_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=[I64(LONG)],
        strides=[size],
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def _tail(context: Any, array: Any, start: Any) -> Any:
    """Move a pointer: three instructions, where a slice compiles to about forty."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        make = context.make_array(signature.args[0])
        whole, part = make(context, builder, arguments[0]), make(context, builder)
        skipped = context.cast(builder, arguments[1], signature.args[1], nb.intp)
        for name in ("meminfo", "parent", "itemsize", "strides"):
            setattr(part, name, getattr(whole, name))
        part.data = builder.gep(whole.data, [skipped])
        part.nitems = builder.sub(whole.nitems, skipped)
        part.shape = builder.insert_value(whole.shape, part.nitems, 0)
        return part._getvalue()

    return array(array, start), generate


def _slice(array: Any, start: int) -> Any:
    """Return the same as `_tail`, by a slice."""
    return array[start:]


# The rest of a flat array from a valid index on.
tail: Any = compile_inline(_slice) if is_plain() else _tail


# Rows of integers ---------------------------------------------------------------------------------


@intrinsic
def _peek(context: Any, address: Any, place: Any) -> Any:
    """Read an integer from memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.load(builder.gep(memory, [arguments[1]]))

    return nb.types.int64(nb.types.int64, nb.types.int64), generate


peek: Any = _peek  # called without the context, which its type does not express


def pointer_type(number: Any) -> Any:
    """Make a function that converts an address to a pointer to numbers of a type."""

    @intrinsic
    def as_pointer(context: Any, address: Any) -> Any:
        result = CPointer(number)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(result))

        return result(nb.types.int64), generate

    return as_pointer


def unpacker(kinds: Sequence[Any], places: Sequence[int]) -> Any:
    """Make a function that reads arguments of given types from their places in a row.

    The function takes the address of the row, whose entries are integers: numbers, or addresses of
    arrays.
    """
    return _unpack_plainly(kinds, places) if is_plain() else _unpack_at_once(kinds, places)


def _unpack_at_once(kinds: Sequence[Any], places: Sequence[int]) -> Any:
    """Make `unpacker`'s function as a single intrinsic."""
    result = Tuple(tuple(kinds))

    @intrinsic
    def unpack(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            row, values = builder.inttoptr(arguments[0], I64.as_pointer()), []
            for kind, place in zip(kinds, places, strict=True):
                value = builder.load(builder.gep(row, [I64(place)]))
                if isinstance(kind, nb.types.Array):
                    values.append(make_array(context, builder, kind, value))
                else:
                    values.append(context.cast(builder, value, nb.types.int64, kind))
            return context.make_tuple(builder, result, values)

        return result(nb.types.int64), generate

    return unpack


def _unpack_plainly(kinds: Sequence[Any], places: Sequence[int]) -> Any:
    """Make `unpacker`'s function from `numba.carray`, with one expression for each argument."""
    names: dict[str, Any] = {"carray": numba_carray, "peek": peek, "bool": bool, "LONG": LONG}
    values = []
    for kind, place in zip(kinds, places, strict=True):
        value = f"peek(row, {place})"
        if isinstance(kind, nb.types.Array):
            name = f"pointer_{kind.dtype}"
            names[name] = pointer_type(kind.dtype)
            value = f"carray({name}({value}), (LONG,))"
        elif kind == nb.types.boolean:
            value = f"{value} != 0"
        values.append(value)
    exec(f"def unpack(row):\n    return ({', '.join(values)},)", names)
    return compile_inline(names["unpack"])
