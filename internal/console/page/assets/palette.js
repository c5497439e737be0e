// The command palette: Ctrl+K, ⌘K, or a link to /find opens it. A combobox with a list
// (WAI-ARIA 1.2, combobox): the focus stays in the field, arrows choose, Enter opens.
"use strict";
(() => {
  const palette = document.getElementById("palette");
  if (!palette) return;
  const field = palette.querySelector("input"), list = palette.querySelector("ul"), status = palette.querySelector("[role=status]");
  let chosen = -1, timer = 0;
  let asking = null; // ends the request that is under way
  let listed = null; // the query whose hits are listed; null: none, or the field has changed
  let entered = false; // Enter was pressed, and opens the first hit as soon as it is known
  const all = () => [...list.querySelectorAll("[data-href]")];

  function choose(i) {
    const options = all();
    chosen = options.length ? (i + options.length) % options.length : -1;
    options.forEach((o, n) => o.setAttribute("aria-selected", n === chosen));
    options[chosen]?.scrollIntoView({block: "nearest"});
    field.setAttribute("aria-expanded", list.childElementCount > 0);
    if (chosen < 0) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", options[chosen].id);
  }

  function show(html, query, failed) {
    list.innerHTML = html;
    listed = query;
    status.textContent = failed;
    choose(0);
    const opens = entered && all()[chosen];
    entered = false;
    if (opens) location.assign(opens.dataset.href);
  }

  // forget ends the search that is under way, as its answer is not wanted any more.
  function forget() {
    clearTimeout(timer);
    asking?.abort();
    asking = listed = null;
    entered = false;
  }

  async function search() {
    forget();
    const mine = asking = new AbortController(), query = field.value;
    try {
      const answer = await fetch(`/find?q=${encodeURIComponent(query)}`, {headers: {"HX-Request": "true"}, signal: mine.signal});
      const elsewhere = answer.headers.get("HX-Redirect"); // to sign in
      if (elsewhere) {
        location.assign(elsewhere);
        return;
      }
      if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
      const hits = await answer.text();
      if (asking === mine) show(hits, query, "");
    } catch {
      if (asking === mine) show("", null, status.dataset.failed);
    }
    if (asking === mine) asking = null;
  }

  function enter() {
    if (listed === field.value) {
      const option = all()[chosen];
      if (option) location.assign(option.dataset.href);
      return;
    }
    if (!asking) search();
    entered = true;
  }

  function open() {
    document.querySelectorAll(":popover-open").forEach(p => p.hidePopover());
    if (!palette.open) palette.showModal();
    field.select();
    search();
  }

  document.addEventListener("keydown", e => {
    if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey) return;
    e.preventDefault();
    if (palette.open) palette.close();
    else if (!document.querySelector("dialog[open]")) open();
  });
  document.addEventListener("click", e => {
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button || !e.target.closest("a[href='/find']")) return;
    e.preventDefault();
    open();
  });
  palette.addEventListener("click", e => {
    const option = e.target.closest("[data-href]");
    if (option) location.assign(option.dataset.href);
    else if (e.target === palette) palette.close();
  });
  palette.addEventListener("close", forget);
  field.addEventListener("input", () => {
    forget();
    timer = setTimeout(search, 120);
  });
  field.addEventListener("keydown", e => {
    if (e.isComposing) return;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") choose(chosen + (e.key === "ArrowDown" ? 1 : -1));
    else if (e.key === "Enter") enter();
    else return;
    e.preventDefault();
  });
})();
