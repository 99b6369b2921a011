"use strict";
// One sample, as in explanation/tapwise.py.  The formulas of an axis come from definitions/axis.py
// (docs/site_formulas.py); TABLES holds the methods and boundaries of the package.

const FEW_FOLDS = 4;

function coordinate(p, size, aligned) {
  if (!aligned) return (2 * p + 1) / size - 1;
  return size > 1 ? (2 * p) / (size - 1) - 1 : 0;
}

function edgeOf(boundary, aligned) {
  return boundary.edge === null ? (aligned ? 0 : 1) : boundary.edge;
}

const differentiated = (row) => [...row.slice(1).map((c, k) => c * (k + 1)), 0];

// An axis: `size` pixels, a method and a boundary by their names; coordinates may be in pixels.
function makeAxis(size, method, boundary, aligned, pixels) {
  const m = TABLES.methods[method], b = TABLES.boundaries[boundary];
  return {
    size, aligned, method: m, boundary: b, edge: edgeOf(b, aligned),
    slopes: m.table.map(differentiated),
    folds: m.folds && b.folds,
    scale: pixels ? 1 : aligned ? (size - 1) / 2 : size / 2,
  };
}

// The positions on the way to `end`, and the number of folds.
function trace(axis, p, end) {
  const path = [p];
  let folds = 0;
  if (axis.folds && axis.boundary.code === REFLECTION) {
    const low = -axis.edge / 2, high = axis.size - 1 + axis.edge / 2;
    if (low < high) {
      folds = Math.ceil(Math.max(low - p, p - high, 0) / (high - low));
      for (let k = 0; k < (folds <= FEW_FOLDS ? folds : 0); k++) {
        const at = path[path.length - 1];
        path.push(2 * (at < low ? low : high) - at);
      }
    }
  }
  if (path.length > 1 && Math.abs(path[path.length - 1] - end) <= 1e-6) path.pop();
  if (path[path.length - 1] !== end) path.push(end);
  return [path, folds];
}

// All steps from a position in pixels to the taps of an axis.
function follow(axis, p) {
  const last = axis.size - 1, reach = axis.method.table.length + 1, { method, boundary, edge, size } = axis;
  let code = boundary.code, end, sign = 1;
  if (axis.folds && code !== ZEROS) {
    [end, sign] = fold(p, last, reach, code, edge);
    code = ZEROS;
  } else end = confine(p, last, reach, code, edge);
  const [path, folds] = trace(axis, p, end), [base, t] = split(end, method.rounding);
  const taps = method.table.map((row, k) => {
    const index = base + method.first + k, odd = boundary.odd ? fold_sign(index, size, boundary.code, edge) : 1;
    return {
      index, pixel: fold_index(index, size, code, edge),
      weight: odd * weight(t, row, row.length), derivative: odd * weight(t, axis.slopes[k], row.length),
    };
  });
  return { position: p, path, folds, sign, base, t, taps, slope: sign * axis.scale };
}

// The solution of a system of linear equations, for several right-hand sides (columns).
function solve(matrix, columns) {
  const n = matrix.length, rows = matrix.map((row, i) => [...row, ...columns[i]]);
  for (let k = 0; k < n; k++) {
    let best = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[best][k])) best = i;
    [rows[k], rows[best]] = [rows[best], rows[k]];
    for (let i = 0; i < n; i++) {
      if (i === k) continue;
      const factor = rows[i][k] / rows[k][k];
      if (factor) for (let j = k; j < rows[i].length; j++) rows[i][j] -= factor * rows[k][j];
    }
  }
  return rows.map((row, k) => row.slice(n).map((v) => v / row[k]));
}

// The matrix from the coefficients of a line to the spline's values at its pixels.
function splineMatrix(axis) {
  const { size, method, boundary, edge } = axis;
  const matrix = Array.from({ length: size }, () => new Array(size).fill(0));
  for (let i = 0; i < size; i++) {
    method.table.forEach((row, k) => {
      const index = i + method.first + k, pixel = fold_index(index, size, boundary.code, edge);
      const odd = boundary.odd ? fold_sign(index, size, boundary.code, edge) : 1;
      if (pixel >= 0) matrix[i][pixel] += odd * row[0];
    });
  }
  return matrix;
}

