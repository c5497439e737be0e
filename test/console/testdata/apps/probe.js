// It is in the frame before the page, and tells the test what is there: other ways into a sandbox
// are closed.
addEventListener("message", async e => {
  const { probe, op, selector, value } = e.data;
  if (probe === undefined) return;
  const at = selector ? document.querySelector(selector) : null;
  const named = () => [...document.querySelectorAll("button")].find(b => b.textContent.startsWith(value));
  const ops = {
    text: () => document.body.innerText,
    count: () => document.querySelectorAll(selector).length,
    value: () => at?.value,
    attribute: () => at?.getAttribute(value) ?? null,
    press: () => { const b = named(); b?.focus(); b?.click(); return Boolean(b); },
    set: () => { at.value = value; at.dispatchEvent(new Event("input")); at.dispatchEvent(new Event("change")); },
    focus: () => document.activeElement?.textContent || document.activeElement?.tagName,
    wide: () => document.documentElement.scrollWidth - innerWidth,
    ink: () => getComputedStyle(document.body).backgroundColor,
    axe: async () => (await axe.run(document, { resultTypes: ["violations"], preload: false })).violations
      .map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join("; ")),
  };
  parent.postMessage({ probe, result: await ops[op]() }, "*");
});
