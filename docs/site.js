"use strict";
// Tell the embedded explorer which scheme the page has, at first and when it changes.
const tellScheme = () => {
  const frame = document.querySelector("iframe.explorer");
  const scheme = document.body.dataset.mdColorScheme === "slate" ? "dark" : "light";
  if (frame) frame.contentWindow.postMessage(scheme, "*");
};
addEventListener("message", (event) => {
  if (event.data === "scheme?") tellScheme();
});
new MutationObserver(tellScheme).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