const transposed = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));

// What taps weigh: the pixels, or the coefficients of the spline through them.
function weighed(image, axes, fill) {
  if (axes[0].method.prefilter < 2) return image;
  const offset = axes[0].boundary.filled ? fill : 0;
  let values = image.map((row) => row.map((v) => v - offset));
  values = solve(splineMatrix(axes[1]), values);
  values = transposed(solve(splineMatrix(axes[0]), transposed(values)));
  return values.map((row) => row.map((v) => v + offset));
}

function winner(taps) {
  const sums = new Map();
  for (const tap of taps) sums.set(tap.value, (sums.get(tap.value) || 0) + tap.weight);
  let best = null;
  for (const [value, sum] of sums) {
    if (best === null || sum > sums.get(best) || (sum === sums.get(best) && value < best)) {
      best = value;
    }
  }
  return best;
}

// One sample of an image (rows of numbers) at a coordinate x, y, and all steps to it.
function explain(image, at, options) {
  const { method, boundary, aligned, fill, pixels } = options;
  const sizes = [image[0].length, image.length];
  const axes = sizes.map((size) => makeAxis(size, method, boundary, aligned, pixels));
  const steps = axes.map((axis, a) => follow(axis, pixels ? at[a] : position(at[a], axis.size - 1, aligned)));
  const values = weighed(image, axes, fill), outside = axes[0].boundary.filled ? fill : 0;
  const taps = [];
  let value = 0, perX = 0, perY = 0;
  const ignores = axes[0].boundary.ignores, sum = { w: 0, x: 0, y: 0 }; // of the weights that count
  for (const y of steps[1].taps) {
    for (const x of steps[0].taps) {
      const known = x.pixel >= 0 && y.pixel >= 0;
      const tap = { x, y, weight: x.weight * y.weight, value: known ? values[y.pixel][x.pixel] : outside };
      tap.dropped = !known;
      taps.push(tap);
      if (ignores && tap.dropped) continue;
      sum.w += tap.weight;
      sum.x += x.derivative * y.weight;
      sum.y += x.weight * y.derivative;
      value += tap.weight * tap.value;
      perX += x.derivative * y.weight * tap.value;
      perY += x.weight * y.derivative * tap.value;
    }
  }
  if (ignores && !axes[0].method.votes) {
    // The gradient of a quotient; nothing is known where no pixel counts, or only negative weights.
    value = sum.w > 0 ? value / sum.w : NaN;
    [perX, perY] = sum.w > 0 ? [(perX - value * sum.x) / sum.w, (perY - value * sum.y) / sum.w] : [0, 0];
  }
  const counted = ignores ? taps.filter((tap) => !tap.dropped) : taps;
  if (axes[0].method.votes) [value, perX, perY] = [counted.length ? winner(counted) : fill, 0, 0];
  return { steps, taps, value, gradient: [steps[0].slope * perX, steps[1].slope * perY] };
}

// A function of a position in pixels that returns the samples of all planes of an image there.
function sampler(planes, options) {
  const { method, boundary, aligned, fill } = options;
  const [height, width] = [planes[0].length, planes[0][0].length];
  const axes = [width, height].map((size) => makeAxis(size, method, boundary, aligned));
  const data = planes.map((plane) => Float64Array.from(weighed(plane, axes, fill).flat()));
  const outside = axes[0].boundary.filled ? fill : 0, { votes } = axes[0].method, { ignores } = axes[0].boundary;
  const count = axes[0].method.table.length, scratch = axes.map(() => [new Int32Array(count), new Float64Array(count)]);
  const out = new Float64Array(planes.length);

  function lay(axis, p, [pixels, weights]) {
    const { method, size, edge, boundary } = axis;
    let code = boundary.code, end;
    if (axis.folds && code !== ZEROS) {
      end = fold(p, size - 1, count + 1, code, edge)[0];
      code = ZEROS;
    } else end = confine(p, size - 1, count + 1, code, edge);
    const [base, t] = split(end, method.rounding);
    for (let k = 0; k < count; k++) {
      const index = base + method.first + k;
      pixels[k] = fold_index(index, size, code, edge);
      weights[k] = weight(t, method.table[k], method.table[k].length) * (boundary.odd ? fold_sign(index, size, boundary.code, edge) : 1);
    }
  }

  return (x, y) => {
    lay(axes[0], x, scratch[0]);
    lay(axes[1], y, scratch[1]);
    for (let c = 0; c < data.length; c++) {
      let total = 0, counted = 0;
      const taps = votes ? [] : null;
      for (let j = 0; j < count; j++) {
        for (let i = 0; i < count; i++) {
          const known = scratch[0][0][i] >= 0 && scratch[1][0][j] >= 0;
          if (ignores && !known) continue;
          const value = known ? data[c][scratch[1][0][j] * width + scratch[0][0][i]] : outside;
          const weight = scratch[0][1][i] * scratch[1][1][j];
          if (votes) taps.push({ value, weight });
          else total += weight * value;
          counted += weight;
        }
      }
      if (ignores && !(counted > 0)) out[c] = NaN;
      else out[c] = votes ? winner(taps) : ignores ? total / counted : total;
    }
    return out;
  };
}

