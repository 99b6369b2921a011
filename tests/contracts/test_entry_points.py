"""Every public function rejects arrays that are not dense, by an error that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import gridsample
from gridsample import cv, ndimage, nn, operators, torch_compat

Call = tuple[Callable[..., Any], dict[str, Any]]

IMAGE = np.arange(210, dtype=np.float32).reshape(2, 3, 5, 7)
PLANE = IMAGE[0, 0]
GRID = np.linspace(-1, 1, 96, dtype=np.float32).reshape(2, 4, 6, 2)
VALUES = np.ones((2, 3, 4, 6), np.float32)
MAPS = np.tile(np.eye(2, 3, dtype=np.float32), (2, 1, 1))
PLACES = np.ones((4, 6), np.float32)
OUT = (2, 3, 4, 6)
# Two levels of a pixel each, three queries, and a point of each level.
PIXELS = np.ones((1, 2, 2, 4), np.float32)
POINTS, SHARES = np.ones((1, 3, 2, 2, 1, 2), np.float32), np.ones((1, 3, 2, 2, 1), np.float32)
BOXES = np.array([[0, 1, 1, 3, 4], [1, 2, 2, 5, 3]], np.float32)
SUMS = {"images": PIXELS, "points": POINTS, "weights": SHARES, "sizes": [(1, 1), (1, 1)]}
ATTENTION = {
    "value": PIXELS,
    "value_spatial_shapes": [(1, 1), (1, 1)],
    "sampling_locations": POINTS,
    "attention_weights": SHARES,
}
# Kernels of one point.
CONVOLUTION = {
    "input": IMAGE,
    "offset": np.ones((2, 2, 5, 7), np.float32),
    "weight": np.ones((4, 3, 1, 1), np.float32),
    "bias": np.ones(4, np.float32),
    "mask": np.ones((2, 1, 5, 7), np.float32),
}


def listed(module: Any, calls: dict[str, dict[str, Any]]) -> dict[str, Call]:
    """The calls of functions of a module, by the functions' full names."""
    short = module.__name__.removeprefix("gridsample").removeprefix(".")
    prefix = short + "." if short else ""
    return {prefix + name: (getattr(module, name), arguments) for name, arguments in calls.items()}


# Cells of an image of IMAGE's size, and of VALUES' size.
CELLS = gridsample.CellOverlaps(
    *[[np.linspace(0, 1, n + 1) for n in array.shape[:1:-1]] for array in (IMAGE, VALUES)]
)


