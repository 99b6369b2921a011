"""The contenders: gridsample and its peers.

A peer is a function that makes a `Contender` from a case.  It returns None if the library does not
have the operation, or defines it differently.  Drop-ins are called by the same code as the
functions that they replace.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cases import TINY, Case, Inputs, highest, perspective, pixel_matrix, positions
from tests import cases

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]
Call = Callable[[], Any]

OPENCV_NAMES = ("remap", "warpAffine", "warpPerspective")


class Missing(Exception):
    """A contender lacks the function of a case."""


@dataclass(frozen=True)
class Contender:
    """A call, and how its results are compared.

    Attributes:
        call: what is timed.
        read: makes its result arrays: the output (N, C, *out), or the gradients of the image and of
            the grid; float64.
        tolerance: the largest difference from our numbers, relative to the greatest of them.
        outliers: the share of numbers that may differ by more, besides ties.
        why: the reason for a tolerance of more than rounding.
        clock: times a number of calls in another process; None for calls in this one.
    """

    call: Call
    read: Callable[[Any], Arrays]
    tolerance: float = 0.0
    outliers: float = 0.0
    why: str = ""
    clock: Callable[[int], float] | None = None


def misplaced(case: Case) -> float:
    """The largest difference of positions, in pixels: a few halves of an ulp of the size."""
    ulp = 2.0**-53 if case.real == "float64" else 2.0**-24
    return 4 * max(*case.shape[2:], *case.out) * ulp


def rounding(case: Case) -> float:
    """The largest difference that rounding explains, relative to the range.

    A value changes by at most the image's range from one pixel to the next, by more with cubic
    weights; then it is rounded to the dtype of the output.
    """
    stored = {"uint8": 1 / 255, "uint16": 1 / 65535, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(
        case.dtype, 0.0
    )
    steepness = 1 if case.mode in ("nearest", "linear") else 4
    return misplaced(case) * steepness + 1.01 * stored


def ties(case: Case) -> float:
    """The share of numbers that may differ by more: both sides of a tie or an edge are correct.

    It is the share of positions that rounding can move to the next pixel, where nearest selects
    another pixel, and slopes change.
    """
    return max(1e-4, 2 * case.rank * misplaced(case))


# Reading results ----------------------------------------------------------------------------------


def read_arrays(case: Case) -> Callable[[Any], Arrays]:
    """Read arrays, channels first or last: an output, or gradients of which some are None."""

    def read(result: Any) -> Arrays:
        results = result if isinstance(result, tuple) else (result,)
        arrays = [np.asarray(a, np.float64) for a in results if a is not None]
        if case.last and case.direction != "grid":
            arrays[0] = np.moveaxis(arrays[0], -1, 1)
        return tuple(arrays)

    return read


def read_tensors(result: Any) -> Arrays:
    """Read tensors, whose channels are the second axis in every memory format."""
    results = result if isinstance(result, tuple) else (result,)
    return tuple(tensor.detach().double().numpy() for tensor in results)


def read_picture(result: Any) -> Arrays:
    """Read an array (H, W) or (H, W, C)."""
    picture = np.asarray(result, np.float64)
    picture = picture[..., np.newaxis] if picture.ndim == 2 else picture
    return (np.moveaxis(picture, -1, 0)[np.newaxis],)


def read_plane(result: Any) -> Arrays:
    """Read one channel of one item."""
    return (np.asarray(result, np.float64)[np.newaxis, np.newaxis],)


# Calls that two libraries share -------------------------------------------------------------------


def picture_of(case: Case, inputs: Inputs) -> Array:
    """(H, W, C), or (H, W) of one channel."""
    picture = np.ascontiguousarray(np.moveaxis(inputs.image[0], 0, -1))
    return picture[..., 0] if case.shape[1] == 1 else picture


def skimage_call(module: Any, case: Case, inputs: Inputs) -> Contender:
    """The function `resize` of a module with scikit-image's names, on one plane."""
    image = inputs.image[0, 0]
    shape = tuple(round(n * case.factor) for n in image.shape)
    options = {"order": 3 if case.mode == "spline3" else 1, "mode": "edge", "anti_aliasing": False}
    return Contender(lambda: module.resize(image, shape, **options), read_plane, 1e-5)


