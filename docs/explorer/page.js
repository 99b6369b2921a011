"use strict";
// The page: reads the controls, shows what core.js computes.

const $ = (id) => document.getElementById(id);
const MARGIN = 3; // pixels of the surroundings that the view shows
const DARK = matchMedia("(prefers-color-scheme: dark)");
const colours = () => {
  const style = getComputedStyle(document.documentElement);
  return { text: style.getPropertyValue("--text"), accent: style.getPropertyValue("--accent") };
};
// Of values from 0 to 9; those beyond are shown as the nearest.
const shade = (v) => (v !== v ? "#b3265e" : `hsl(190 48% ${13 + 8.4 * Math.min(Math.max(v, 0), 9)}%)`);
const ink = (v) => (v > 4 ? "#111" : "#fff");
const short = (v) => (v === null ? "-" : Number.isFinite(v) ? String(+v.toPrecision(6)) : String(v));
const escaped = (words) => String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;");
const exact = (v, name) => `<data value="${v}"${name ? ` data-name="${name}"` : ""}>${short(v)}</data>`;

let image = [[1, 3, 2, 4, 7, 5], [2, 6, 5, 8, 4, 3], [0, 4, 9, 6, 2, 1], [3, 7, 5, 1, 0, 2], [6, 2, 1, 3, 5, 8]];
let cursor = [0, 0];
let corners = [[44, 36], [74, 52], [58, 82], [28, 66]];
const EMBEDDED = location.hash.includes("embedded");

// Screen readers hear one result once the controls rest, and nothing while the page loads.
let used = false, rest = 0;
for (const name of ["keydown", "pointerdown", "change"]) addEventListener(name, () => (used = true), true);
function say(id) {
  clearTimeout(rest);
  if (used) rest = setTimeout(() => ($("said").textContent = $(id).textContent), 500);
}

// The number in a field, or the last one that was accepted; what is refused stays, with the reason.
const accepted = {}, refusals = {};
function number(id) {
  const field = $(id), v = parseFloat(field.value), whole = field.step === "" && field.type === "number";
  let why = "";
  if (!Number.isFinite(v)) why = "is not a number";
  else if (field.min !== "" && (v < +field.min || v > +field.max)) why = `must be from ${field.min} to ${field.max}`;
  else if (whole && !Number.isInteger(v)) why = "must be a whole number";
  if (why === "") accepted[id] = v;
  refusals[id] = why && `${field.labels[0].textContent} ${why}: ${accepted[id] ?? 0} is used.`;
  field.setAttribute("aria-invalid", why !== "");
  $("refused").textContent = Object.values(refusals).filter(Boolean).join(" ");
  return accepted[id] ?? 0;
}
const options = () => ({
  method: $("method").value, boundary: $("boundary").value, aligned: $("aligned").value === "True",
  pixels: $("coords").value === "pixel", fill: number("fill"),
});

// The state in the address: every control, the image and the corners of the warp.
const STATE = ["method", "boundary", "aligned", "coords", "fill", "x", "y", "width", "height", "picture", "kind",
  "warp-method", "warp-boundary"];
function keep() {
  const state = new URLSearchParams(STATE.map((id) => [id, $(id).value]));
  state.set("image", image.map((row) => row.join(".")).join("_"));
  state.set("corners", corners.flat().map((v) => +v.toFixed(2)).join("_"));
  $("whole").href = `#${state}`;
  if (EMBEDDED) state.set("embedded", "1");
  if (used) history.replaceState(null, "", `#${state}`);
}

function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const id of STATE) if (state.has(id)) $(id).value = state.get(id);
  if (state.has("image")) {
    const rows = state.get("image").split("_").map((row) => row.split(".").map(Number));
    const regular = rows.length <= 12 && rows[0].length <= 12 && rows.every((row) => row.length === rows[0].length);
    if (regular && rows.flat().every((v) => v >= 0 && v <= 9)) image = rows;
    [$("width").value, $("height").value] = [image[0].length, image.length];
  }
  const numbers = (state.get("corners") || "").split("_").map(parseFloat);
  if (numbers.length === 8 && numbers.every(Number.isFinite)) {
    corners = [0, 2, 4, 6].map((k) => numbers.slice(k, k + 2));
  }
}

