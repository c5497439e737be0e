// Signing out deletes what this device keeps of Learn, after a question if reviews wait to be
// sent. The form has the question in data-unsent.
"use strict";
document.addEventListener("submit", async e => {
  const form = e.target, name = "patchbay-learn";
  if (form.getAttribute("action") !== "/signout" || !globalThis.indexedDB?.databases) return;
  e.preventDefault();
  const ended = request => new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onblocked = () => done(); // another page has it open, and lets go of it
    request.onerror = () => failed(request.error);
  });
  try {
    if ((await indexedDB.databases()).some(db => db.name === name)) {
      const db = await ended(indexedDB.open(name));
      const all = db.objectStoreNames.contains("reviews")
        ? await ended(db.transaction("reviews").objectStore("reviews").getAll()) : [];
      db.close();
      if (all.some(r => !r.sent && !r.refused) && !await agree(form.dataset.unsent, form.querySelector("button").textContent)) return;
      await ended(indexedDB.deleteDatabase(name));
    }
    for (const kept of await globalThis.caches?.keys() ?? []) if (kept.startsWith(name)) await caches.delete(kept);
    for (const worker of await navigator.serviceWorker?.getRegistrations() ?? []) await worker.unregister();
  } catch { /* signing out matters more */ }
  form.submit();
});
