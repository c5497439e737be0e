// Draws the cables of the map on the first page, and what travels along them.
//
// The map's element has its links as JSON in data-links: from and to are ids of elements, bound is
// a binding, last the id of the last turn or call. A last one that was not there before travels.
const map = document.getElementById("map");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const space = "http://www.w3.org/2000/svg";
const travelTime = 900; // ms

const svg = document.createElementNS(space, "svg");
svg.setAttribute("class", "cables");
svg.setAttribute("aria-hidden", "true");

const frame = () => document.getElementById("map");
let before = null; // last ids by link
let planned = false;
let chosen = ""; // id of the thing with the pointer or the focus

// path returns the curve between two things: across the middle, or out and back on the same side.
const path = (from, to, origin) => {
  const a = from.getBoundingClientRect();
  const b = to.getBoundingClientRect();
  const rightOf = (box) => box.left < origin.left + origin.width / 2;
  const x = (box) => (rightOf(box) ? box.right : box.left) - origin.left;
  const y = (box) => box.top + box.height / 2 - origin.top;
  const bend = Math.max(Math.abs(x(a) - x(b)) / 2, 36);
  const lean = (box) => x(box) + (rightOf(box) ? bend : -bend);
  return `M${x(a)} ${y(a)}C${lean(a)} ${y(a)} ${lean(b)} ${y(b)} ${x(b)} ${y(b)}`;
};

const travel = (curve, failed) => {
  if (calm.matches) {
    return;
  }
  const dot = document.createElementNS(space, "circle");
  dot.setAttribute("r", "4.5");
  dot.setAttribute("class", failed ? "bad" : "");
  svg.append(dot);
  const length = curve.getTotalLength();
  const start = performance.now();
  const step = (now) => {
    const part = Math.min((now - start) / travelTime, 1);
    const at = curve.getPointAtLength(length * part);
    dot.setAttribute("cx", at.x);
    dot.setAttribute("cy", at.y);
    if (part < 1 && dot.isConnected) {
      requestAnimationFrame(step);
    } else {
      dot.remove();
    }
  };
  requestAnimationFrame(step);
};

const draw = () => {
  planned = false;
  const map = frame();
  if (!map) {
    return;
  }
  const origin = map.getBoundingClientRect();
  const page = svg.parentElement.getBoundingClientRect();
  svg.style.left = `${origin.left - page.left}px`;
  svg.style.top = `${origin.top - page.top}px`;
  svg.style.width = `${origin.width}px`;
  svg.style.height = `${origin.height}px`;
  const links = JSON.parse(map.dataset.links);
  const now = new Map();
  const dots = [...svg.querySelectorAll("circle")];
  const curves = [];
  for (const link of links) {
    const from = document.getElementById(link.from);
    const to = document.getElementById(link.to);
    if (!from || !to) {
      continue;
    }
    const curve = document.createElementNS(space, "path");
    curve.setAttribute("d", path(from, to, origin));
    curve.setAttribute("class", [link.bound && "bound", link.last && "used", link.failed && "bad"].filter(Boolean).join(" "));
    curve.dataset.from = link.from;
    curve.dataset.to = link.to;
    curves.push(curve);
    const key = link.from + " " + link.to;
    now.set(key, link.last);
    if (before && link.last && before.get(key) !== link.last) {
      queueMicrotask(() => travel(curve, link.failed));
    }
  }
  svg.replaceChildren(...curves, ...dots);
  before = now;
  showChosen();
};

const plan = () => {
  if (!planned) {
    planned = true;
    requestAnimationFrame(draw);
  }
};

// What has the pointer or the focus shows its own cables.
const showChosen = () => {
  svg.classList.toggle("chosen", Boolean(chosen));
  for (const curve of svg.querySelectorAll("path")) {
    curve.classList.toggle("lit", Boolean(chosen) && (curve.dataset.from === chosen || curve.dataset.to === chosen));
  }
};

const choose = (event) => {
  const left = event.type === "pointerout" || event.type === "focusout";
  chosen = left ? "" : event.target.closest?.(".thing")?.id ?? "";
  showChosen();
};

if (map) {
  // Outside of what live updates replace.
  document.getElementById("page").append(svg);
  for (const type of ["pointerover", "pointerout", "focusin", "focusout"]) {
    document.addEventListener(type, choose);
  }
  new ResizeObserver(plan).observe(document.documentElement);
  new MutationObserver((changes) => {
    if (changes.some((change) => !svg.contains(change.target))) {
      plan();
    }
  }).observe(document.getElementById("page"), {subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["data-links", "class"]});
  plan();
}
