// The button that lets this browser get reminders. It has data-push, the key of the server, and
// data-denied, what is said if the browser does not allow it.
"use strict";
document.addEventListener("click", async e => {
  const button = e.target.closest("[data-push]");
  if (!button) return;
  button.disabled = true;
  try {
    if (await Notification.requestPermission() !== "granted") throw new Error("denied");
    await navigator.serviceWorker.register("/learn/worker.js", { scope: "/learn" });
    const { pushManager } = await navigator.serviceWorker.ready;
    const key = Uint8Array.from(atob(button.dataset.push.replaceAll("-", "+").replaceAll("_", "/")), c => c.charCodeAt(0));
    let subscription;
    try {
      subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    } catch (failed) { // it is subscribed with the key of an older installation
      await (await pushManager.getSubscription())?.unsubscribe();
      subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    }
    const answer = await fetch("/learn/push", { method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify(subscription) });
    if (!answer.ok) throw new Error(answer.status);
    location.assign("/learn/settings?pushed=1");
  } catch {
    button.disabled = false;
    document.getElementById("push-told").textContent = button.dataset.denied;
  }
});
for (const button of document.querySelectorAll("[data-push]")) {
  button.hidden = !("PushManager" in globalThis && navigator.serviceWorker);
}
