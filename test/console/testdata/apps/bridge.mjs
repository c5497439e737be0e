// A host by the official library.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

let bridge = null;
host.show = async (path, context) => {
  await bridge?.close();
  host.renew();
  host.ready = false;
  bridge = new AppBridge(null, { name: "bridge", version: "1" },
    host.capabilities || { serverTools: {}, updateModelContext: { text: {} } }, { hostContext: context });
  bridge.oninitialized = () => { host.ready = true; };
  bridge.onsizechange = size => { host.size = size; };
  bridge.oncalltool = params => host.answer(params);
  bridge.onupdatemodelcontext = async params => { host.contexts.push(params.content[0].text); return {}; };
  const transport = new PostMessageTransport(frame.contentWindow, frame.contentWindow);
  transport.onerror = error => host.wrong.push(String(error));
  await bridge.connect(transport);
  await host.open(path);
};
host.input = args => bridge.sendToolInput({ arguments: args });
host.result = result => bridge.sendToolResult(result);
host.cancel = () => bridge.sendToolCancelled({ reason: "user" });
host.change = changed => bridge.sendHostContextChange(changed);
host.end = () => bridge.teardownResource({});
window.host = host;