# A call of each public function that takes arrays.
CALLS: dict[str, Call] = {
    **listed(
        gridsample,
        {
            "affine_grid": {"theta": MAPS, "size": OUT},
            "affine_sample": {"input": IMAGE, "theta": MAPS, "size": OUT},
            "affine_sample_vjp": {
                "grad_output": VALUES,
                "input": IMAGE,
                "theta": MAPS,
                "size": OUT,
            },
            "check_grid": {"grid": GRID, "size": (5, 7)},
            "footprint": {"grid": GRID, "size": (5, 7)},
            "register": {"fixed": IMAGE, "moving": IMAGE},
            "explain": {"at": (0.1, 0.2), "size": (7, 5), "image": PLANE},
            "grid_gradient": {"input": IMAGE, "grid": GRID},
            "grid_hessian": {"input": IMAGE, "grid": GRID},
            "grid_sample": {"input": IMAGE, "grid": GRID},
            "grid_sample_vjp": {"grad_output": VALUES, "input": IMAGE, "grid": GRID},
            "interpolate": {"input": IMAGE, "size": (4, 6), "mode": "linear"},
            "interpolate_vjp": {
                "grad_output": VALUES,
                "input": IMAGE,
                "size": (4, 6),
                "mode": "linear",
            },
            "lattice_grid": {"lattice": GRID, "size": OUT},
            "lattice_sample": {"input": IMAGE, "lattice": GRID, "size": OUT},
            "lattice_sample_vjp": {
                "grad_output": VALUES,
                "input": IMAGE,
                "lattice": GRID,
                "size": OUT,
            },
            "regrid_conservative": {"input": IMAGE, "overlaps": CELLS},
            "regrid_conservative_vjp": {
                "grad_output": VALUES,
                "input": IMAGE,
                "overlaps": CELLS,
            },
            "resample": {
                "image": IMAGE,
                "affine": np.eye(3),
                "like": (OUT[2:], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
            },
            "resample_vjp": {
                "grad_output": VALUES,
                "image": IMAGE,
                "affine": np.eye(3),
                "like": (OUT[2:], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
            },
            "splat": {"values": VALUES, "grid": GRID, "size": (5, 7)},
            "splat_count": {"grid": GRID, "size": (5, 7)},
            "spline_filter": {"input": IMAGE},
        },
    ),
    **listed(
        ndimage,
        {
            "affine_transform": {"input": PLANE, "matrix": np.eye(2) * 0.9},
            "geometric_transform": {"input": PLANE, "mapping": lambda at: at},
            "map_coordinates": {"input": PLANE, "coordinates": np.ones((2, 4))},
            "rotate": {"input": PLANE, "angle": 30},
            "shift": {"input": PLANE, "shift": np.array([0.5, 1.0])},
            "spline_filter": {"input": PLANE},
            "spline_filter1d": {"input": PLANE},
            "zoom": {"input": PLANE, "zoom": np.array([1.5, 2.0])},
        },
    ),
    **listed(
        cv,
        {
            "convertMaps": {"map1": PLACES, "map2": PLACES, "dstmap1type": cv.CV_16SC2},
            "getRotationMatrix2D": {"center": (2.0, 1.0), "angle": 30.0, "scale": 1.0},
            "initUndistortRectifyMap": {
                "cameraMatrix": np.eye(3),
                "distCoeffs": np.zeros(4),
                "R": None,
                "newCameraMatrix": np.eye(3),
                "size": (6, 4),
                "m1type": cv.CV_32FC1,
            },
            "pyrDown": {"src": PLANE},
            "pyrUp": {"src": PLANE},
            "remap": {"src": PLANE, "map1": PLACES, "map2": PLACES, "interpolation": 1},
            "resize": {"src": PLANE, "dsize": (6, 4)},
            "undistort": {
                "src": PLANE,
                "cameraMatrix": np.eye(3),
                "distCoeffs": np.zeros(4),
            },
            "undistortPoints": {
                "src": np.ones((3, 2)),
                "cameraMatrix": np.eye(3),
                "distCoeffs": np.zeros(4),
            },
            "warpAffine": {"src": PLANE, "M": np.eye(2, 3), "dsize": (6, 4)},
            "warpPerspective": {"src": PLANE, "M": np.eye(3), "dsize": (6, 4)},
            "warpPolar": {
                "src": PLANE,
                "dsize": (6, 4),
                "center": (2.0, 1.0),
                "maxRadius": 3.0,
                "flags": cv.INTER_LINEAR,
            },
        },
    ),
    **listed(
        operators,
        {
            "correlation_lookup": {
                "f1": IMAGE,
                "f2": IMAGE,
                "positions": IMAGE[:, :2],
                "levels": 1,
            },
            "correlation_lookup_vjp": {
                "grad_output": np.ones((2, 81, *IMAGE.shape[2:]), np.float32),
                "f1": IMAGE,
                "f2": IMAGE,
                "positions": IMAGE[:, :2],
                "levels": 1,
            },
            "apply_lut": {"image": IMAGE, "table": np.ones((1, 3, 4), np.float32)},
            "deform_conv2d": CONVOLUTION,
            "deform_sum2d": {
                "input": IMAGE,
                "offset": np.ones((2, 3, 5, 2), np.float32),
                "mask": np.ones((2, 3, 5, 1), np.float32),
                "kernel_h": 1,
                "kernel_w": 1,
            },
            "deformable_attention": ATTENTION,
            "point_features": {
                "grids": [IMAGE, IMAGE, IMAGE],
                "points": np.ones((2, 4, 3), np.float32),
            },
            "ps_roi_align": {"input": IMAGE, "boxes": BOXES, "output_size": (3, 1)},
            "roi_align": {"input": IMAGE, "boxes": BOXES, "output_size": 2},
            "rotated_roi_align": {
                "input": IMAGE,
                "boxes": np.concatenate([BOXES, BOXES[:, :1]], 1),
                "output_size": 2,
            },
            "softmax_splat": {"input": IMAGE, "flow": IMAGE[:, :2], "metric": IMAGE[:, :1]},
            "softmax_splat_vjp": {
                "grad_output": IMAGE,
                "input": IMAGE,
                "flow": IMAGE[:, :2],
                "metric": IMAGE[:, :1],
            },
            "weighted_sum": SUMS,
            "weighted_sum_vjp": {"grad_output": np.ones((1, 3, 2, 4), np.float32), **SUMS},
        },
    ),
}

# Those that take tensors alone.
OF_TORCH: dict[str, Call] = {
    **listed(
        torch_compat,
        {
            "affine_grid": {"theta": MAPS, "size": OUT, "align_corners": False},
            "grid_sample": {"input": IMAGE, "grid": GRID, "align_corners": False},
            "interpolate": {"input": IMAGE, "size": (4, 6), "mode": "bilinear"},
        },
    ),
    "nn.AffineGrid": (nn.AffineGrid((4, 6)), {"theta": MAPS}),
    "nn.CenterPool": (nn.CenterPool([[0.0], [0.0]]), {"input": IMAGE}),
    "nn.CorrelationLookup": (
        nn.CorrelationLookup(levels=1),
        {"f1": IMAGE, "f2": IMAGE, "positions": IMAGE[:, :2]},
    ),
    "nn.DeformConv2d": (
        nn.DeformConv2d(3, 4, 1),
        {name: CONVOLUTION[name] for name in ("input", "offset", "mask")},
    ),
    "nn.DeformableAttention": (nn.DeformableAttention(), ATTENTION),
    "nn.Downsample": (nn.Downsample(2), {"input": IMAGE}),
    "nn.GridSample": (nn.GridSample(), {"input": IMAGE, "grid": GRID}),
    "nn.Pyramid": (nn.Pyramid(1), {"input": IMAGE}),
    "nn.SoftmaxSplat": (
        nn.SoftmaxSplat(),
        {"input": IMAGE, "flow": IMAGE[:, :2], "metric": IMAGE[:, :1]},
    ),
    "nn.Table": (nn.Table([[0.0, 1.0], [0.0, 2.0]], torch.ones(2, 2)), {"points": GRID}),
    "nn.Upsample": (nn.Upsample(9), {"input": IMAGE}),
}

ARRAYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "masked": (np.ma.masked_array, "masked array"),
    "scipy.sparse": (lambda a: scipy.sparse.csr_array(a.reshape(-1, a.shape[-1])), "sparse array"),
}
TENSORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sparse": (lambda t: t.to_sparse(), "layout torch.sparse_coo"),
    "mkldnn": (lambda t: t.float().to_mkldnn(), "layout torch._mkldnn"),
    "nested": (lambda t: torch.nested.nested_tensor(list(t)), "nested"),
    "jagged": (lambda t: torch.nested.nested_tensor(list(t), layout=torch.jagged), "nested"),
    "quantized": (
        lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
        "quantized",
    ),
    "masked tensor": (lambda t: torch.masked.masked_tensor(t, t > 0), "masked tensor"),
}
# NumPy alone: a tensor in an array's place is not accepted, or taken as an array.
OF_NUMPY = ("cv.", "explain")