// One sample --------------------------------------------------------------------------------------

function showSample() {
  const given = options(), at = [number("x"), number("y")], one = explain(image, at, given);
  const { votes, prefilter } = TABLES.methods[given.method], { odd, ignores } = TABLES.boundaries[given.boundary];
  $("fill").disabled = !TABLES.boundaries[given.boundary].filled;
  // A label has no opposite, and the coefficients of a spline depend on every pixel.
  for (const option of $("boundary").options) {
    const other = TABLES.boundaries[option.value];
    option.disabled = (votes && other.odd) || (prefilter > 1 && other.ignores);
  }
  for (const option of $("method").options) {
    const other = TABLES.methods[option.value];
    option.disabled = (other.votes && odd) || (other.prefilter > 1 && ignores);
  }
  const place = one.steps.map((s) => short(s.position)).join(", ");
  const folds = one.steps[0].folds + one.steps[1].folds;
  const read = one.taps.filter((tap) => !tap.dropped).length;
  $("summary").innerHTML =
    `Position ${place}${folds ? `, folded ${folds === 1 ? "once" : folds + " times"}` : ""}. ` +
    `${one.taps.length} tap${one.taps.length > 1 ? "s" : ""}, ${one.taps.length - read} dropped. ` +
    `Value ${exact(one.value, "value")}. Gradient ${exact(one.gradient[0], "gradient-x")} along x, ` +
    `${exact(one.gradient[1], "gradient-y")} along y.`;
  say("summary");
  showSteps(one, at);
  showTaps(one);
  $("python").textContent = python(given, at);
  keep();
  drawView(one, given);
}

// The same in Python: it runs as it is.
function python(given, at) {
  const rows = image.map((row) => `[${row.join(", ")}]`).join(",\n    ");
  const dtype = TABLES.methods[given.method].votes ? "int" : "float";
  const names = `"${given.method}", "${given.boundary}", ${given.aligned ? "True" : "False"}`;
  const units = given.pixels ? ', coords="pixel"' : "";
  const fill = TABLES.boundaries[given.boundary].filled ? `, fill_value=${given.fill}` : "";
  const sample = TABLES.boundaries[given.boundary].ignores
    ? `points = np.array([[[${at.join(", ")}]]])\nprint(gridsample.grid_sample(image[None, None], points, ${names}${units}))`
    : `print(gridsample.explain((${image[0].length}, ${image.length}), (${at.join(", ")}), ${names}${units}${fill}, image=image))`;
  return `import numpy as np\nimport gridsample\n\nimage = np.array([\n    ${rows},\n], ${dtype})\n${sample}\n`;
}

function showSteps(one, at) {
  const rows = [
    ["coordinate", (s, a) => exact(at[a])],
    ["position", (s) => exact(s.position, "position")],
    ["after folds and clamps", (s) => s.path.slice(1).map((p) => exact(p, "path")).join(", ") || "-"],
    ["sampled position", (s) => exact(s.path[s.path.length - 1], "sampled")],
    ["folds", (s) => exact(s.folds, "folds")],
    ["base index", (s) => exact(s.base, "base")],
    ["fraction t", (s) => exact(s.t, "t")],
    ["d position / d coordinate", (s) => exact(s.slope, "slope")],
  ];
  const cells = rows.map(([name, cell]) => {
    const both = one.steps.map((s, a) => `<td>${cell(s, a)}</td>`).join("");
    return `<tr><th scope="row">${name}</th>${both}</tr>`;
  });
  $("steps").innerHTML = `<caption>Steps along each axis</caption><thead><tr><td></td><th scope="col">x</th><th scope="col">y</th></tr></thead><tbody>${cells.join("")}</tbody>`;
}