def opencv_call(module: Any, case: Case, inputs: Inputs) -> Contender:
    """`remap`, `warpAffine` or `warpPerspective` of a module with OpenCV's names."""
    picture, (height, width) = picture_of(case, inputs), case.out
    flags = getattr(module, f"INTER_{case.mode.upper()}")
    if case.operation in ("warpAffine", "warpPerspective"):
        perspective_warp = case.operation == "warpPerspective"
        matrix = perspective(case, inputs) if perspective_warp else pixel_matrix(case, inputs)
        warp, flags = getattr(module, case.operation), flags | module.WARP_INVERSE_MAP
        return Contender(lambda: warp(picture, matrix, (width, height), flags=flags), read_picture)
    points = positions(case, inputs)[0].astype(np.float32)
    x, y = np.ascontiguousarray(points[..., 0]), np.ascontiguousarray(points[..., 1])
    return Contender(lambda: module.remap(picture, x, y, flags), read_picture)


def scipy_call(module: Any, case: Case, inputs: Inputs) -> Contender:
    """An interpolation function of a module with SciPy's names, on one plane."""
    image = inputs.image[0, 0]
    options = {"order": {"nearest": 0, "linear": 1, "spline3": 3}[case.mode], "mode": "mirror"}
    arguments: tuple[Any, ...]
    if case.operation == "zoom":
        arguments = (case.factor,)
    elif case.operation == "affine_transform":
        matrix = pixel_matrix(case, inputs)
        arguments = (matrix[::-1, -2::-1], matrix[::-1, -1])
    else:
        arguments = (scipy_coordinates(case, inputs),)
    function = getattr(module, case.operation)
    return Contender(lambda: function(image, *arguments, **options), read_plane)


def scipy_coordinates(case: Case, inputs: Inputs, dtype: str = "float64") -> Array:
    """Positions of the first item, (D, *out), along the image's axes in their order."""
    points = positions(case, inputs)[0, ..., ::-1]
    return np.ascontiguousarray(np.moveaxis(points, -1, 0), dtype)


Sampler = Callable[[Any, Any], Any]


def tensor_call(case: Case, image: Any, points: Any, inputs: Inputs, sample: Sampler) -> Contender:
    """A direction of ``sample(image, where)``, ``where`` being a grid or a theta."""
    import torch

    def tensor(array: Array, like: Any) -> Any:
        return torch.from_numpy(array).to(like.dtype).reshape(like.shape)

    direction = case.direction
    if direction == "forward":
        return Contender(lambda: sample(image, points), read_tensors)
    if direction == "jvp":
        tangents = tensor(inputs.d_image, image), tensor(inputs.d_grid, points)
        # Torch 2.13 has no forward mode here: its jvp is the reverse of a reverse.
        has_forward_mode = getattr(sample, "forward_mode", True)
        jvp = torch.func.jvp if has_forward_mode else torch.autograd.functional.jvp
        return Contender(lambda: jvp(sample, (image, points), tangents), read_tensors)
    needs = {"input": (True, False), "grid": (False, True)}.get(direction, (True, True))
    leaves = [x.requires_grad_(need) for x, need in zip((image, points), needs, strict=True)]
    differentiated = [x for x in leaves if x.requires_grad]
    out = sample(*leaves)
    upstream = tensor(inputs.upstream, out)
    if direction == "double":
        upstream.requires_grad_()
        first_derivatives = torch.autograd.grad(out, leaves, upstream, create_graph=True)
        tangents = tensor(inputs.d_image, image), tensor(inputs.d_grid, points)
        return Contender(
            lambda: torch.autograd.grad(
                first_derivatives, (*leaves, upstream), tangents, retain_graph=True
            ),
            read_tensors,
        )
    if direction == "step":
        return Contender(
            lambda: torch.autograd.grad(sample(*leaves), leaves, upstream), read_tensors
        )
    return Contender(
        lambda: torch.autograd.grad(out, differentiated, upstream, retain_graph=True), read_tensors
    )


