// The page of reviews that needs no server. Its texts are in data-texts of #pocket.
"use strict";
(() => {
  const root = document.getElementById("pocket");
  if (!root) return;
  const { store, Queue } = globalThis.pocket;
  const texts = JSON.parse(root.dataset.texts), lang = document.documentElement.lang;
  const TOOK_MOST = 600000; // a longer review was a break, as on the server
  const SYNC_EVERY = 60000, REFRESH_EVERY = 600000, STEP_WAIT_MOST = 86400000;

  const state = { queue: null, card: null, shown: 0, answer: false, recall: "", how: "", missing: 0, refused: [], waiting: 0,
    done: 0, whole: 0, day: 0, undoable: [], install: null, refreshed: 0 };
  let timer = 0;

  const text = (name, ...args) => args.reduce((t, a) => t.replace(/%(d|s|\.1f)/, a), texts[name] ?? name);

  // make returns an element; attributes that are functions are listeners.
  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (typeof value === "function") e.addEventListener(name, value);
      else if (value === true) e.setAttribute(name, "");
      else if (value !== false && value !== undefined) e.setAttribute(name, value);
    }
    e.append(...children.filter(c => c !== null && c !== undefined));
    return e;
  }

  // html returns an element with HTML of the server, which has made it harmless.
  function html(attributes, content) {
    const e = make("div", attributes);
    e.innerHTML = content;
    return e;
  }

  // side shows one side of the card: a card of a note in a frame of its own, as it brings its own style.
  function side(attributes, content) {
    if (!state.card.framed) return html(attributes, content);
    return make("iframe", { class: "cardframe", sandbox: "allow-same-origin", src: content, title: text("question"), "data-fits": true });
  }

  function waitText({ wait, days }) {
    if (wait > 0 && wait < 3600000) return text("minutes", Math.round(wait / 60000));
    if (wait > 0) return text("hours", Math.round(wait / 3600000));
    if (days < 60) return text("days", days);
    return days < 730 ? text("months", (days / 30.4).toFixed(1)) : text("years", (days / 365).toFixed(1));
  }

  const clock = t => new Date(t).toLocaleTimeString(lang, { hour: "2-digit", minute: "2-digit" });
  const date = day => new Date(day * 86400000).toLocaleDateString(lang, { timeZone: "UTC", dateStyle: "medium" });
  const key = name => make("kbd", { "aria-hidden": "true" }, name);

  function note(kind, ...children) {
    return make("div", { class: "note " + kind }, ...children);
  }

  // told returns what is to be said about the server and what waits for it.
  function told() {
    const list = [];
    const link = make("a", { href: "/signin?next=/learn/offline" }, text("signin"));
    if (state.how === "out") list.push(note("warn", make("p", null, text("out"), " ", link)));
    if (state.how === "other") list.push(note("warn", make("p", null, text("other"))));
    if (state.how === "failed") list.push(note("bad", make("p", null, text("failed"))));
    if (state.how === "offline") list.push(note("", make("p", null, text("offline"))));
    if (state.refused.length > 0) {
      list.push(note("bad", make("p", null, text("refused", state.refused.length)),
        make("p", { class: "small" }, [...new Set(state.refused.map(r => r.refused))].join(" ")),
        make("button", { class: "small", click: discard }, text("discard"))));
    }
    if (state.queue && today() > state.queue.pack.until) list.push(note("warn", make("p", null, text("old"))));
    return list;
  }

  const today = () => globalThis.pocket.schedule.dayOf(state.queue.pack.calendar, store.now());

  function footer() {
    const line = state.waiting > 0 ? text("waiting", state.waiting) : text("sent");
    const parts = [make("span", { id: "pocket-waiting", "data-waiting": state.waiting }, line)];
    if (state.queue) parts.push(make("span", null, text("until", date(state.queue.pack.until))));
    if (state.missing > 0) parts.push(make("span", null, text("missing", state.missing)));
    const install = state.install && make("button", { class: "small", click: install_ }, text("install"));
    return make("p", { class: "row small soft", role: "status" }, ...parts, install);
  }

  async function install_() {
    await state.install.prompt();
    state.install = null;
    draw();
  }

  async function discard() {
    await store.discard(state.refused.map(r => r.id));
    await load();
  }

  function draw() {
    clearTimeout(timer);
    const body = state.queue ? content() : [note("", make("p", null, text(state.how ? "nothing" : "loading")))];
    root.replaceChildren(...told(), ...body.filter(e => e), footer());
    root.querySelector("[data-here]")?.focus({ preventScroll: true });
  }

  function content() {
    const { next, left, later } = state.queue.at(store.now());
    if (!state.answer || !state.queue.cards.has(state.card?.id)) {
      if (state.card?.id !== next?.id) Object.assign(state, { shown: store.now(), recall: "", answer: false });
      state.card = next;
    } else {
      state.card = state.queue.cards.get(state.card.id);
    }
    if (!state.card) return ending(later);
    return [progress(left), state.answer ? answered() : asked(), acts()];
  }

  // progress counts points, not reviews: what comes again on its steps is one point still.
  function progress(left) {
    if (state.day !== today()) Object.assign(state, { day: today(), whole: 0 });
    state.whole = Math.max(state.whole, left);
    const finished = state.whole - left;
    return make("div", { class: "progress" },
      make("progress", { max: state.whole, value: finished, "aria-label": text("progress") }),
      make("span", { class: "small" }, text("number", finished, state.whole)));
  }

  function question() {
    return make("section", { class: "asked", tabindex: "-1", "aria-label": text("question"), "data-here": !state.answer },
      make("h2", { class: "unseen" }, text("question")), side({ class: "prose question" }, state.card.question));
  }

  function label() {
    const deck = state.queue.deckOf(state.card);
    return make("p", { class: "row small soft" }, make("span", null, deck.id ? deck.name : text("default")),
      ...(state.card.tags ?? []).map(t => make("span", { class: "tag" }, "#" + t)));
  }

  function asked() {
    const field = make("textarea", { name: "recall", rows: "2", maxlength: 5000, "data-enter": "empty",
      input: e => { state.recall = e.target.value; } });
    field.value = state.recall;
    return make("div", { class: "card" }, question(),
      make("form", { class: "stack", submit: reveal }, make("label", null, text("recall"), field),
        make("button", { class: "main reveal", "data-key": "Space Enter", "aria-keyshortcuts": "Space Enter" }, text("reveal"), " ",
          key(text("space")))),
      label());
  }

  function reveal(e) {
    e.preventDefault();
    state.answer = true;
    draw();
  }

  function answered() {
    const grades = state.queue.grades(state.card, store.now()).map((way, i) => make("button", {
      class: `grade g${i + 1}`, "data-key": i + 1, "aria-keyshortcuts": i + 1, click: () => grade(i + 1),
    }, make("span", null, text("grade" + (i + 1)), " ", key(i + 1)), make("span", { class: "small" }, waitText(way))));
    const recall = state.recall.trim() === "" ? null : make("section", { class: "compared", "aria-label": text("yours") },
      make("div", null, make("h2", { class: "small soft plain" }, text("yours")), make("p", { class: "kept" }, state.recall)));
    return make("div", { class: "card" }, question(),
      make("section", { class: "answer", tabindex: "-1", "aria-label": text("answer"), "data-here": true },
        make("h2", { class: "small soft plain" }, text("answer")), side({ class: "prose" }, state.card.answer)),
      recall,
      make("fieldset", { class: "stack" }, make("legend", { class: "small soft" }, text("how")),
        make("div", { class: "grades" }, ...grades)),
      label());
  }

  function acts() {
    if (state.undoable.length === 0) return null;
    return make("div", { class: "row acts" }, make("button", { class: "small", "data-key": "u", "aria-keyshortcuts": "u",
      click: undo }, text("undo"), " ", key("u")));
  }

  function ending(later) {
    if (later > 0 && later - store.now() < STEP_WAIT_MOST) timer = setTimeout(draw, Math.max(later - store.now() + 500, 1000));
    return [make("div", { class: "card", tabindex: "-1", "data-here": true }, make("h2", null, text("done")),
      make("p", null, text("count", state.done)), later > 0 ? make("p", null, text("later", clock(later))) : null), acts()];
  }

  // newID returns an ID that no other device makes.
  function newID() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, "0")).join("");
  }

  let grading = false;
  async function grade(g) {
    if (grading || !state.answer) return;
    grading = true;
    try {
      const at = store.now();
      const r = { id: newID(), person: state.queue.pack.person, point: state.card.id, grade: g, at,
        took: Math.min(Math.max(at - state.shown, 0), TOOK_MOST), recall: state.recall.trim(), sent: false, undone: false,
        refused: "" };
      await store.add(r);
      state.undoable.push(r.id);
      state.queue.apply(r);
      state.done++;
      state.waiting++;
      Object.assign(state, { answer: false, recall: "", card: null });
      draw();
    } finally {
      grading = false;
    }
    register();
    send();
  }

  async function undo() {
    const id = state.undoable.pop();
    if (!id) return;
    const r = (await store.reviews(state.queue.pack.person)).find(r => r.id === id);
    await store.undo(id, state.queue.pack.person);
    state.done = Math.max(state.done - 1, 0);
    Object.assign(state, { answer: false, recall: "", card: null });
    await load();
    if (r && state.queue.cards.has(r.point)) { // ask it again, whatever else comes first
      Object.assign(state, { card: state.queue.cards.get(r.point), answer: true, shown: store.now() });
      draw();
    }
    send();
  }

  // load reads what the device keeps, and draws it.
  async function load() {
    const pack = await store.get("pack"), all = pack ? await store.reviews(pack.person) : [];
    state.queue = pack && new Queue(pack, all.filter(r => !r.undone && !r.refused));
    state.waiting = all.filter(store.unsent).length;
    state.refused = all.filter(r => r.refused);
    const there = new Set(all.map(r => r.id));
    state.undoable = state.undoable.filter(id => there.has(id));
    draw();
  }

  async function register() {
    try {
      const worker = await navigator.serviceWorker?.getRegistration("/learn");
      if (worker?.active) await worker.sync?.register("learn-reviews");
    } catch { /* without background sync, the page sends */ }
  }

  // send sends what waits; with fresh it gets a new pack, too.
  let sending = null, again = false;
  function send(fresh = false) {
    if (sending) {
      again ||= true;
      state.refreshed = fresh ? 0 : state.refreshed;
      return sending;
    }
    return sending = (async () => {
      do {
        again = false;
        await sync(fresh);
        fresh = false;
      } while (again);
    })().finally(() => { sending = null; });
  }

  async function sync(fresh) {
    let how = await store.send();
    const due = fresh || Date.now() - state.refreshed > REFRESH_EVERY;
    // Not while an answer is shown: the question would be asked again.
    if ((how === "sent" || how === "other") && due && !state.answer) {
      how = await store.refresh();
      if (how === "sent") {
        state.refreshed = Date.now();
        how = await store.send(); // of somebody who is back
        store.keepMedia(await store.get("pack")).then(n => { state.missing = n; });
      }
    }
    state.how = how === "sent" ? "" : how;
    if (state.answer) await counts();
    else await load();
    if (!state.queue && state.how === "") state.how = "failed";
  }

  // counts shows what waits, and leaves the question alone.
  async function counts() {
    const all = await store.reviews(state.queue.pack.person);
    state.waiting = all.filter(store.unsent).length;
    root.lastElementChild?.replaceWith(footer());
  }

  addEventListener("beforeinstallprompt", e => {
    e.preventDefault();
    state.install = e;
    if (!state.answer) draw();
  });
  addEventListener("online", () => send(true));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) send();
  });
  setInterval(() => { if (!document.hidden) send(); }, SYNC_EVERY);

  async function begin() {
    await load();
    try {
      if (navigator.serviceWorker) await navigator.serviceWorker.register(root.dataset.worker, { scope: "/learn" });
    } catch { /* only pages over https, or of this machine, may have one */ }
    await send(true);
    await navigator.storage?.persist?.();
  }
  globalThis.pocket.page = { send, load, state }; // for tests
  begin();
})();