function showTaps(one) {
  const rows = one.steps.flatMap((s, a) =>
    s.taps.map((tap) => {
      const pixel = tap.pixel < 0 ? "dropped" : tap.pixel;
      return `<tr${tap.pixel < 0 ? ' class="dropped"' : ""}><th scope="row">${"xy"[a]}</th><td data-name="index">${tap.index}</td><td data-name="pixel">${pixel}</td><td>${exact(tap.weight, "weight")}</td><td>${exact(tap.derivative, "derivative")}</td></tr>`;
    }),
  );
  $("taps").innerHTML = `<caption>Taps along each axis</caption><thead><tr><th scope="col">axis</th><th scope="col">index</th><th scope="col">pixel</th><th scope="col">weight</th><th scope="col">d weight / dt</th></tr></thead><tbody>${rows.join("")}</tbody>`;
  const across = one.steps[0].taps, many = across.length;
  const head = across.map((tap) => `<th scope="col">x ${tap.index}</th>`).join("");
  const lines = one.steps[1].taps.map((tap, j) => {
    const cells = one.taps.slice(j * many, (j + 1) * many).map(
      (t) => `<td${t.dropped ? ' class="dropped"' : ""}>${short(+t.weight.toFixed(4))} × ${exact(t.value, "tap")}</td>`);
    return `<tr><th scope="row">y ${tap.index}</th>${cells.join("")}</tr>`;
  });
  const what = TABLES.methods[$("method").value].prefilter > 1 ? "B-spline coefficient" : "value";
  $("products").innerHTML = `<caption>Weight × ${what} of each tap</caption><thead><tr><td></td>${head}</tr></thead><tbody>${lines.join("")}</tbody>`;
}

// Where a position is on a canvas, and back.
function frame(canvas, margin) {
  const [w, h] = [image[0].length, image.length];
  const cell = Math.min(canvas.width / (w + 2 * margin), canvas.height / (h + 2 * margin));
  const left = (canvas.width - cell * w) / 2, top = (canvas.height - cell * h) / 2;
  return {
    cell, w, h, x: (p) => left + (p + 0.5) * cell, y: (p) => top + (p + 0.5) * cell,
    at: (event) => {
      const box = canvas.getBoundingClientRect();
      return [
        (((event.clientX - box.left) * canvas.width) / box.width - left) / cell - 0.5,
        (((event.clientY - box.top) * canvas.height) / box.height - top) / cell - 0.5,
      ];
    },
  };
}

function drawView(one, given) {
  const canvas = $("view"), g = canvas.getContext("2d"), f = frame(canvas, MARGIN), c = colours();
  const axes = [f.w, f.h].map((size) => makeAxis(size, given.method, given.boundary, given.aligned, given.pixels));
  const extended = (axis, i) => {
    const pixel = fold_index(i, axis.size, axis.boundary.code, axis.edge);
    return [pixel, axis.boundary.odd ? fold_sign(i, axis.size, axis.boundary.code, axis.edge) : 1];
  };
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.font = `${Math.max(10, f.cell / 3.2)}px system-ui`;
  for (let j = -12; j < f.h + 12; j++) {
    for (let i = -12; i < f.w + 12; i++) {
      if (f.x(i) < -f.cell || f.y(j) < -f.cell || f.x(i) > canvas.width + f.cell || f.y(j) > canvas.height + f.cell) continue;
      const [[px, sx], [py, sy]] = [extended(axes[0], i), extended(axes[1], j)];
      const known = px >= 0 && py >= 0;
      if (!known && axes[0].boundary.ignores) continue;
      const inside = i >= 0 && j >= 0 && i < f.w && j < f.h;
      const v = known ? sx * sy * image[py][px] : axes[0].boundary.filled ? given.fill : 0;
      g.globalAlpha = inside ? 1 : 0.4;
      g.fillStyle = shade(v);
      g.fillRect(f.x(i - 0.5) + 0.5, f.y(j - 0.5) + 0.5, f.cell - 1, f.cell - 1);
      g.fillStyle = ink(v);
      g.fillText(short(v), f.x(i), f.y(j));
    }
  }
  g.globalAlpha = 1;
  drawExtent(g, f, given, c);
  drawTaps(g, f, one, c);
}