def as_tensor(array: Array, case: Case) -> Any:
    """A tensor of the case's dtype that shares the array's memory; bfloat16 is a copy."""
    import torch

    tensor = torch.from_numpy(array).detach()
    return tensor.bfloat16() if case.dtype == "bfloat16" else tensor


# gridsample ---------------------------------------------------------------------------------------


def ours(case: Case, inputs: Inputs, threads: int) -> Contender:
    """The case on gridsample.

    Raises:
        Missing: the library lacks the function of the case.
    """
    import gridsample

    if case.operation in OPENCV_NAMES:
        from gridsample import cv

        return opencv_call(cv, case, inputs)
    if case.operation in ("map_coordinates", "affine_transform", "zoom"):
        from gridsample import ndimage

        return scipy_call(ndimage, case, inputs)
    if case.operation == "skimage":
        from gridsample import skimage

        return skimage_call(skimage, case, inputs)
    names = {"sample": "grid_sample", "affine": "affine_sample", "resize": "interpolate"}
    function = getattr(gridsample, names[case.operation], None)
    if function is None:
        raise Missing(f"gridsample has no {names[case.operation]}")
    if case.tensors:
        import torch

        torch.set_num_threads(threads)
        image = as_tensor(inputs.image, case)
        if case.operation == "affine":
            theta, size = as_tensor(inputs.theta, case), (*case.shape[:2], *case.out)
            return tensor_call(
                case, image, theta, inputs, lambda i, t: function(i, t, size, mode=case.mode)
            )
        grid = as_tensor(inputs.grid, case)
        return tensor_call(
            case, image, grid, inputs, lambda i, g: function(i, g, case.mode, case.boundary)
        )
    return our_arrays(case, inputs, threads, function)


def our_arrays(case: Case, inputs: Inputs, threads: int, function: Any) -> Contender:
    """The case on arrays."""
    import gridsample

    image, upstream = inputs.image, inputs.upstream
    if case.last:
        image, upstream = np.moveaxis(image, 1, -1), np.moveaxis(upstream, 1, -1)
    options: dict[str, Any] = {"channel_axis": -1 if case.last else 1, "threads": threads}
    mode, grid, theta = case.mode, inputs.grid, inputs.theta
    size = (*case.shape[:2], *case.out)
    calls: dict[str, Call] = {
        "sample": lambda: function(image, grid, mode, case.boundary, **options),
        "affine": lambda: function(image, theta, size, mode=mode),
        "resize": lambda: function(image, case.out, mode=mode, **options),
    }
    call = calls[case.operation]
    if case.direction != "forward":
        needs = {"need_input": case.direction != "grid", "need_grid": case.direction != "input"}

        def call() -> Any:
            return gridsample.grid_sample_vjp(
                upstream, image, grid, mode, case.boundary, **needs, **options
            )

    return Contender(call, read_arrays(case))


# Peers --------------------------------------------------------------------------------------------


