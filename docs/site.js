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

// The explorer of the front page is loaded when it comes near the window.
const late = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      target.src = target.dataset.src;
      late.unobserve(target);
    }
  },
  { rootMargin: "300px" },
);
for (const frame of document.querySelectorAll("iframe[data-src]")) late.observe(frame);

// What scrolls sideways can be reached with the keyboard.
const SCROLLING = ".md-typeset :is(.md-typeset__scrollwrap, .md-typeset__table, table, pre > code, .formula, p:has(> img.drawing))";
const reachable = () => {
  for (const box of document.querySelectorAll(SCROLLING)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("load", reachable);
addEventListener("resize", reachable);

// The bars of code blocks, which the theme adds, get names of their own.
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((bar) => {
    bar.setAttribute("aria-label", `Code ${[...document.querySelectorAll(".highlight")].indexOf(bar.closest(".highlight")) + 1}`);
  });
}).observe(document.body, { childList: true, subtree: true });

// A link to something in a closed section opens it.
const reveal = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let box = target && target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
addEventListener("load", reveal);

// What a card of the gallery was made from: under a mouse, and while its button is pressed.
for (const button of document.querySelectorAll("button.before")) {
  const card = button.parentElement;
  let picture = null, pressed = false, hovered = false;
  const show = () => {
    if (!picture && (pressed || hovered)) {
      picture = new Image();
      picture.src = button.dataset.picture;
      picture.alt = "";
      picture.className = "before";
      card.querySelector("a").append(picture);
    }
    if (picture) picture.hidden = !pressed && !hovered;
    button.setAttribute("aria-pressed", pressed);
  };
  const hover = (event) => {
    hovered = event.type === "pointerenter" && event.pointerType === "mouse";
    show();
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    pressed = !pressed;
    show();
  });
  card.addEventListener("pointerenter", hover);
  card.addEventListener("pointerleave", hover);
}
