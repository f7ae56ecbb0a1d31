// Questions about what is seen, asked within a page. Each function is sent to the browser, so it stands alone.

/** Pictures that are shown, each with what is wrong with it. */
export function pictures() {
  const wrong = [];
  const shown = [...document.querySelectorAll('svg.plot')].filter((svg) => svg.checkVisibility());
  for (const svg of shown) {
    const name = svg.getAttribute('aria-label');
    const box = svg.getBoundingClientRect();
    if (box.width < 100 || box.height < 40) wrong.push(`${name}: ${box.width} × ${box.height}`);
    if (!svg.querySelector('rect.bar, path.curve, circle.dot, rect.phase, text.failed')) wrong.push(`${name}: nothing is drawn`);
    const texts = [...svg.querySelectorAll('text')].map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }));
    for (const [index, { words, box: text }] of texts.entries()) {
      const inside = text.left >= box.left - 1 && text.right <= box.right + 1 && text.top >= box.top - 1 && text.bottom <= box.bottom + 1;
      if (!inside) wrong.push(`${name}: “${words}” is cut`);
      for (const { words: others, box: other } of texts.slice(index + 1)) {
        const across = Math.min(text.right, other.right) - Math.max(text.left, other.left);
        const down = Math.min(text.bottom, other.bottom) - Math.max(text.top, other.top);
        if (across > 1 && down > 3) wrong.push(`${name}: “${words}” and “${others}” overlap`);
      }
    }
  }
  return { count: shown.length, wrong };
}

/** Texts and shapes of pictures that are hard to see on their ground (WCAG 1.4.3, 1.4.11). */
export function faint() {
  const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = channels(colour).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const wrong = new Set();
  const check = (element, colour, ground, least) => {
    const found = contrast(colour, ground);
    if (found < least) wrong.add(`${element.tagName}.${element.getAttribute('class')}: ${found.toFixed(2)} : 1`);
  };
  for (const svg of document.querySelectorAll('svg.plot')) {
    if (!svg.checkVisibility()) continue;
    const card = svg.closest('.card');
    const ground = getComputedStyle(card ?? svg.querySelector('.ground'))[card ? 'backgroundColor' : 'fill'];
    for (const text of svg.querySelectorAll('text')) check(text, getComputedStyle(text).fill, ground, 4.5);
    for (const shape of svg.querySelectorAll('.bar, .phase, .dot')) {
      const { fill, stroke } = getComputedStyle(shape);
      const isHollow = shape.matches('.floor, .elsewhere');
      check(shape, isHollow ? stroke : fill, ground, 3);
    }
    for (const shape of svg.querySelectorAll('.curve, .whisker, .span, .base')) check(shape, getComputedStyle(shape).stroke, ground, 3);
  }
  return [...wrong];
}

/** Elements wider than the page, that do not scroll by themselves. */
export function tooWide() {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => element.closest('.scroll, pre, nav ul, .skip');
  const wide = [...document.body.querySelectorAll('*')].filter((element) => {
    const box = element.getBoundingClientRect();
    return element.checkVisibility() && box.width > 0 && box.right > width + 1 && !scrolls(element);
  });
  const names = wide.slice(0, 5).map((element) => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`);
  return { overflow: document.documentElement.scrollWidth - width, names };
}
