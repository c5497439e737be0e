// A host to the letter of MCP Apps 2026-01-26: it sends nothing before the page is initialized, and
// notes what a page must not send.
const send = m => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...m }, "*");
const capabilities = { serverTools: {}, updateModelContext: { text: {} } };
let state = "", context = {}, lastId = 0;
const answers = new Map();
const handlers = {
  "ui/initialize": p => {
    if (state) host.wrong.push("initialize twice");
    if (p.protocolVersion !== "2026-01-26" || !p.appInfo?.name || !p.appInfo.version || !p.appCapabilities) {
      host.wrong.push("initialize with " + JSON.stringify(p));
    }
    state = "answered";
    return { protocolVersion: "2026-01-26", hostInfo: { name: "plain", version: "1" },
      hostCapabilities: host.capabilities || capabilities, hostContext: context };
  },
  "tools/call": p => host.answer(p),
  "ui/update-model-context": p => { host.contexts.push(p.content[0].text); return {}; },
};
addEventListener("message", async e => {
  const m = e.data;
  if (e.source !== frame.contentWindow || m.jsonrpc !== "2.0") return;
  if (m.method === undefined) return answers.get(m.id)(m.result);
  if (m.method !== "ui/initialize" && !state) host.wrong.push(m.method + " before initialize");
  if (m.id !== undefined) {
    try {
      if (!handlers[m.method]) throw new Error("Method not found: " + m.method);
      send({ id: m.id, result: await handlers[m.method](m.params) });
    } catch (error) {
      send({ id: m.id, error: { code: -32601, message: error.message } });
    }
  } else if (m.method === "ui/notifications/initialized") {
    if (state !== "answered") host.wrong.push("initialized too early");
    state = "ready";
    host.ready = true;
  } else if (m.method === "ui/notifications/size-changed") {
    host.size = m.params;
  } else {
    host.wrong.push("an unknown notification: " + m.method);
  }
});
host.show = async (path, itsContext) => {
  host.renew();
  [state, context, host.ready] = ["", itsContext, false];
  await host.open(path);
};
host.input = args => send({ method: "ui/notifications/tool-input", params: { arguments: args } });
host.result = result => send({ method: "ui/notifications/tool-result", params: result });
host.cancel = () => send({ method: "ui/notifications/tool-cancelled", params: { reason: "user" } });
host.change = changed => send({ method: "ui/notifications/host-context-changed", params: changed });
host.end = () => new Promise(resolve => {
  answers.set(++lastId, resolve);
  send({ id: lastId, method: "ui/resource-teardown", params: {} });
});
window.host = host;
