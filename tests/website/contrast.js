// The kinds of text whose contrast with what is behind them is below 4.5, or 3 if it is large (WCAG 2, AA).
(() => {
  const numbers = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const hidden = ".md-skip, .headerlink, .md-top, .md-header__topic + .md-header__topic"; // until they are used
  const found = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(one);
    if (!words || !one.getClientRects().length || style.visibility !== "visible" || one.closest(hidden)) continue;
    const behind = [];
    let opacity = 1;
    for (let outer = one; outer; outer = outer.parentElement) {
      const layer = getComputedStyle(outer);
      behind.unshift(numbers(layer.backgroundColor));
      opacity *= layer.opacity;
      if (behind[0][3] === 1) break;
    }
    const back = behind.reduce((below, layer) => over(layer, below), [255, 255, 255]);
    const colour = numbers(style.color);
    colour[3] *= opacity;
    const [low, high] = [luminance(over(colour, back)), luminance(back)].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.add(`${one.tagName}.${one.className} ${contrast.toFixed(2)}`);
  }
  return [...found];
})();