def torchs(case: Case, inputs: Inputs, threads: int) -> Contender | None:
    """torch: `grid_sample`, `affine_grid` and `grid_sample`, or `interpolate`.

    It rejects bytes.  Its half precision is wrong on CPUs: positions and memory offsets are rounded
    to half, so that it reads beyond the image (2.13.0).  Both are converted to float32, as its
    autocast does.
    """
    import torch
    from torch.nn import functional

    if case.operation not in ("sample", "affine", "resize"):
        return None
    names = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
    if case.mode not in names or (case.mode == "cubic" and case.rank == 3):
        return None
    torch.set_num_threads(threads)
    mode, image = names[case.mode], as_tensor(inputs.image, case)
    if case.operation == "resize":
        mode = "trilinear" if case.rank == 3 else mode
        return Contender(
            lambda: functional.interpolate(image, case.out, mode=mode), read_tensors, rounding(case)
        )
    size = (*case.shape[:2], *case.out)

    def sample(image: Any, points: Any) -> Any:
        if case.operation == "affine":
            points = functional.affine_grid(points, size, align_corners=False)
        return functional.grid_sample(image, points, mode, case.boundary, align_corners=False)

    def sample_as_single(image: Any, points: Any) -> Any:
        out = sample(image.float(), points.float())
        return out.clamp_(0, 255).round_().byte() if case.dtype == "uint8" else out.to(image.dtype)

    widened = case.dtype in ("uint8", "float16", "bfloat16")
    grid = inputs.theta if case.operation == "affine" else torch_grid(case, inputs.grid)
    image = image.unsqueeze(2) if case.rank == 1 else image
    call: Any = sample_as_single if widened else sample
    call.forward_mode = False
    contender = tensor_call(case, image, as_tensor(grid, case), inputs, call)

    def read(result: Any) -> Arrays:
        return ours_of_torch(case, inputs, read_tensors(result))

    return Contender(contender.call, read, rounding(case) * len(case.shape))


def torch_grid(case: Case, grid: Array) -> Array:
    """A grid with as many output axes as the image, which torch requires; lines become planes."""
    if case.rank == 1:
        x = grid[:, np.newaxis, :, 0]
        return np.stack([x, 0 * x], axis=-1)
    missing = case.rank + 2 - grid.ndim
    return grid.reshape(*grid.shape[:-1], *(1,) * missing, grid.shape[-1])


def ours_of_torch(case: Case, inputs: Inputs, results: Arrays) -> Arrays:
    """Torch's results in the shapes of ours."""
    if case.rank > 1 and not case.points:
        return results
    shapes = {inputs.image.size: inputs.image.shape, inputs.upstream.size: inputs.upstream.shape}
    return tuple(
        array[..., 0].reshape(inputs.grid.shape)
        if case.rank == 1 and array.shape[-1] == 2
        else array.reshape(shapes.get(array.size, inputs.grid.shape))
        for array in results
    )


def opencvs(case: Case, inputs: Inputs, threads: int) -> Contender | None:
    """OpenCV: one picture of up to four channels."""
    import cv2

    picture = case.rank == 2 and case.shape[0] == 1 and case.shape[1] <= 4 and not case.points
    interleaved = case.last or case.shape[1] == 1
    operation = case.operation in OPENCV_NAMES or (
        case.operation == "sample" and case.boundary == "zeros"
    )
    supported = operation and case.dtype in ("uint8", "uint16", "float32")
    if not (picture and interleaved and supported) or case.tensors or case.direction != "forward":
        return None
    cv2.setNumThreads(threads)
    contender = opencv_call(cv2, case, inputs)
    if int(cv2.__version__.split(".")[0]) >= 5 and case.mode != "lanczos4":
        return Contender(contender.call, contender.read, rounding(case))
    # Each of two fractions is off by up to 1/64; cubic weights are up to 1.6 times as steep.
    coarse = {"nearest": 0.0, "linear": 2 / 64}.get(case.mode, 1.6 * 2 / 64)
    outliers = 4 / 64 if case.mode == "nearest" else 0.0
    why = "fractions are rounded to 1/32 of a pixel, by OpenCV 5 under Lanczos only"
    return Contender(contender.call, contender.read, rounding(case) + coarse, outliers, why)