def cases() -> Iterator[Any]:
    for table, kinds in ((CALLS, ARRAYS), (CALLS | OF_TORCH, TENSORS)):
        for name, (_, arguments) in table.items():
            if kinds is TENSORS and name.startswith(OF_NUMPY):
                continue
            for argument, value in arguments.items():
                if isinstance(value, np.ndarray):
                    for kind in kinds:
                        if value.ndim == 1 and kind in ("nested", "jagged"):
                            continue  # there is none of numbers
                        if value.ndim > 5 and kind == "mkldnn":
                            continue  # it has up to 5 axes
                        if (name, kind) == ("torch_compat.interpolate", "quantized"):
                            continue  # torch resizes them
                        yield pytest.param(name, argument, kind, id=f"{name} {argument} {kind}")


def as_tensors(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for key, value in arguments.items()
    }


def test_every_public_function_is_called() -> None:
    public = {
        **{name: getattr(gridsample, name) for name in gridsample.__all__},
        **{f"ndimage.{name}": getattr(ndimage, name) for name in ndimage.__all__},
        **{f"cv.{name}": getattr(cv, name) for name in cv.__all__},
        **{f"operators.{name}": getattr(operators, name) for name in operators.__all__},
    }
    functions = {name for name, member in public.items() if inspect.isfunction(member)}
    assert functions - {"help", "identity_grid", "warmup"} == CALLS.keys()
    modules = {f"nn.{name}" for name in nn.__all__}
    # These begin with layers of torch's own.
    assert modules - {"nn.PatchDownsample", "nn.SpatialTransformer"} <= OF_TORCH.keys()


