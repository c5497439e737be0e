// What this device keeps: the pack of the server, and the reviews that were made here, until the
// server has them. The page and the service worker share it.
"use strict";
(globalThis.pocket ??= {}).store = (() => {
  const NAME = "patchbay-learn", MEDIA = "patchbay-learn-media";
  const BATCH = 200; // reviews in a request; the server takes 500
  const now = () => Date.now();
  let opening = null;

  function open() {
    return opening ??= new Promise((done, failed) => {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("kept"); // "pack", "told"
        request.result.createObjectStore("reviews", { keyPath: "id" });
      };
      request.onsuccess = () => {
        const db = request.result;
        db.onversionchange = () => { // it is deleted by a sign-out in another window
          db.close();
          opening = null;
        };
        done(db);
      };
      request.onerror = () => failed(request.error);
    });
  }

  // run does something with both stores in one transaction, and waits until it is on the disk.
  async function run(mode, what) {
    const db = await open();
    return new Promise((done, failed) => {
      const tx = db.transaction(["kept", "reviews"], mode, { durability: "strict" });
      let out;
      tx.oncomplete = () => done(out);
      tx.onabort = () => failed(tx.error ?? new DOMException("aborted", "AbortError"));
      what(tx.objectStore("kept"), tx.objectStore("reviews"), value => { out = value; });
    });
  }

  const get = name => run("readonly", (kept, _, out) => {
    kept.get(name).onsuccess = e => out(e.target.result ?? null);
  });
  const put = (name, value) => run("readwrite", kept => kept.put(value, name));

  // reviews returns those of a person, by time. sent says that the server has it, as it is now;
  // undone that it was taken back; refused is what the server said against it.
  const reviews = person => run("readonly", (_, all, out) => {
    all.getAll().onsuccess = e => out(e.target.result.filter(r => r.person === person).sort((a, b) => a.at - b.at));
  });
  const add = review => run("readwrite", (_, all) => all.add(review));
  // undo takes a review back, also one that was sent and is not kept here any more.
  const undo = (id, person) => run("readwrite", (_, all) => {
    all.get(id).onsuccess = e => {
      const gone = { id, person, point: "", grade: 0, at: now(), took: 0, recall: "", refused: "" };
      all.put({ ...(e.target.result ?? gone), undone: true, sent: false });
    };
  });
  const discard = ids => run("readwrite", (_, all) => {
    for (const id of ids) all.delete(id);
  });

  const unsent = r => !r.sent && !r.refused;

  // waiting returns how many reviews of anybody the server does not have.
  const waiting = () => run("readonly", (_, all, out) => {
    all.getAll().onsuccess = e => out(e.target.result.filter(unsent).length);
  });

  // ask sends a request. The status is 0 if the server cannot be reached.
  async function ask(path, body) {
    const options = { headers: { Accept: "application/json" }, cache: "no-store", redirect: "manual" };
    if (body !== undefined) {
      Object.assign(options, { method: "POST", body: JSON.stringify(body) });
      options.headers["Content-Type"] = "application/json";
    }
    const quit = new AbortController(), timer = setTimeout(() => quit.abort(), 30000);
    try {
      const answer = await fetch(path, { ...options, signal: quit.signal });
      const json = (answer.headers.get("Content-Type") ?? "").startsWith("application/json");
      return { status: answer.status || 303, body: json ? await answer.json() : null };
    } catch {
      return { status: 0, body: null };
    } finally {
      clearTimeout(timer);
    }
  }

  // settle takes what the server said about reviews that were sent.
  const settle = (batch, results) => run("readwrite", (_, all) => {
    const told = new Map();
    for (const r of results) told.set(r.review_id, [...(told.get(r.review_id) ?? []), r]);
    for (const sent of batch) {
      const said = told.get(sent.id)?.find(r => r.status !== "early");
      if (!said) continue;
      all.get(sent.id).onsuccess = e => {
        const r = e.target.result;
        if (!r || r.undone !== sent.undone) return; // taken back meanwhile: that is still to be sent
        if (r.undone && said.status !== "refused" || said.status === "gone") all.delete(r.id);
        else all.put({ ...r, sent: said.status !== "refused", refused: said.status === "refused" ? said.error : "" });
      };
    }
  });

  // send sends what waits. It returns "sent", "offline", "out" (nobody is signed in), "other"
  // (somebody else is) or "failed". Only one page or worker sends at a time.
  async function send() {
    const doing = async () => {
      const pack = await get("pack");
      if (!pack) return "sent";
      for (let tried = new Set(); ;) {
        const batch = (await reviews(pack.person)).filter(r => unsent(r) && !tried.has(r.id)).slice(0, BATCH);
        if (batch.length === 0) return "sent";
        for (const r of batch) tried.add(r.id);
        const { status, body } = await ask("/learn/offline/reviews", {
          person: pack.person, undone: batch.filter(r => r.undone).map(r => r.id),
          reviews: batch.filter(r => !r.undone).map(r => ({ review_id: r.id, knowledge_point_id: r.point,
            grade: r.grade, at: new Date(r.at).toISOString(), took_ms: r.took, recall_text: r.recall })),
        });
        if (status === 0 || status >= 500) return "offline";
        if (status === 401) return "out";
        if (status === 409) return "other";
        if (status !== 200) return "failed";
        await settle(batch, body.results);
      }
    };
    return globalThis.navigator?.locks ? navigator.locks.request("patchbay-learn-send", doing) : doing();
  }

  // refresh gets a new pack, once all that waited is sent. What is in the pack is forgotten here.
  async function refresh() {
    const begun = new Set((await run("readonly", (_, all, out) => {
      all.getAll().onsuccess = e => out(e.target.result);
    })).filter(r => r.sent).map(r => r.id));
    const { status, body } = await ask("/learn/offline/queue");
    if (status !== 200) return status === 0 || status >= 500 ? "offline" : status === 401 ? "out" : "failed";
    await run("readwrite", (kept, all) => {
      kept.put(body, "pack");
      all.getAll().onsuccess = e => {
        for (const r of e.target.result) if (begun.has(r.id) && r.sent) all.delete(r.id);
      };
    });
    return "sent";
  }

  // keepMedia keeps pictures and sounds of the pack, and drops others. It returns how many are
  // missing.
  async function keepMedia(pack) {
    if (!globalThis.caches) return 0;
    const wanted = new Set(pack.cards.flatMap(c => c.media)), cache = await caches.open(MEDIA);
    for (const request of await cache.keys()) {
      const { pathname, search } = new URL(request.url);
      if (!wanted.delete(pathname + search)) await cache.delete(request);
    }
    let missing = 0;
    for (const path of wanted) {
      try {
        const answer = await fetch(path, { redirect: "error" });
        if (!answer.ok) throw new Error(answer.status);
        await cache.put(path, answer);
      } catch {
        missing++;
      }
    }
    return missing;
  }

  // forget deletes all that this device keeps of Learn.
  async function forget() {
    if (opening) (await opening).close();
    opening = null;
    await new Promise(done => {
      const request = indexedDB.deleteDatabase(NAME);
      request.onsuccess = request.onerror = request.onblocked = done;
    });
    for (const name of await globalThis.caches?.keys() ?? []) {
      if (name.startsWith("patchbay-learn")) await caches.delete(name);
    }
  }

  return { NAME, MEDIA, now, get, put, reviews, add, undo, discard, waiting, unsent, send, refresh, keepMedia, forget };
})();