def scipys(case: Case, inputs: Inputs, threads: int) -> Contender | None:
    """SciPy's interpolation functions, each channel by itself; it uses one thread."""
    from scipy import ndimage

    if case.operation in ("map_coordinates", "affine_transform", "zoom"):
        contender = scipy_call(ndimage, case, inputs)
        tolerance = 1e-9 if case.dtype == "float64" else rounding(case)
        return Contender(contender.call, contender.read, tolerance)
    if not plain_sampling(case) or case.direction != "forward" or case.dtype == "uint8":
        return None
    order, coordinates = ("nearest", "linear").index(case.mode), scipy_coordinates(case, inputs)
    planes = list(map(np.ascontiguousarray, inputs.image[0]))

    def call() -> Array:
        return np.stack(
            [
                ndimage.map_coordinates(plane, coordinates, order=order, mode="grid-constant")
                for plane in planes
            ]
        )

    return Contender(call, lambda out: (out[np.newaxis].astype(float),), rounding(case))


def plain_sampling(case: Case) -> bool:
    """Few channels of one image of two or three axes, nearest or linear: every peer has these."""
    few = case.shape[0] == 1 and case.shape[1] <= 3 and case.rank > 1
    sampled = case.operation == "sample" and case.mode in ("nearest", "linear")
    sampled = sampled and case.boundary == "zeros"
    return few and sampled and not case.last and not case.tensors and case.shape != TINY


def jaxs(case: Case, inputs: Inputs, threads: int) -> Contender | None:
    """JAX's `map_coordinates`, compiled, mapped over channels; with its gradients."""
    named = case.operation == "map_coordinates" and case.mode != "spline3"
    if not (named or plain_sampling(case)) or case.dtype != "float32":
        return None
    if case.direction not in ("forward", "both"):
        return None
    import jax

    order = ("nearest", "linear").index(case.mode)
    mode = "mirror" if named else "constant"

    def sample(image: Any, coordinates: Any) -> Any:
        map_coordinates = jax.scipy.ndimage.map_coordinates
        return jax.vmap(lambda plane: map_coordinates(plane, list(coordinates), order, mode))(image)

    def gradients(image: Any, coordinates: Any, upstream: Any) -> Any:
        return jax.vjp(sample, image, coordinates)[1](upstream)

    arguments = [
        jax.numpy.asarray(np.ascontiguousarray(array))
        for array in (
            inputs.image[0],
            scipy_coordinates(case, inputs, "float32"),
            inputs.upstream[0],
        )
    ]
    if case.direction == "forward":
        compiled, arguments = jax.jit(sample), arguments[:2]
    else:
        compiled = jax.jit(gradients)

    def read(result: Any) -> Arrays:
        if case.direction == "forward":
            return (np.asarray(result, np.float64)[np.newaxis],)
        image, grid_gradient = (np.asarray(array, np.float64)[np.newaxis] for array in result)
        return image, per_coordinate(case, np.moveaxis(grid_gradient, 1, -1))

    return Contender(lambda: jax.block_until_ready(compiled(*arguments)), read, 4 * rounding(case))


def per_coordinate(case: Case, gradient: Array) -> Array:
    """Convert a gradient along positions (z, y, x) to one along coordinates (x, y, z)."""
    return gradient[..., ::-1] * (np.array(case.shape[:1:-1], float) / 2)


def skimages(case: Case, inputs: Inputs, threads: int) -> Contender | None:
    """scikit-image's `resize`, and `warp` by a matrix or, for one channel, by coordinates."""
    if case.operation == "skimage":
        import skimage.transform

        return skimage_call(skimage.transform, case, inputs)
    gray = case.operation == "sample" and plain_sampling(case) and case.shape[1] == 1
    picture = case.rank == 2 and case.direction == "forward" and case.mode in ("nearest", "linear")
    if not picture or not (gray or case.operation == "warpAffine"):
        return None
    from skimage.transform import warp

    image, order = picture_of(case, inputs), ("nearest", "linear").index(case.mode)
    if case.operation == "warpAffine":
        inverse_map = np.concatenate([pixel_matrix(case, inputs), [[0.0, 0.0, 1.0]]])
    else:
        inverse_map = scipy_coordinates(case, inputs)
    return Contender(
        lambda: warp(image, inverse_map, order=order, preserve_range=True, clip=False),
        read_picture,
        rounding(case),
        why="bytes are not rounded" if case.dtype == "uint8" else "",
    )


