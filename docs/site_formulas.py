"""The formulas of `gridsample.definitions.axis` in JavaScript, for the page with the explorer.

They use only operators, a few functions, ``if`` and ``for``, which have equivalents.
"""

from __future__ import annotations

import ast
import inspect

from gridsample.definitions import axis

CONSTANTS = ("ZERO", "HALF", "ONE", "FLOOR", "HALF_EVEN", "HALF_UP", "DROPPED")
BOUNDARIES = ("ZEROS", "BORDER", "REFLECTION", "WRAP")
FORMULAS = (
    axis.position, axis.fold, axis.confine, axis.split, axis.fold_index, axis.fold_sign,
    axis.weight,
)  # fmt: skip
# The functions that the formulas take from NumPy; numbers are single ones here.
FUNCTIONS = """\
const { floor, min: minimum, max: maximum } = Math;
const where = (condition, a, b) => (condition ? a : b);
const remainder = (a, b) => ((a % b) + b) % b;
function rint(x) {
  const low = floor(x), rest = x - low;
  return low + (rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? 1 : 0);
}"""
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&&", ast.BitOr: "||",
    ast.Eq: "===", ast.NotEq: "!==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.USub: "-",
}  # fmt: skip


def formulas() -> str:
    """The constants and functions, as the source of a script."""
    numbers = [f"{name} = {getattr(axis, name)}" for name in (*CONSTANTS, *BOUNDARIES)]
    parts = [f"const {', '.join(numbers)};", FUNCTIONS, *map(translated, FORMULAS)]
    return "\n".join(parts) + "\n"


def translated(function: object) -> str:
    """A function in JavaScript; an error if it has a construct without an equivalent here."""
    (definition,) = ast.parse(inspect.getsource(function)).body  # type: ignore[arg-type]
    assert isinstance(definition, ast.FunctionDef)
    arguments = [argument.arg for argument in definition.args.args]
    stored = {
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names = sorted(stored - {*arguments})
    lines = [f"let {', '.join(names)};"] if names else []
    lines += [statement(node) for node in definition.body[1:]]  # the first one is the docstring
    return f"function {definition.name}({', '.join(arguments)}) {{\n" + "\n".join(lines) + "\n}"


def statement(node: ast.stmt) -> str:
    """A statement in JavaScript."""
    match node:
        case ast.Return(value=value) if value is not None:
            return f"return {expression(value)};"
        case ast.Assign(targets=[target], value=value):
            return f"{expression(target)} = {expression(value)};"
        case ast.AnnAssign(target=target, value=value) if value is not None:
            return f"{expression(target)} = {expression(value)};"
        case ast.If(test=test, body=body, orelse=orelse):
            otherwise = f" else {{ {' '.join(map(statement, orelse))} }}" if orelse else ""
            return f"if ({expression(test)}) {{ {' '.join(map(statement, body))} }}{otherwise}"
        case ast.For(
            target=ast.Name(id=name),
            iter=ast.Call(func=ast.Name(id="range"), args=[start, stop]),
            body=body,
        ):
            head = f"{name} = {expression(start)}; {name} < {expression(stop)}; {name}++"
            return f"for ({head}) {{ {' '.join(map(statement, body))} }}"
    raise NotImplementedError(ast.unparse(node))


def expression(node: ast.expr) -> str:
    """An expression in JavaScript."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int() | float() as number):
            return repr(number)
        case ast.Tuple(elts=elements):
            return f"[{', '.join(map(expression, elements))}]"
        case ast.Subscript(value=value, slice=index):
            return f"{expression(value)}[{expression(index)}]"
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return f"{name}({', '.join(map(expression, arguments))})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({expression(test)} ? {expression(body)} : {expression(orelse)})"
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return f"({OPERATORS[type(op)]}{expression(operand)})"
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ) if type(op) in OPERATORS:
            return f"({expression(left)} {OPERATORS[type(op)]} {expression(right)})"
    raise NotImplementedError(ast.unparse(node))