// Where -1 and 1 are.
function drawExtent(g, f, given, c) {
  const rim = given.aligned ? 0 : 0.5;
  g.strokeStyle = c.text;
  g.lineWidth = 2;
  g.setLineDash([]);
  g.strokeRect(f.x(-rim), f.y(-rim), (f.w - 1 + 2 * rim) * f.cell, (f.h - 1 + 2 * rim) * f.cell);
}

let handle = [0, 0]; // where the point is drawn

function drawTaps(g, f, one, c) {
  const [sx, sy] = one.steps;
  g.lineWidth = 2;
  for (const tap of one.taps) {
    if (!tap.weight) continue;
    g.beginPath();
    g.arc(f.x(tap.x.index), f.y(tap.y.index), Math.max(2, 0.55 * f.cell * Math.sqrt(Math.abs(tap.weight))), 0, 7);
    g.strokeStyle = tap.weight > 0 ? "#f5a524" : "#e040fb";
    g.setLineDash(tap.dropped ? [3, 3] : []);
    g.stroke();
    if (tap.dropped || (tap.x.pixel === tap.x.index && tap.y.pixel === tap.y.index)) continue;
    g.setLineDash([2, 4]);
    g.beginPath();
    g.moveTo(f.x(tap.x.index), f.y(tap.y.index));
    g.lineTo(f.x(tap.x.pixel), f.y(tap.y.pixel));
    g.stroke();
  }
  const steps = Math.max(sx.path.length, sy.path.length), on = (s, k) => s.path[Math.min(k, s.path.length - 1)];
  g.strokeStyle = "#d6336c";
  g.setLineDash([6, 4]);
  g.beginPath();
  for (let k = 0; k < steps; k++) g.lineTo(f.x(on(sx, k)), f.y(on(sy, k)));
  g.stroke();
  g.setLineDash([]);
  handle = [f.x(on(sx, 0)), f.y(on(sy, 0))];
  for (const [k, radius] of [[steps - 1, 4], [0, 8]]) {
    g.beginPath();
    g.arc(f.x(on(sx, k)), f.y(on(sy, k)), radius, 0, 7);
    g.fillStyle = k || steps === 1 ? "#d6336c" : "#fff";
    g.fill();
    g.stroke();
  }
}

// Drags and arrow keys ----------------------------------------------------------------------------

// A finger drags what it touches, a handle; another swipe scrolls the page, and a tap acts once.
const REACH = 28;

function onDrag(canvas, act, handles = () => []) {
  let held = false;
  const near = (touch) => {
    const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
    return handles().some(([x, y]) =>
      Math.hypot(touch.clientX - box.left - x / scale, touch.clientY - box.top - y / scale) < REACH);
  };
  canvas.addEventListener("touchstart", (event) => near(event.touches[0]) && event.preventDefault(), { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    held = event.pointerType !== "touch" || near(event);
    if (!held) return;
    canvas.setPointerCapture(event.pointerId);
    act(event, true);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && event.buttons) act(event, false);
  });
  canvas.addEventListener("click", (event) => held || act(event, true));
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function onArrows(canvas, act, other) {
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (ARROWS[event.key]) act(...ARROWS[event.key], event.shiftKey);
    else if (!other || !other(event.key)) return;
    event.preventDefault();
  });
}

function movePoint(x, y) {
  $("x").value = +x.toFixed(4);
  $("y").value = +y.toFixed(4);
  showSample();
}

onDrag($("view"), (event) => {
  const [x, y] = frame($("view"), MARGIN).at(event), { aligned, pixels } = options();
  if (pixels) movePoint(x, y);
  else movePoint(coordinate(x, image[0].length, aligned), coordinate(y, image.length, aligned));
}, () => [handle]);
onArrows($("view"), (dx, dy, large) => {
  const step = (large ? 0.25 : 0.01) * (options().pixels ? 2 : 1);
  movePoint(number("x") + step * dx, number("y") + step * dy);
});

