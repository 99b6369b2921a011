"""What is asked of Numba's low-level interface for extensions, beside `numba.extending`.

Intrinsics elsewhere write LLVM's instructions with llvmlite's builder; how Numba lays out an array,
and its helpers for writing loops and declarations, are known here alone.
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
# The length of arrays whose length is not known.
LONG = 1 << 62
# Not annotated in Numba.
Tuple: Any = nb.types.Tuple
CPointer: Any = nb.types.CPointer
numba_carray: Any = vars(nb)["carray"]


# LLVM ---------------------------------------------------------------------------------------------


def declare(module: Any, function: Any, name: str) -> Any:
    """A function of LLVM's own, declared once in a module."""
    return cgutils.get_or_insert_function(module, function, name)  # type: ignore[no-untyped-call]


def variable(builder: Any, value: Any) -> Any:
    """Room on the stack for a variable that starts with a value."""
    return cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]


def count_to(builder: Any, count: Any) -> Any:
    """A loop over 0 to ``count``: a context, whose value has the ``index``."""
    return cgutils.for_range(builder, count)


class Lanes(nb.types.Type):
    """So many numbers of a type, in a register."""

    def __init__(self, number: Any, count: int) -> None:
        """``count`` times ``number``."""
        self.number, self.count = number, count
        super().__init__(name=f"Lanes({number}, {count})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Lanes are one of LLVM's vectors."""

    def __init__(self, manager: Any, kind: Lanes) -> None:
        """As Numba's models are made."""
        number = manager.lookup(kind.number).get_value_type()
        super().__init__(manager, kind, ir.VectorType(number, kind.count))  # type: ignore[no-untyped-call]


# Arrays -------------------------------------------------------------------------------------------


def pointer(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of an array's first entry."""
    return context.make_array(kind)(context, builder, array).data


def make_array(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    """A flat array at an address; its length is not known, and nobody asks for it."""
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
    """A pointer, moved: three instructions, where a slice compiles to some forty."""

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
    """As `_tail`, a slice."""
    return array[start:]


# What follows in a flat array, from an index on that is in it.
tail: Any = compile_inline(_slice) if is_plain() else _tail


# Rows of integers ---------------------------------------------------------------------------------


@intrinsic
def _peek(context: Any, address: Any, place: Any) -> Any:
    """An integer in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.load(builder.gep(memory, [arguments[1]]))

    return nb.types.int64(nb.types.int64, nb.types.int64), generate


peek: Any = _peek  # called without the context, which its type does not say


def pointer_type(number: Any) -> Any:
    """What makes an address a pointer to numbers of a type."""

    @intrinsic
    def as_pointer(context: Any, address: Any) -> Any:
        result = CPointer(number)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(result))

        return result(nb.types.int64), generate

    return as_pointer


def unpacker(kinds: Sequence[Any], places: Sequence[int]) -> Any:
    """What reads arguments of some types from their places in a row: a function of its address.

    An argument is an integer: a number, or the address of an array.
    """
    return _unpack_plainly(kinds, places) if is_plain() else _unpack_at_once(kinds, places)


def _unpack_at_once(kinds: Sequence[Any], places: Sequence[int]) -> Any:
    """`unpacker` as one intrinsic function."""
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
    """`unpacker` of `numba.carray`, one line for each argument."""
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