// The homography that maps four points to four others, as nine numbers.
function homography(from, to) {
  const rows = [], right = [];
  from.forEach(([x, y], k) => {
    const [u, v] = to[k];
    rows.push([x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]);
    right.push([u], [v]);
  });
  return [...solve(rows, right).map((row) => row[0]), 1];
}

// The points of the input, in pixels, that the pixels of a result show; NaN beyond the horizon.
function homographyGrid(h, width, height) {
  const grid = new Float64Array(2 * width * height), ahead = h[6] * (width / 2) + h[7] * (height / 2) + h[8];
  for (let y = 0, k = 0; y < height; y++) {
    for (let x = 0; x < width; x++, k += 2) {
      const w = h[6] * x + h[7] * y + h[8], visible = w * ahead > 0;
      grid[k] = visible ? (h[0] * x + h[1] * y + h[2]) / w : NaN;
      grid[k + 1] = visible ? (h[3] * x + h[4] * y + h[5]) / w : NaN;
    }
  }
  return grid;
}

// The image warped by a grid: plainly, and as the mean of n_1 x n_2 samples that are spread evenly
// over each point's footprint, the parallelogram of the grid's differences, n_k = ceil(side - 1/64).
function warp(planes, grid, width, height, options, antialias, most) {
  const sample = sampler(planes, options), count = planes.length;
  const out = new Float64Array(count * width * height);
  let samples = 1;
  const difference = (k, step, low, high) => {
    // A neighbour beyond the horizon is none.
    const before = low || grid[k - step] !== grid[k - step] ? k : k - step;
    const after = high || grid[k + step] !== grid[k + step] ? k : k + step;
    const scale = after > before ? step / (after - before) : 0;
    return [(grid[after] - grid[before]) * scale, (grid[after + 1] - grid[before + 1]) * scale];
  };
  for (let y = 0, k = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, k += 2, at += count) {
      const px = grid[k], py = grid[k + 1];
      if (px !== px || py !== py) {
        out.fill(NaN, at, at + count);
        continue;
      }
      let u = [0, 0], v = [0, 0];
      if (antialias) {
        u = difference(k, 2, x === 0, x === width - 1);
        v = difference(k, 2 * width, y === 0, y === height - 1);
      }
      const n = [u, v].map((side) => Math.min(Math.max(Math.ceil(Math.hypot(...side) - 1 / 64), 1), most));
      samples = Math.max(samples, n[0] * n[1]);
      for (let j = 0; j < n[1]; j++) {
        for (let i = 0; i < n[0]; i++) {
          const a = n[0] > 1 ? (i + 0.5) / n[0] - 0.5 : 0, b = n[1] > 1 ? (j + 0.5) / n[1] - 0.5 : 0;
          const one = sample(px + (a && a * u[0]) + (b && b * v[0]), py + (a && a * u[1]) + (b && b * v[1]));
          for (let c = 0; c < count; c++) out[at + c] += one[c] / (n[0] * n[1]);
        }
      }
    }
  }
  return { out, samples };
}