// The image ---------------------------------------------------------------------------------------

function showImage(words) {
  const canvas = $("paint"), g = canvas.getContext("2d"), f = frame(canvas, 0.1);
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.font = `${f.cell / 3}px system-ui`;
  image.forEach((row, j) => row.forEach((v, i) => {
    g.fillStyle = shade(v);
    g.fillRect(f.x(i - 0.5) + 0.5, f.y(j - 0.5) + 0.5, f.cell - 1, f.cell - 1);
    g.fillStyle = ink(v);
    g.fillText(short(v), f.x(i), f.y(j));
  }));
  g.strokeStyle = "#f5a524";
  g.lineWidth = 3;
  g.strokeRect(f.x(cursor[0] - 0.5), f.y(cursor[1] - 0.5), f.cell, f.cell);
  showSurface();
  showSample();
  if (!words) return;
  $("painted").textContent = words;
  say("painted");
}

function showSurface() {
  const canvas = $("surface"), g = canvas.getContext("2d"), f = frame(canvas, 1);
  const sample = sampler([image], options()), step = 3;
  for (let v = 0; v < canvas.height; v += step) {
    for (let u = 0; u < canvas.width; u += step) {
      const x = (u + step / 2 - f.x(0)) / f.cell, y = (v + step / 2 - f.y(0)) / f.cell;
      g.fillStyle = shade(sample(x, y)[0]);
      g.fillRect(u, v, step, step);
    }
  }
  g.strokeStyle = colours().text;
  g.strokeRect(f.x(-0.5), f.y(-0.5), f.w * f.cell, f.h * f.cell);
}

const tell = () => `Pixel x ${cursor[0]}, y ${cursor[1]}: ${image[cursor[1]][cursor[0]]}`;

function paint(value) {
  image[cursor[1]][cursor[0]] = value;
  showImage(tell());
}

onDrag($("paint"), (event) => {
  const [x, y] = frame($("paint"), 0.1).at(event).map(Math.round);
  if (x < 0 || y < 0 || x >= image[0].length || y >= image.length) return;
  cursor = [x, y];
  paint(number("brush"));
});
onArrows($("paint"), (dx, dy) => {
  cursor = [remainder(cursor[0] + dx, image[0].length), remainder(cursor[1] + dy, image.length)];
  showImage(tell());
}, (key) => {
  if (key === " ") paint(number("brush"));
  else if (/^[0-9]$/.test(key)) paint(+key);
  else return false;
  return true;
});

// The image of a function of x and y, of the size that the controls say.
function makeImage(value) {
  const [w, h] = ["width", "height"].map(number);
  image = Array.from({ length: h }, (_, y) => Array.from({ length: w }, (_, x) => value(x, y, w, h)));
  cursor = [Math.min(cursor[0], w - 1), Math.min(cursor[1], h - 1)];
  showImage(`${w} times ${h} pixels`);
}

const IMAGES = {
  clear: () => 0,
  dot: (x, y, w, h) => (x === Math.floor(w / 2) && y === Math.floor(h / 2) ? 9 : 0),
  ramp: (x, y, w, h) => Math.round((9 * (x + y)) / Math.max(w + h - 2, 1)),
  random: () => Math.floor(10 * Math.random()),
};
for (const [id, value] of Object.entries(IMAGES)) $(id).addEventListener("click", () => makeImage(value));
for (const id of ["width", "height"]) {
  const before = (x, y) => (image[y] && image[y][x] !== undefined ? image[y][x] : (3 * x + 5 * y) % 10);
  $(id).addEventListener("change", () => makeImage(before));
}

// The warp ----------------------------------------------------------------------------------------