def interpols(case: Case, inputs: Inputs, threads: int) -> Contender | None:
    """torch-interpol's `grid_pull`, whose grids are in pixels and in z, y, x."""
    sampled = case.operation == "sample" and case.mode in ("nearest", "linear") and case.rank > 1
    sampled = (
        sampled
        and case.boundary == "zeros"
        and not (case.last or case.tensors or case.points)
        and case.direction in ("forward", "both")
    )
    named = case.operation == "map_coordinates"
    largest = (
        3.5e6 if case.direction == "forward" else 1.1e6
    )  # pixels: beyond that it takes seconds
    if not (sampled or named) or case.dtype != "float32" or math.prod(case.shape) > largest:
        return None
    import interpol
    import torch

    torch.set_num_threads(threads)
    options = {
        "interpolation": {"nearest": 0, "linear": 1, "spline3": 3}[case.mode],
        "bound": "dct1" if named else "zero",
        "extrapolate": True,
        "prefilter": named,
    }
    pixel_grid = torch.from_numpy(
        np.ascontiguousarray(positions(case, inputs)[..., ::-1], np.float32)
    )

    def sample(image: Any, grid: Any) -> Any:
        return interpol.grid_pull(image, grid, **options)

    contender = tensor_call(case, as_tensor(inputs.image, case), pixel_grid, inputs, sample)

    def read(result: Any) -> Arrays:
        first, *rest = read_tensors(result)
        return first, *(per_coordinate(case, gradient) for gradient in rest)

    return Contender(contender.call, read, 4 * rounding(case))


@dataclass(frozen=True)
class Peer:
    """A library.

    Attributes:
        module: the name of the imported module.
        package: the name of the installed package, whose version is reported.
        make: makes the contender of a case.
    """

    module: str
    package: str
    make: Callable[[Case, Inputs, int], Contender | None]

    @property
    def version(self) -> str | None:
        """The installed version; None if it is not installed."""
        if importlib.util.find_spec(self.module) is None:
            return None
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return str(getattr(importlib.import_module(self.module), "__version__", "unknown"))


PEERS = {
    "torch": Peer("torch", "torch", torchs),
    "OpenCV": Peer("cv2", "opencv-python-headless", opencvs),
    "SciPy": Peer("scipy", "scipy", scipys),
    "JAX": Peer("jax", "jax", jaxs),
    "scikit-image": Peer("skimage", "scikit-image", skimages),
    "torch-interpol": Peer("interpol", "torch-interpol", interpols),
}


def truth(case: Case, inputs: Inputs) -> Array | None:
    """The output computed by torch in float64; None where torch lacks the operation."""
    sampled = case.operation in ("sample", "affine", "remap", "warpAffine")
    unknown = case.mode not in ("nearest", "linear", "cubic") or (
        case.mode == "cubic" and case.rank == 3
    )
    if PEERS["torch"].version is None or case.direction != "forward" or not sampled or unknown:
        return None
    import torch

    grid = torch_grid(case, inputs.grid.astype(np.float64))
    if case.operation == "remap":  # whose maps are rounded to float32
        points = positions(case, inputs).astype(np.float32).astype(np.float64)
        grid = cases.coordinates(points, case.shape[2:], False)
    if case.operation in ("affine", "warpAffine"):
        theta, size = (
            torch.from_numpy(inputs.theta.astype(np.float64)),
            (*case.shape[:2], *case.out),
        )
        grid = torch.nn.functional.affine_grid(theta, size, align_corners=False).numpy()
    image = torch.from_numpy(inputs.image.astype(np.float64))
    image = image.unsqueeze(2) if case.rank == 1 else image
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(case.mode, case.mode)
    out = torch.nn.functional.grid_sample(
        image, torch.from_numpy(grid), mode, case.boundary, align_corners=False
    )
    result: Array = out.numpy().reshape(inputs.upstream.shape)
    return result.clip(0, highest(case.dtype)) if case.dtype.startswith("uint") else result
