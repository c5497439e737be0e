// The service worker of Learn: its pages open without the server, reviews are sent when it is
// back, and reminders are shown. The server puts VERSION, FILES and SCRIPTS in front of it; a new
// version of the server has other ones, so that it replaces what is kept.
"use strict";
importScripts(...SCRIPTS);

const CACHE = "patchbay-learn-" + VERSION, PAGE = "/learn/offline";
const PATIENCE = 8000; // how long the page waits for the server before the kept one is shown

self.addEventListener("install", e => e.waitUntil((async () => {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES);
  await keepPage(cache, await fetch(PAGE, { cache: "no-store" }));
  await self.skipWaiting();
})()));

self.addEventListener("activate", e => e.waitUntil((async () => {
  for (const name of await caches.keys()) {
    if (name.startsWith("patchbay-learn-") && name !== CACHE && name !== pocket.store.MEDIA) await caches.delete(name);
  }
  await self.clients.claim();
})()));

// keepPage keeps the page, unless the server asks to sign in instead, or it is one of another
// version, whose files the next worker keeps.
async function keepPage(cache, answer) {
  if (answer.ok && !answer.redirected && answer.headers.get("Patchbay-Offline") === VERSION) await cache.put(PAGE, answer.clone());
  return answer;
}

// CARD are the documents of cards, which are shown in frames.
const CARD = /^\/learn\/points\/[^/]+\/card$/;

self.addEventListener("fetch", e => {
  const { request } = e, url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin) return;
  if (CARD.test(url.pathname)) e.respondWith(kept(pocket.store.MEDIA, request));
  else if (request.mode === "navigate") e.respondWith(navigate(request, url));
  else if (url.pathname.startsWith("/assets/")) e.respondWith(kept(CACHE, request));
  else if (url.pathname.startsWith("/learn/media/")) e.respondWith(kept(pocket.store.MEDIA, request));
});

async function kept(name, request) {
  return await (await caches.open(name)).match(request, { ignoreVary: true }) ?? fetch(request);
}

// navigate shows the page of the server, and the kept one if there is no answer. Other pages wait for
// a slow server as long as the browser does.
async function navigate(request, url) {
  const cache = await caches.open(CACHE), have = await cache.match(PAGE, { ignoreVary: true });
  const quit = new AbortController(), patient = !have || url.pathname !== PAGE;
  const timer = patient ? 0 : setTimeout(() => quit.abort(), PATIENCE);
  try {
    const answer = await fetch(request, { signal: quit.signal });
    if ([502, 503, 504].includes(answer.status) && have) return have; // a proxy answers, and no server
    return url.pathname === PAGE ? await keepPage(cache, answer) : answer;
  } catch (err) {
    if (have) return have;
    throw err;
  } finally {
    clearTimeout(timer);
  }
}

self.addEventListener("sync", e => {
  if (e.tag === "learn-reviews") {
    e.waitUntil(pocket.store.send().then(how => {
      if (how === "offline") throw new Error("the server cannot be reached"); // the browser tries again
    }));
  }
});

self.addEventListener("push", e => {
  let told = {};
  try {
    told = e.data?.json() ?? {};
  } catch { /* only this server can send here; it sends JSON */ }
  e.waitUntil(self.registration.showNotification(told.title ?? "Patchbay", {
    body: told.text ?? "", tag: told.tag ?? "learn", icon: ICON, badge: ICON, data: { path: told.path ?? PAGE },
  }));
});

self.addEventListener("notificationclick", e => {
  e.notification.close();
  const path = e.notification.data?.path ?? PAGE;
  e.waitUntil((async () => {
    for (const client of await self.clients.matchAll({ type: "window" })) {
      if (new URL(client.url).pathname === path) return client.focus();
    }
    return self.clients.openWindow(path);
  })());
});
