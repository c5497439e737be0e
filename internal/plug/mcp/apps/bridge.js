// The messages between the page and the host that shows it: JSON-RPC by postMessage. A view defines
// show(), which shows its state, and adopt(result), which takes the result of a tool.
const config = JSON.parse(document.getElementById("config").textContent);
const main = document.getElementById("main");
const view = { args: {}, show() {}, adopt() {} };
let host = {}, texts = {}, prefix = "", came = false;

const t = text => texts[text] || text;

// el makes an element. Texts of tools come in as text nodes only, never as HTML.
function el(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children.filter(c => c !== null));
  return e;
}

function fail(error) {
  const p = document.getElementById("error");
  p.textContent = error ? String(error.message || error) : "";
  p.hidden = !p.textContent;
}

const waiting = new Map();
let lastId = 0;
const send = message => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const notify = (method, params) => send({ method, params });
function request(method, params) {
  return new Promise((resolve, reject) => {
    waiting.set(++lastId, { resolve, reject });
    send({ id: lastId, method, params });
  });
}

// call calls a tool of this server through the host, by its role.
async function call(role, args) {
  const result = await request("tools/call", { name: prefix + config.tools[role], arguments: args });
  if (result.isError) throw new Error(textOf(result));
  return result;
}
const can = role => Boolean(host.serverTools && config.tools[role]);

const blocks = result => Array.isArray(result.content) ? result.content : [];
const textOf = result => blocks(result).filter(b => b.type === "text").map(b => String(b.text)).join("\n");
function dataOf(result) {
  const isObject = v => v !== null && typeof v === "object";
  if (isObject(result.structuredContent)) return result.structuredContent;
  try {
    const v = JSON.parse(textOf(result));
    return isObject(v) ? v : {};
  } catch {
    return {};
  }
}

// noCalls says why there are no buttons.
const noCalls = () => host.serverTools ? null : el("p", { className: "soft" },
  t("The buttons cannot call tools in this program. Ask in the conversation instead."));

function applyContext(context) {
  const root = document.documentElement;
  if (context.theme) root.dataset.theme = context.theme === "dark" ? "dark" : "light";
  if (context.locale) {
    const short = context.locale.split("-")[0];
    const found = [context.locale, short].find(l => Object.hasOwn(config.texts, l));
    texts = found ? config.texts[found] : {};
    root.lang = found || "en";
  }
  for (const [name, value] of Object.entries(context.styles?.variables || {})) {
    if (name.startsWith("--") && value) root.style.setProperty(name, value);
  }
  // Another installation may offer the tools under longer names.
  const name = context.toolInfo?.tool?.name || "";
  const own = Object.values(config.tools).find(n => name.endsWith(n));
  if (own) prefix = name.slice(0, -own.length);
}

function showAll() {
  if (came) view.show();
  else main.replaceChildren(el("p", { className: "soft" }, t("Waiting for the tool…")));
}

function onNotification(method, params) {
  switch (method) {
    case "ui/notifications/tool-input":
      view.args = params.arguments || {};
      break;
    case "ui/notifications/tool-result":
      came = true;
      fail(params.isError ? textOf(params) : "");
      if (!params.isError) view.adopt(params);
      showAll();
      break;
    case "ui/notifications/tool-cancelled":
      main.replaceChildren(el("p", { className: "soft" }, t("The call was cancelled.")));
      break;
    case "ui/notifications/host-context-changed":
      applyContext(params);
      showAll();
  }
}

addEventListener("message", event => {
  const m = event.data;
  if (event.source !== parent || !m || m.jsonrpc !== "2.0") return;
  if (m.method === undefined) {
    const w = waiting.get(m.id);
    waiting.delete(m.id);
    if (w && m.error) w.reject(new Error(m.error.message));
    else if (w) w.resolve(m.result);
  } else if (m.id === undefined) {
    onNotification(m.method, m.params || {});
  } else if (m.method === "ping" || m.method === "ui/resource-teardown") {
    send({ id: m.id, result: {} });
  } else {
    send({ id: m.id, error: { code: -32601, message: "Method not found" } });
  }
});

// Views begin when their script has run to its end.
queueMicrotask(async () => {
  try {
    const result = await request("ui/initialize", {
      protocolVersion: "2026-01-26", appInfo: { name: "patchbay", title: document.title, version: "1" },
      appCapabilities: { availableDisplayModes: ["inline"] },
    });
    host = result.hostCapabilities || {};
    applyContext(result.hostContext || {});
    showAll();
    notify("ui/notifications/initialized", {});
    const height = () => Math.ceil(document.documentElement.getBoundingClientRect().height);
    new ResizeObserver(() => notify("ui/notifications/size-changed", { width: innerWidth, height: height() }))
      .observe(document.documentElement);
  } catch (error) {
    fail(error);
  }
});
