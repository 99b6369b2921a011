"""The programs that gather: samples, and their derivatives of any order along each axis."""

from __future__ import annotations

from gridsample.kernels.sampling.layouts import storage_of
from gridsample.kernels.sampling.programs.body import Body
from gridsample.kernels.sampling.programs.groups import Strip, TaskRange
from gridsample.kernels.sampling.programs.loads import read_each, splat_of
from gridsample.kernels.sampling.programs.sampler import Description
from gridsample.kernels.sampling.programs.states import State
from gridsample.kernels.sampling.programs.ways import Copies
from gridsample.kernels.vector import Pointer, Value, kind_of


class Gather(Body):
    """Writes the loops of a gather."""

    @classmethod
    def arrays(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays, by name, in the order in which calls pass addresses."""
        return {
            "image": description.image,
            "grid": description.points.kind,
            "out": storage_of(description.values),
            **cls.fill_kinds(description),
            **cls.others(description),
        }

    @classmethod
    def fill_kinds(cls, description: Description) -> dict[str, str]:
        """Return the kinds of the arrays with a value for each plane, by name.

        They are the results of points that are outside of the image; the value of taps that are
        dropped; and the results of points with coordinates that are NaN or infinite.
        """
        kind = kind_of(description.image).loaded.name
        copied = description.way is Copies or description.operation.endswith("labels")
        kind = kind if copied else description.real
        return dict.fromkeys(("outside", "dropped", "invalid"), kind)

    @classmethod
    def others(cls, description: Description) -> dict[str, str]:
        """Return the kinds of further arrays, by name."""
        return {}

    def write_blocks(self, part: TaskRange) -> None:
        """Write the loops of a range of a block, or of the block that begins with its planes."""
        call, far = self.call, self.points.far_apart(part)
        end = far.select(part.plane_end, (part.plane + call.planes_near).minimum(call.planes))
        with self.function.when(far | (part.plane % call.planes_near == 0)):
            self.write_range(part._replace(plane_end=end))

    def process_plane(self, strip: Strip, plane: Value, end: Value) -> None:
        """Sample one plane at the points of a strip."""
        source = self.image.plane(strip, plane)
        target = self.call.out.at(self.call.out_planes.load(plane))
        fills = self.fills(plane)
        with self.prefetch.groups(strip) as (number, group):
            value = self.value(self.states.load(number), source, fills)
            self.points.store_values(group, target, self.stored(value))

    def fills(self, plane: Value) -> dict[str, Value]:
        """Read the fill values of a plane, in all lanes.

        They are those of points outside, of dropped taps and of invalid points; the first two are 0
        unless the call has a fill value.
        """
        function, call, fills = self.function, self.call, {}
        for name in self.fill_kinds(self.description):
            if self.description.tap_rule.filled or name not in ("outside", "dropped"):
                fills[name] = splat_of(function, getattr(call, name), plane)
            else:
                fills[name] = function.constant(0, getattr(call, name).kind, function.lanes)
        return fills

    def value(self, state: State, source: Pointer, fills: dict[str, Value]) -> Value:
        """Compute the results of a group in one plane."""
        return self.filled(state, self.total(state, source, fills), fills)

    def filled(self, state: State, value: Value, fills: dict[str, Value]) -> Value:
        """Return results with fill values where points are outside or invalid."""
        if state.outside is not None:
            value = state.outside.select(fills["outside"], value)
        return state.valid.select(value, fills["invalid"])

    def total(self, state: State, source: Pointer, fills: dict[str, Value]) -> Value:
        """Sum the taps of a group in one plane."""
        if isinstance(self.sampler, Copies):
            return self.copies(state, source, fills["outside"])
        order = (0,) * len(self.description.axes)
        taps = self.sampler.prepare(state, 0, None)
        return self.sampler.tap_sums(taps, source, fills["dropped"], [order])[order]

    def copies(self, state: State, source: Pointer, outside: Value) -> Value:
        """Return the copied pixels of a group, which are not read if all points are outside."""
        if state.outside is None:
            return read_each(source, state.first)
        (value,) = self.function.choose(
            state.outside.all(),
            lambda: [outside],
            lambda: [read_each(source, state.first)],
            likely=False,
        )
        return value

    def stored(self, value: Value) -> Value:
        """Convert sums to the kind of the results."""
        kind = kind_of(self.description.values)
        return value.round_to(kind).to(storage_of(kind.name))
