// What pages do beside what htmx does for them. Each thing is asked for by a data
// attribute, so that pages have no script of their own:
//
//   data-copy="#id"      copies the text of an element, or what was typed into it;
//                        data-done is what the button says then
//   data-confirm="text"  asks before a form is sent
//   data-opens="#id"     opens a dialog; data-closes closes the one around it
//   data-key="a"         is pressed by that key, while nothing is typed
//   data-echo="#id"      shows the value of a slider
//   data-submits         sends its form when it changes
//   data-focus           gets the focus when it appears
"use strict";
(() => {
  const typing = e => e.target.closest("input:not([type=checkbox], [type=radio], [type=range], [type=button]), textarea, select, [contenteditable]");

  async function copy(button) {
    const from = document.querySelector(button.dataset.copy);
    const text = "value" in from ? from.value : from.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // only pages over https, or of this machine, have a clipboard
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      button.focus();
    }
    const was = button.textContent;
    if (button.dataset.done && was !== button.dataset.done) {
      button.textContent = button.dataset.done;
      setTimeout(() => { button.textContent = was; }, 1500);
    }
  }

  document.addEventListener("click", e => {
    const button = e.target.closest("[data-copy], [data-opens], [data-closes]");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    if (button.dataset.opens) document.querySelector(button.dataset.opens)?.showModal();
    if ("closes" in button.dataset) button.closest("dialog")?.close();
  });

  document.addEventListener("submit", e => {
    const text = e.submitter?.dataset.confirm ?? e.target.dataset.confirm;
    if (text && !confirm(text)) {
      e.preventDefault();
      e.stopImmediatePropagation();
    }
  }, true);

  document.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.repeat || typing(e)) return;
    const button = document.querySelector(`[data-key="${CSS.escape(e.key)}"]:not(:disabled)`);
    if (!button || button.closest("[hidden]") || document.querySelector("dialog[open]")) return;
    if (e.key === "Enter" && e.target.closest("a, button")) return;
    e.preventDefault();
    button.click();
  });

  document.addEventListener("input", e => {
    const echo = e.target.dataset?.echo;
    if (echo) document.querySelector(echo).textContent = e.target.value;
  });

  document.addEventListener("change", e => {
    if ("submits" in (e.target.dataset ?? {})) e.target.form.requestSubmit();
  });

  const appeared = root => root.querySelector?.("[data-focus]")?.focus();
  document.addEventListener("htmx:after:swap", e => appeared(e.target));
  appeared(document);
  document.querySelector(".menu [aria-current]")?.scrollIntoView({inline: "center", block: "nearest"});
})();