const SIDE = 128, ZOOM = 3, MOST = 16;
const EDGES = [[-0.5, -0.5], [SIDE - 0.5, -0.5], [SIDE - 0.5, SIDE - 0.5], [-0.5, SIDE - 0.5]];
const PRESETS = {
  identity: ["affine", [[10, 10], [117, 10], [117, 117], [10, 117]]],
  shrink: ["affine", [[44, 36], [74, 52], [58, 82], [28, 66]]],
  floor: ["perspective", [[52, 30], [76, 30], [150, 126], [-22, 126]]],
};
let pictures = {}, pending = 0;

const pattern = (value) => [0, 1, 2].map(() =>
  Array.from({ length: SIDE }, (_, y) => Array.from({ length: SIDE }, (_, x) => value(x, y))));
pictures.rings = pattern((x, y) => 127.5 + 127.5 * Math.cos(((x - 63.5) ** 2 + (y - 63.5) ** 2) / 45));
pictures.board = pattern((x, y) => ((x >> 2) + (y >> 2)) % 2 ? 40 : 230);
pictures.photo = pictures.board;

function showWarp() {
  pending = 0;
  const planes = pictures[$("picture").value], grid = homographyGrid(homography(corners, EDGES), SIDE, SIDE);
  const given = { method: $("warp-method").value, boundary: $("warp-boundary").value, aligned: false, fill: 128 };
  const plain = warp(planes, grid, SIDE, SIDE, given, false, 1), smooth = warp(planes, grid, SIDE, SIDE, given, true, MOST);
  putResult($("plain"), plain.out, true);
  putResult($("smooth"), smooth.out, false);
  let sum = 0, count = 0;
  plain.out.forEach((v, k) => {
    if (v === v && smooth.out[k] === smooth.out[k]) [sum, count] = [sum + (v - smooth.out[k]) ** 2, count + 1];
  });
  const rms = Math.sqrt(sum / Math.max(count, 1)).toFixed(1), k = +$("corner").value;
  $("warped").textContent = `${$("corner").selectedOptions[0].text} corner at ${corners[k].map((v) => +v.toFixed(1)).join(", ")}. ` +
    `Antialiasing takes up to ${smooth.samples} sample${smooth.samples > 1 ? "s" : ""} a pixel. ` +
    `The two differ by ${rms} of 255 grey levels, root mean square.`;
  say("warped");
  keep();
}

const later = () => {
  if (!pending) pending = requestAnimationFrame(showWarp);
};

function putResult(canvas, out, handles) {
  const small = document.createElement("canvas"), g = canvas.getContext("2d");
  small.width = small.height = SIDE;
  const data = new ImageData(SIDE, SIDE);
  for (let k = 0; k < SIDE * SIDE; k++) {
    for (let c = 0; c < 3; c++) data.data[4 * k + c] = out[3 * k + c];
    data.data[4 * k + 3] = out[3 * k] === out[3 * k] ? 255 : 0;
  }
  small.getContext("2d").putImageData(data, 0, 0);
  g.imageSmoothingEnabled = false;
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (!handles) return;
  corners.forEach(([x, y], k) => {
    g.beginPath();
    g.arc(onCanvas(x), onCanvas(y), k === +$("corner").value ? 10 : 7, 0, 7);
    g.fillStyle = k === +$("corner").value ? "#d6336c" : "#f5a524";
    g.fill();
    g.strokeStyle = "#fff";
    g.lineWidth = 2;
    g.stroke();
  });
}

// Corners beyond the result are shown, and taken, at its rim.
const onCanvas = (p) => Math.min(Math.max((p + 0.5) * ZOOM, 6), SIDE * ZOOM - 6);

function moveCorner(k, x, y) {
  const before = corners.map((p) => [...p]);
  corners[k] = [x, y];
  if ($("kind").value === "affine") {
    const other = (k + 2) % 4, [a, b] = [corners[(k + 1) % 4], corners[(k + 3) % 4]];
    corners[other] = [a[0] + b[0] - x, a[1] + b[1] - y];
  }
  const turns = corners.map((p, i) => {
    const [q, r] = [corners[(i + 1) % 4], corners[(i + 2) % 4]];
    return (q[0] - p[0]) * (r[1] - q[1]) - (q[1] - p[1]) * (r[0] - q[0]);
  });
  // A quadrilateral with a dent or a crossing is the picture of no plane.
  if (!turns.every((turn) => turn > 20) && !turns.every((turn) => turn < -20)) corners = before;
  later();
}

