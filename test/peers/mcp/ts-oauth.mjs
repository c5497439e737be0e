// Connects to an MCP server without a key, by OAuth: node ts-oauth.mjs URL 1|2 REDIRECT
//
// It prints {"event":"authorize","url":…} when a person has to consent, and reads the address to
// which the browser was sent then, as a line. Then it lists the tools, waits until its token has
// expired, calls the tool that TOOL names, and prints {"event":"called"}. After another line, it
// lists again: {"event":"refused","error":…} or {"event":"listed"}. DOCUMENT is the address of the
// document that describes the program; without it, the program registers itself.
import { createInterface } from "node:readline";

const [url, version, redirect] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = version === "1"
  ? { ...await import("@modelcontextprotocol/sdk/client/index.js"), ...await import("@modelcontextprotocol/sdk/client/streamableHttp.js") }
  : await import("@modelcontextprotocol/client");

const say = (event) => console.log(JSON.stringify(event));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const kept = {};
const provider = {
  redirectUrl: redirect,
  clientMetadataUrl: process.env.DOCUMENT,
  clientMetadata: {
    client_name: `TypeScript ${version}`, redirect_uris: [redirect], token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
  },
  state: () => "a state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; kept.saved = (kept.saved ?? 0) + 1; },
  redirectToAuthorization: (to) => say({ event: "authorize", url: String(to) }),
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => { kept.discovery = state; },
  discoveryState: () => kept.discovery,
};

let wire; // of the connection that is open
const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
const connect = async () => {
  const client = new Client({ name: "ts-oauth", version: "1" });
  wire = transport();
  try {
    await client.connect(wire);
    return client;
  } catch (error) {
    await finish(error);
    return connect();
  }
};
// finish takes the consent that an error asks for.
const finish = async (error) => {
  if (error.name !== "UnauthorizedError" && !/unauthorized/i.test(String(error))) throw error;
  const { value, done } = await lines.next();
  if (done) process.exit(0); // nobody consents
  const back = new URL(value);
  if (back.searchParams.get("state") !== "a state") throw new Error("another state");
  await wire.finishAuth(version === "1" ? back.searchParams.get("code") : back.searchParams);
};

let client = await connect();
const { tools } = await client.listTools();
say({ event: "listed", tools: tools.map((tool) => tool.name) });
await lines.next(); // the token has expired
let result;
try {
  result = await client.callTool({ name: process.env.TOOL, arguments: {} });
} catch (error) { // the tool needs another consent, for another grant
  await finish(error);
  client = await connect();
  result = await client.callTool({ name: process.env.TOOL, arguments: {} });
}
say({ event: "called", result, tokens: kept.saved });
await lines.next(); // it was revoked
try {
  await client.listTools();
  say({ event: "listed" });
} catch (error) {
  say({ event: "refused", error: String(error) });
}
process.exit(0);
