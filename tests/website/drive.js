// Runs after the explorer's own scripts: operates its controls, and notes what it shows.
"use strict";
const FOUND = { samples: [], missing: [], warps: [], keys: {}, controls: [], errors: ERRORS };
const shown = (name) => [...document.querySelectorAll(`[data-name="${name}"]`)].map((one) => Number(one.value));
const words = (name) => [...document.querySelectorAll(`[data-name="${name}"]`)].map((one) => one.textContent);
const signal = (id, name) => $(id).dispatchEvent(new Event(name, { bubbles: true }));
const press = (id, key, more) =>
  $(id).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));

for (const one of SETTINGS.samples) {
  image = one.image;
  for (const id of ["method", "boundary", "aligned", "fill", "x", "y"]) $(id).value = one[id];
  signal("x", "input");
  const found = {};
  for (const name of ["value", "gradient-x", "gradient-y", "position", "sampled", "path", "folds", "base", "t", "slope",
    "weight", "derivative", "tap"]) found[name] = shown(name);
  FOUND.samples.push({ ...found, index: words("index"), pixel: words("pixel"), chosen: options() });
}

for (const one of SETTINGS.warps) {
  const { grid, width, height, planes } = one;
  const both = [false, true].map((antialias) =>
    warp(planes, Float64Array.from(grid.flat(2)), width, height, one, antialias, 16));
  FOUND.warps.push({ plain: [...both[0].out], smooth: [...both[1].out], samples: both[1].samples });
}
for (const one of SETTINGS.missing) {
  const { value, gradient } = explain(one.image, [one.x, one.y], one);
  FOUND.missing.push({ value, gradient });
}
FOUND.homographies = SETTINGS.homographies.map(([from, to]) => homography(from, to));

// Every control has a name and can be reached, and the arrow keys do what dragging does.
for (const one of document.querySelectorAll("select, input, button, a, canvas[role=application], .scroll")) {
  one.disabled = false;
  one.focus();
  const name = one.labels && one.labels.length ? one.labels[0].textContent : one.getAttribute("aria-label") || one.textContent;
  FOUND.controls.push([one.id || name, name.trim() !== "", document.activeElement === one]);
}
image = [[1, 2, 3], [4, 5, 6]];
$("x").value = "0.5";
$("y").value = "-0.5";
press("view", "ArrowRight");
press("view", "ArrowUp", { shiftKey: true });
FOUND.keys.point = [$("x").value, $("y").value];
cursor = [0, 0];
press("paint", "ArrowRight");
press("paint", "ArrowUp");
press("paint", "7");
FOUND.keys.painted = [image[1][1], $("painted").textContent];
$("kind").value = "affine";
corners = [[10, 10], [60, 10], [60, 60], [10, 60]];
press("plain", "3");
press("plain", "ArrowRight", { shiftKey: true });
FOUND.keys.corners = corners;
showWarp();
FOUND.keys.warped = $("warped").textContent;
$("boundary").value = "antimirror";
signal("boundary", "input");
FOUND.keys.refused = [...$("method").options].filter((one) => one.disabled).map((one) => one.value);

const sheet = document.createElement("pre");
sheet.id = "found";
sheet.textContent = btoa(JSON.stringify(FOUND));
document.body.append(sheet);