onDrag($("plain"), (event, first) => {
  const canvas = $("plain"), box = canvas.getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((p) => p * SIDE * ZOOM);
  if (first) {
    const far = corners.map((p) => Math.hypot(onCanvas(p[0]) - x, onCanvas(p[1]) - y));
    $("corner").value = far.indexOf(Math.min(...far));
  }
  moveCorner(+$("corner").value, x / ZOOM - 0.5, y / ZOOM - 0.5);
}, () => corners.map((p) => p.map(onCanvas)));
onArrows($("plain"), (dx, dy, large) => {
  const k = +$("corner").value, step = large ? 10 : 1;
  moveCorner(k, corners[k][0] + step * dx, corners[k][1] + step * dy);
}, (key) => {
  if (!/^[1-4]$/.test(key)) return false;
  $("corner").value = +key - 1;
  later();
  return true;
});
for (const id of ["picture", "corner", "warp-method", "warp-boundary"]) $(id).addEventListener("change", later);
$("kind").addEventListener("change", () => moveCorner(0, ...corners[0]));
for (const button of document.querySelectorAll("[data-preset]")) {
  button.addEventListener("click", () => {
    const [kind, points] = PRESETS[button.dataset.preset];
    $("kind").value = kind;
    corners = points.map((p) => [...p]);
    later();
  });
}

function loadPhoto() {
  const photo = new Image();
  photo.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = SIDE;
    const g = canvas.getContext("2d");
    g.drawImage(photo, 0, 0, SIDE, SIDE);
    const { data } = g.getImageData(0, 0, SIDE, SIDE);
    pictures.photo = [0, 1, 2].map((c) => Array.from({ length: SIDE }, (_, y) =>
      Array.from({ length: SIDE }, (_, x) => data[4 * (y * SIDE + x) + c])));
    later();
  };
  photo.src = PHOTO;
}

// The start ---------------------------------------------------------------------------------------

const fillSelect = (id, names, chosen) => {
  $(id).innerHTML = names.map((name) => `<option${name === chosen ? " selected" : ""}>${escaped(name)}</option>`).join("");
};
const sampling = Object.keys(TABLES.methods), outside = Object.keys(TABLES.boundaries);
fillSelect("method", sampling, "linear");
fillSelect("boundary", outside, "reflection");
fillSelect("warp-method", sampling.filter((name) => name !== "label"), "linear");
fillSelect("warp-boundary", outside, "zeros");
for (const id of ["x", "y"]) $(id).addEventListener("input", showSample);
for (const id of ["method", "boundary", "aligned", "coords", "fill"]) $(id).addEventListener("input", () => showImage());
$("options").addEventListener("submit", (event) => event.preventDefault());
$("coords").addEventListener("input", () => {
  // The point stays where it is.
  const { aligned, pixels } = options(), sizes = [image[0].length, image.length];
  const at = [number("x"), number("y")].map((v, a) =>
    pixels ? position(v, sizes[a] - 1, aligned) : coordinate(v, sizes[a], aligned));
  movePoint(...at);
});
DARK.addEventListener("change", () => showImage());
// The page that embeds this one tells which scheme it has.
addEventListener("message", (event) => {
  if (event.data !== "dark" && event.data !== "light") return;
  document.documentElement.dataset.scheme = document.documentElement.style.colorScheme = event.data;
  showImage();
});
if (EMBEDDED) parent.postMessage("scheme?", "*");
addEventListener("hashchange", () => {
  restore();
  showImage();
  later();
});
document.documentElement.classList.toggle("embedded", EMBEDDED);
restore();
for (const id of ["fill", "x", "y", "width", "height"]) number(id);
showImage();
loadPhoto();