@pytest.mark.filterwarnings(
    "ignore:.*prototype.*", "ignore:Sparse.*", "ignore:.*quantize", "ignore:.*for MaskedTensor"
)
@pytest.mark.parametrize(("name", "argument", "kind"), [*cases()])
def test_arrays_that_are_not_dense_are_rejected(name: str, argument: str, kind: str) -> None:
    function, arguments = (CALLS | OF_TORCH)[name]
    make, words = (ARRAYS | TENSORS)[kind]
    arguments = dict(arguments) if kind in ARRAYS else as_tensors(arguments)
    arguments[argument] = make(arguments[argument])
    # The drop-in raises torch's own error, to which a note is added.
    error = Exception if name.startswith("torch_compat.") else TypeError
    with pytest.raises(error, match=f"{argument} is a .*{words}.*convert it first: {argument}\\."):
        function(**arguments)


@pytest.mark.filterwarnings("ignore:.*quantize")
def test_torch_resizes_quantized_tensors() -> None:
    """The drop-in resizes them, too."""
    image = torch.quantize_per_tensor(torch.from_numpy(IMAGE), 1.0, 0, torch.quint8)
    result, expected = (
        function(image, size=(4, 6), mode="bilinear")
        for function in (torch_compat.interpolate, torch.nn.functional.interpolate)
    )
    assert torch.equal(result.int_repr(), expected.int_repr())


@pytest.mark.parametrize("name", CALLS)
def test_flags_must_be_bool(name: str) -> None:
    function, arguments = CALLS[name]
    ours = not name.startswith(("ndimage.", "cv."))  # SciPy accepts any object as a flag
    for flag, parameter in inspect.signature(function).parameters.items():
        if ours and isinstance(parameter.default, bool):
            named = flag == "extrapolate"  # the end of an image may also have a name
            message = (
                "'no' is neither True, False nor a name; accepted: 'edges'"
                if named
                else "must be True or False, got 'no'"
            )
            with pytest.raises(ValueError if named else TypeError, match=f"{flag} {message}"):
                function(**arguments, **{flag: "no"})


def test_flags_of_grid_functions_must_be_bool() -> None:
    for function in (gridsample.identity_grid, torch_compat.affine_grid):
        first = MAPS if function is torch_compat.affine_grid else OUT
        with pytest.raises(TypeError, match="align_corners must be True or False"):
            function(*((torch.from_numpy(MAPS), OUT) if first is MAPS else (OUT,)), "no")  # type: ignore[arg-type]


OUTSIDE = {"fill_value": {"padding_mode": "constant"}, "cval": {}, "borderValue": {}}


@pytest.mark.parametrize("name", CALLS)
def test_fill_values_that_require_gradients_are_rejected(name: str) -> None:
    function, call = CALLS[name]
    constant = torch.ones((), requires_grad=True)
    for key in OUTSIDE.keys() & inspect.signature(function).parameters.keys():
        numpy_only = name.startswith(OF_NUMPY)
        for arguments in (call, *(() if numpy_only else (as_tensors(call),))):
            with pytest.raises(TypeError, match=f"{key} is a tensor that requires a gradient"):
                function(**{**arguments, **OUTSIDE[key], key: constant})


NOT_NUMBERS: list[Any] = [
    None,
    "x",
    np.ones(1),
    np.ones(5),
    [1.0],
    np.ma.masked,
    torch.ones(2),
    np.broadcast_to(np.ones(()), (2**41,)),
]


@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith("ndimage.")])
@pytest.mark.parametrize("cval", NOT_NUMBERS, ids=lambda value: str(np.shape(value)))
def test_fill_values_must_be_numbers(name: str, cval: Any) -> None:
    """The error is the same for every function and mode, even if the value is not needed."""
    function, arguments = CALLS[name]
    if "cval" in inspect.signature(function).parameters:
        for mode in ("constant", "nearest"):
            with pytest.raises(TypeError, match=r"cval (must be a number, got|is a masked array)"):
                function(**arguments, mode=mode, cval=cval)


@pytest.mark.slow
def test_scalars_of_every_library_are_accepted() -> None:
    for seven in (7, np.float32(7), np.int8(7), np.array(7), torch.tensor(7)):
        result = ndimage.shift(PLANE, (6, 1), order=1, cval=seven)
        np.testing.assert_array_equal(result[0], 7)


