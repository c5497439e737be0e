// What pages do beside what htmx does for them. Each thing is asked for by a data
// attribute, so that pages have no script of their own:
//
//   data-copy="#id"      copies the text of an element, or what was typed into it;
//                        data-done is what the button says then; without an id, the text
//                        of the program beside it
//   data-confirm="text"  asks before a form is sent
//   data-opens="#id"     opens a dialog; data-closes closes the one around it
//   data-dismisses       empties the status line around it
//   data-key="a"         is pressed by that key, or one of several with spaces between
//                        them, of which one may be Space, while nothing is typed
//   data-echo="#id"      shows the value of a slider
//   data-submits         a checkbox or a slider that sends its form when it changes; a list would
//                        do so at each key that goes through it
//   data-zone="#id"      types the time zone of the browser into a field
//   data-names           a field for files whose names are shown beside it
//   data-own-zone        a field that has the time zone of the browser from the beginning
//   data-focus           gets the focus when it appears, unless a field is invalid
//   data-enter           a text of several lines that Enter sends; Shift+Enter breaks a line;
//                        data-enter="empty" is sent also if nothing was typed
//   data-clears          a form that is emptied when its answer begins to come
//   data-focuses="#id"   a form that moves the focus there when it is sent
//   data-presses="#id"   clicks on that
//   data-preview="#id"   shows the picture that a field has chosen there, described by
//                        data-alt, with a button that says data-remove; data-most is how
//                        many bytes it may have, and data-large what is said otherwise
//   data-moves="#id"     takes over what is in there, when it appears
//   data-passkey         a form that asks the browser for a passkey ("get"), or to create one
//                        ("create"), before it is sent; it is shown if the browser can
//   data-fits            a frame that gets the height of what is in it, and is dark with the page
//   data-media           a text into which pictures and sounds can be pasted, dropped, or put by
//                        the buttons of data-inserts; "html" or "markdown" says how it names them
//   data-tail            the page stays at its end while this grows, if it is there
"use strict";
(() => {
  const typing = e => e.target.closest("input:not([type=checkbox], [type=radio], [type=range], [type=button]), textarea, select, [contenteditable]");

  async function copy(button) {
    const from = button.dataset.copy ? document.querySelector(button.dataset.copy) : button.parentElement.querySelector("pre");
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

  const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const field of document.querySelectorAll("[data-own-zone]")) field.value = ownZone();

  document.addEventListener("click", e => {
    const button = e.target.closest("[data-copy], [data-opens], [data-closes], [data-dismisses], [data-zone]");
    if (!button) return;
    if ("copy" in button.dataset) copy(button);
    if (button.dataset.zone) document.querySelector(button.dataset.zone).value = ownZone();
    if (button.dataset.opens) document.querySelector(button.dataset.opens)?.showModal();
    if ("closes" in button.dataset) button.closest("dialog")?.close();
    if ("dismisses" in button.dataset) {
      button.closest("[role=status]").replaceChildren();
      document.querySelector("#page").focus({preventScroll: true});
    }
  });

  // agree asks in a dialog whose buttons are Cancel, which has the focus, and one with a name.
  globalThis.agree = (text, name) => new Promise(decided => {
    const dialog = document.createElement("dialog"), row = document.createElement("div");
    dialog.className = "agree";
    dialog.setAttribute("role", "alertdialog");
    dialog.setAttribute("aria-labelledby", "agree-text");
    row.className = "row";
    for (const [label, value] of [[document.documentElement.dataset.cancel, ""], [name, "yes"]]) {
      const button = Object.assign(document.createElement("button"), {type: "button", textContent: label, className: value && "bad"});
      button.addEventListener("click", () => dialog.close(value));
      row.append(button);
    }
    dialog.append(Object.assign(document.createElement("p"), {id: "agree-text", textContent: text}), row);
    dialog.addEventListener("close", () => { // Escape closes without a value; the focus is back by now
      dialog.remove();
      decided(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });

  let agreed = null; // the form that is sent after the question
  document.addEventListener("submit", async e => {
    const form = e.target, by = e.submitter, text = by?.dataset.confirm ?? form.dataset.confirm;
    if (!text || form === agreed) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    const name = (by ?? form.querySelector("button")).textContent.trim();
    if (document.querySelector("dialog.agree") || !await agree(text, name) || !form.isConnected) return;
    agreed = form;
    form.requestSubmit(by?.form === form ? by : null);
    agreed = null;
  }, true);

  document.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.repeat || typing(e)) return;
    const button = document.querySelector(`[data-key~="${e.key === " " ? "Space" : CSS.escape(e.key)}"]:not(:disabled)`);
    if (!button || button.closest("[hidden]") || document.querySelector("dialog[open]")) return;
    if ((e.key === "Enter" || e.key === " ") && e.target.closest("a, button, summary, input")) return;
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

  // Who types Chinese presses Enter to choose a word, which is a keydown and no keypress.
  document.addEventListener("keypress", e => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing || !("enter" in (e.target.dataset ?? {}))) return;
    e.preventDefault();
    const form = e.target.form;
    if (e.target.value.trim() || e.target.dataset.enter === "empty" || form.querySelector(".chosen img")) form.requestSubmit();
  });

  document.addEventListener("submit", e => {
    if (e.target.dataset.focuses) document.querySelector(e.target.dataset.focuses)?.focus({preventScroll: true});
  });

  const passkeys = globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON && PublicKeyCredential;
  const offer = root => {
    if (passkeys) root.querySelectorAll?.("form[data-passkey]").forEach(f => { f.hidden = false; });
  };
  document.addEventListener("submit", async e => {
    const form = e.target, kind = form.dataset.passkey;
    if (!kind) return;
    e.preventDefault();
    if (!passkeys) return;
    const options = JSON.parse(form.elements.options.value);
    try {
      const found = kind === "create"
        ? await navigator.credentials.create({publicKey: passkeys.parseCreationOptionsFromJSON(options)})
        : await navigator.credentials.get({publicKey: passkeys.parseRequestOptionsFromJSON(options)});
      form.elements.reply.value = JSON.stringify(found);
    } catch (failed) {
      if (failed.name === "NotAllowedError" || failed.name === "AbortError") return; // the person changed their mind
      form.elements.reply.value = failed.name; // the server says why it did not work
    }
    form.submit();
  });

  document.addEventListener("htmx:sse:after:connection", e => {
    if ("clears" in (e.target.dataset ?? {})) e.target.reset();
  });

  document.addEventListener("click", e => {
    const button = e.target.closest("[data-presses]");
    if (button) document.querySelector(button.dataset.presses)?.click();
  });

  function preview(field) {
    const box = document.querySelector(field.dataset.preview);
    const large = field.files[0]?.size > Number(field.dataset.most);
    field.setCustomValidity(large ? field.dataset.large : "");
    if (large) field.reportValidity();
    for (const other of field.form.querySelectorAll("[data-preview]")) {
      if (other !== field) {
        other.value = "";
        other.setCustomValidity("");
      }
    }
    box.replaceChildren();
    if (!field.files.length || large) return;
    const img = new Image();
    img.src = URL.createObjectURL(field.files[0]);
    img.alt = box.dataset.alt;
    const remove = document.createElement("button");
    remove.type = "button";
    remove.textContent = box.dataset.remove;
    remove.addEventListener("click", () => {
      field.value = "";
      box.replaceChildren();
      field.focus();
    });
    box.append(img, remove);
  }

  document.addEventListener("change", e => {
    if (e.target.dataset?.preview) preview(e.target);
  });

  function showNames() {
    for (const field of document.querySelectorAll("[data-names]")) {
      const beside = field.parentElement.querySelector("[data-none]");
      beside.textContent = [...field.files].map(f => f.name).join(", ") || beside.dataset.none;
    }
  }
  document.addEventListener("change", e => { if ("names" in (e.target.dataset ?? {})) showNames(); });
  document.addEventListener("reset", () => setTimeout(showNames));
  addEventListener("pageshow", showNames);

  const page = document.scrollingElement;
  let tail = true;
  const toTail = () => { if (tail) page.scrollTop = page.scrollHeight; };
  document.addEventListener("scroll", () => { tail = page.scrollTop + innerHeight > page.scrollHeight - 120; }, {passive: true});
  const grown = new MutationObserver(() => {
    for (const to of document.querySelectorAll("[data-moves]")) {
      to.replaceChildren(...document.querySelectorAll(`${to.dataset.moves} > :not(button)`));
      document.querySelector(to.dataset.moves).replaceChildren();
      to.removeAttribute("data-moves");
    }
    toTail();
  });
  for (const log of document.querySelectorAll("[data-tail]")) {
    grown.observe(log, {childList: true, subtree: true});
    log.addEventListener("load", toTail, true);
    addEventListener("resize", toTail);
    toTail();
  }

  // A card must not grow with the frame that grows with it, so there is an end to it.
  const isDark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "")) === "dark";
  function fit(frame) {
    const inside = frame.contentDocument, card = inside?.getElementById("qa");
    if (!card) return;
    inside.body.classList.toggle("nightMode", isDark());
    inside.body.classList.toggle("night_mode", isDark());
    const height = Math.ceil(card.getBoundingClientRect().bottom + inside.documentElement.scrollTop + 16);
    const wanted = `${Math.min(Math.max(height, 48), innerHeight * 3)}px`;
    if (frame.style.height === wanted || (frame.fitted = (frame.fitted ?? 0) + 1) > 40) return;
    frame.style.height = wanted;
  }
  const fitAll = () => document.querySelectorAll("iframe[data-fits]").forEach(fit);
  document.addEventListener("load", e => { if (e.target.dataset && "fits" in e.target.dataset) { e.target.fitted = 0; fit(e.target); } }, true);
  addEventListener("resize", () => { document.querySelectorAll("iframe[data-fits]").forEach(f => { f.fitted = 0; }); fitAll(); });
  setInterval(fitAll, 300);
  // Who clicks on a card goes on with the keys of the page.
  addEventListener("blur", () => setTimeout(() => {
    if (document.activeElement?.matches?.("iframe[data-fits]:hover")) { document.activeElement.blur(); focus(); }
  }, 50));

  let written = null; // the text that was typed into last
  document.addEventListener("focusin", e => { if (e.target.dataset?.media) written = e.target; });
  async function insert(field, files) {
    const bar = field.form.querySelector("[data-inserts]"), status = bar.querySelector("[role=status]");
    for (const file of files) {
      const body = new FormData();
      body.append("file", file, file.name);
      let name = "";
      try {
        const answer = await fetch("/learn/media", {method: "POST", body, headers: {Accept: "text/plain"}});
        const text = await answer.text();
        status.textContent = answer.ok ? "" : text;
        if (!answer.ok) continue;
        name = text;
      } catch {
        status.textContent = bar.dataset.failed;
        continue;
      }
      const ref = !file.type.startsWith("image/") ? `[sound:${name}]` : field.dataset.media === "html" ? `<img src="${encodeURIComponent(name)}">` : `![](${encodeURIComponent(name)})`;
      field.setRangeText(ref, field.selectionStart, field.selectionEnd, "end");
      field.dispatchEvent(new Event("input", {bubbles: true}));
      field.focus();
    }
  }
  for (const kind of ["paste", "drop"]) {
    document.addEventListener(kind, e => {
      const field = e.target.closest?.("textarea[data-media]"), files = (e.clipboardData ?? e.dataTransfer)?.files;
      if (!field || !files?.length) return;
      e.preventDefault();
      insert(field, [...files]);
    });
  }
  const target = bar => written?.form === bar.closest("form") ? written : bar.closest("form").querySelector("textarea[data-media]");
  document.addEventListener("change", e => {
    const bar = e.target.closest?.("[data-inserts]");
    if (!bar || !e.target.files?.length) return;
    insert(target(bar), [...e.target.files]);
    e.target.value = "";
  });
  let recorder = null;
  document.addEventListener("click", async e => {
    const button = e.target.closest("[data-records]");
    if (!button) return;
    if (recorder) {
      recorder.stop();
      return;
    }
    const bar = button.closest("[data-inserts]"), label = button.textContent;
    try {
      const sound = await navigator.mediaDevices.getUserMedia({audio: true}), parts = [];
      recorder = new MediaRecorder(sound);
      recorder.addEventListener("dataavailable", p => parts.push(p.data));
      recorder.addEventListener("stop", () => {
        const type = recorder.mimeType.split(";")[0];
        recorder = null;
        button.textContent = label;
        sound.getTracks().forEach(track => track.stop());
        insert(target(bar), [new File(parts, `recording.${type.includes("mp4") ? "m4a" : type.includes("ogg") ? "ogg" : "weba"}`, {type})]);
      });
      recorder.start();
      button.textContent = button.dataset.stop;
    } catch {
      recorder = null;
      bar.querySelector("[role=status]").textContent = bar.dataset.failed;
    }
  });

  const appeared = root => {
    for (const bar of root.querySelectorAll?.("[data-inserts]") ?? []) {
      bar.hidden = false;
      bar.querySelector("[data-records]").hidden = !globalThis.MediaRecorder || !navigator.mediaDevices;
    }
    fitAll();
    showNames();
    offer(root);
    (root.querySelector?.("[aria-invalid=true]") ?? root.querySelector?.("[data-focus]"))?.focus();
  };
  document.addEventListener("htmx:after:swap", e => appeared(e.target));
  appeared(document);
  for (const item of document.querySelectorAll(":is(.menu, .tabs) [aria-current]")) item.scrollIntoView({inline: "center", block: "nearest"});
})();
