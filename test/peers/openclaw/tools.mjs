// An MCP server on standard input and output, for OpenClaw's node host to publish: its
// only tool has dots in its name, as those of voice boards have.
import readline from "node:readline";

const tool = {
  name: "self.lamp.set",
  description: "Turns the lamp on or off.",
  inputSchema: { type: "object", properties: { on: { type: "boolean" } }, required: ["on"] },
};

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "patchbay-peer-tools", version: "1" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ name, arguments: args }) => name === tool.name
    ? { content: [{ type: "text", text: `the lamp is ${args.on ? "on" : "off"}` }] }
    : { content: [{ type: "text", text: `there is no ${name}` }], isError: true },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = methods[method]
    ? { result: methods[method](params ?? {}) }
    : { error: { code: -32601, message: `no method ${method}` } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
}