def test_output_arrays_must_be_dense() -> None:
    masked = np.ma.masked_array(VALUES, VALUES > 0)
    with pytest.raises(TypeError, match="out is a masked array"):
        gridsample.grid_sample(IMAGE, GRID, out=masked)
    with pytest.raises(TypeError, match="dst is a masked array"):
        cv.resize(PLANE, (6, 4), dst=masked[0, 0])
    with pytest.raises(TypeError, match="output is a masked array"):
        ndimage.zoom(PLANE, 2, output=masked)


@pytest.mark.parametrize("shape", [(2**41,), (1, 2**41)])
def test_fill_values_of_the_wrong_shape_are_rejected(shape: tuple[int, ...]) -> None:
    value = np.broadcast_to(np.float32(1), shape)
    with pytest.raises(ValueError, match="borderValue must be a number or up to four"):
        cv.remap(PLANE, PLACES, PLACES, 1, borderValue=value)


@pytest.mark.parametrize("name", CALLS)
def test_tensors_that_require_gradients_are_rejected_among_arrays(name: str) -> None:
    function, arguments = CALLS[name]
    arrays = [key for key, value in arguments.items() if isinstance(value, np.ndarray)]
    for key in arrays[1:] if len(arrays) > 1 else ():
        tensor = torch.from_numpy(arguments[key]).requires_grad_()
        with pytest.raises(TypeError, match="tensor"):
            function(**{**arguments, key: tensor})


@pytest.mark.parametrize("name", CALLS)
def test_mixed_libraries_are_rejected(name: str) -> None:
    function, arguments = CALLS[name]
    arrays = [key for key, value in arguments.items() if isinstance(value, np.ndarray)]
    if name.startswith((*OF_NUMPY, "ndimage.")) or len(arrays) < 2:
        return
    for key in arrays:
        with pytest.raises(TypeError, match=r"(\w+) = torch.as_tensor\(\1, device=\w+.device"):
            function(**{**arguments, key: torch.from_numpy(arguments[key])})


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_images_can_be_resized(dtype: str) -> None:
    """The drop-in resizes them, too, although torch's own function rejects them."""
    rng = np.random.default_rng(0)
    parts = [torch.from_numpy(rng.standard_normal((1, 2, 5, 7))) for _ in range(2)]
    image = torch.complex(*parts).to(getattr(torch, dtype))
    for function in (gridsample.interpolate, torch_compat.interpolate):
        result = function(image, size=(8, 3), mode="bicubic", antialias=True)
        expected = [function(part, size=(8, 3), mode="bicubic", antialias=True) for part in parts]
        torch.testing.assert_close(result, torch.complex(*expected).to(image.dtype))


POINTS = np.random.default_rng(1).integers(-2, 9, (2, 4, 6, 2))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "uint8", "uint32"])
def test_integer_grids_are_pixel_coordinates(library: str, dtype: str) -> None:
    integers = np.abs(POINTS).astype(dtype) if dtype[0] == "u" else POINTS.astype(dtype)
    real = integers.astype(np.float64 if integers.itemsize > 2 else np.float32)
    values, image = VALUES, IMAGE
    if library == "torch":
        integers, real, values, image = map(torch.from_numpy, (integers, real, values, image))
    options: dict[str, Any] = {"mode": "cubic", "padding_mode": "mirror", "coords": "pixel"}
    for call in (
        lambda grid: gridsample.grid_sample(image, grid, **options),
        lambda grid: gridsample.grid_sample_vjp(values, image, grid, need_grid=False, **options)[0],
        lambda grid: gridsample.grid_gradient(image, grid, **options),
        lambda grid: gridsample.grid_hessian(image, grid, **options),
        lambda grid: gridsample.splat(values, grid, (5, 7), **options),
        lambda grid: gridsample.splat_count(grid, (5, 7), **options),
    ):
        np.testing.assert_array_equal(call(integers), call(real))
    with pytest.raises(TypeError, match="no gradient; pass need_grid=False"):
        gridsample.grid_sample_vjp(values, image, integers, **options)
    for coords in ("normalized", "displacement"):
        with pytest.raises(TypeError, match="integers with coords='pixel'"):
            gridsample.grid_sample(image, integers, coords=coords)
    with pytest.raises(TypeError, match=r"grid has dtype .*bool; accepted"):
        gridsample.grid_sample(image, real > 2, coords="pixel")
