"""What the caller of a public function asks for, beside the arrays: one record, nothing checked.

`shared` returns one object for all equal requests, so that what depends on a request (checked
options, prepared calls) is found by it as quickly as by a number.  A request therefore equals and
hashes as the object that it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from gridsample.definitions.boundaries import has_missing
from gridsample.definitions.caches import cached_call
from gridsample.definitions.footprints import ATTACH, MAX_SAMPLES
from gridsample.definitions.plan import OutputBlock

Record = TypeVar("Record", bound=tuple[Any, ...])


def found_by_identity(record: type[Record]) -> type[Record]:
    """Decorate a class of tuples that equal only themselves."""
    record.__eq__ = object.__eq__  # type: ignore[method-assign]
    record.__hash__ = object.__hash__  # type: ignore[method-assign]
    return record


@found_by_identity
class Request(NamedTuple):
    """The options of sampling as the caller gives them; see `gridsample.grid_sample`.

    Attributes:
        mode, padding_mode, align_corners, coords, fill_value, extrapolate, prefilter, antialias,
            max_samples, footprint, missing, min_weight, return_mask, return_weight, channel_axis,
            threads: arguments of public functions; the default for one that a function lacks.
        block: which part of a larger output the points are; None if they are all of it.
        level: how often the image has been halved; see `gridsample.definitions.footprints`.
        wide: whether to compute in float64 even if the image and the grid are float32.
        order: the order of the derivative along each axis, x first; () for samples.
    """

    mode: Any = "bilinear"
    padding_mode: Any = "zeros"
    align_corners: bool = False
    coords: Any = "normalized"
    fill_value: Any = 0
    extrapolate: Any = True
    prefilter: bool = True
    antialias: bool = False
    max_samples: int = MAX_SAMPLES
    footprint: str = ATTACH
    missing: str = "propagate"
    min_weight: float = 0.0
    return_mask: bool = False
    return_weight: bool = False
    channel_axis: int = 1
    threads: int | None = None
    block: OutputBlock | None = None
    level: int | None = None
    wide: bool = False
    order: tuple[int, ...] = ()

    def changed(self, **fields: Any) -> Request:
        """Return a copy with other values in some fields."""
        return changed(self, **fields)

    def is_plain(self) -> bool:
        """Whether all pixels count alike, and the samples are the only result."""
        return (
            self.missing == "propagate"
            and type(self.min_weight) in (float, int)
            and self.min_weight == 0
            and self.return_mask is False
            and self.return_weight is False
            and not has_missing(self.padding_mode)
        )


@found_by_identity
class ResizeRequest(NamedTuple):
    """The options of resizing as the caller gives them; see `gridsample.interpolate`.

    Attributes:
        mode, align_corners, recompute_scale_factor, antialias, rounding, missing, min_weight,
            return_weight, channel_axis, threads: arguments of public functions; the default for one
            that a function lacks.
    """

    mode: Any = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None
    antialias: bool = False
    rounding: str = "exact"
    missing: str = "propagate"
    min_weight: float = 0.0
    return_weight: bool = False
    channel_axis: int = 1
    threads: int | None = None

    def is_plain(self) -> bool:
        """Whether all pixels count alike, and the resized image is the only result."""
        return (
            self.missing == "propagate"
            and type(self.min_weight) in (float, int)
            and self.min_weight == 0
            and self.return_weight is False
        )


def changed(record: Record, **fields: Any) -> Record:
    """Return a copy of a named tuple with other values in some fields.

    Before torch 2.9, `torch.compile` does not support the method `_replace` of named tuples.
    """
    record_type: Any = type(record)
    values = zip(record_type._fields, record, strict=True)
    return record_type(*[fields.get(k, value) for k, value in values])  # type: ignore[no-any-return]


# The usual fill value: the object that is compared first.
NO_FILL = 0


def is_default_fill(fill_value: Any) -> bool:
    """Whether a fill value is the usual 0; others may be 0, too, but that is not obvious."""
    return type(fill_value) in (int, float) and not fill_value


def shared(request: Record) -> Record | None:
    """Return the one object for all requests with these values, of these types.

    It is None if a value cannot be the key of a cache: if it is not hashable, or an array.
    """
    try:
        kept: Record = _shared(type(request), *request)
    except TypeError:  # of `hash`, or for an array
        return None
    return kept


@cached_call(1024, typed=True)
def _shared(record: type[Record], *values: Any) -> Record:
    if any([getattr(value, "ndim", 0) for value in values]):
        raise TypeError("an array must not be kept")  # some can be hashed
    return record(*values)


def sampling_request(**options: Any) -> Request | None:
    """Return the shared request with these options, None if they are wrong or cannot be shared."""
    try:
        request: Request = request_of(Request, **options)
    except TypeError:  # of `hash`, or for a name that is no option
        return None
    return request


def without_fill(request: Request) -> Request | None:
    """Return the `shared` request with the usual fill value, as the key of a cache."""
    plain = type(request.fill_value) is int and not request.fill_value
    return shared(request if plain else request.changed(fill_value=0))


def as_request(options: Any) -> Request:
    """Return a request for which `checked` returns these checked options, without a fill value.

    Footprints are left out.
    """
    return Request(
        mode=options.mode,
        padding_mode=options.padding_mode,
        align_corners=options.align_corners,
        coords=options.coords,
        extrapolate=options.ends or True,
        prefilter=options.prefilter,
        threads=options.threads,
    )


@cached_call(512, typed=True)
def request_of(record: type[Record], *values: Any, **options: Any) -> Record:
    """Return the shared request of a record with these first values, and others by name.

    Raises:
        TypeError: a value cannot be the key of a cache.
    """
    request = shared(record(*values, **options))
    if request is None:
        raise TypeError("an array is not an option")
    return request
