// A client made of the TypeScript SDK 1.x, which speaks the revisions with
// sessions.
//
//   node ts-client.mjs http://host:port/mcp token [streamable|sse]
import {Client} from "@modelcontextprotocol/sdk/client/index.js"
import {SSEClientTransport} from "@modelcontextprotocol/sdk/client/sse.js"
import {StreamableHTTPClientTransport} from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import {CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema} from "@modelcontextprotocol/sdk/types.js"
import {asked, capabilities, emit, run} from "./commands.mjs"

const [url, token, way = "streamable"] = process.argv.slice(2)

await run(async () => {
  const Transport = way === "sse" ? SSEClientTransport : StreamableHTTPClientTransport
  const transport = new Transport(new URL(url), {requestInit: {headers: token ? {Authorization: `Bearer ${token}`} : {}}})
  const client = new Client({name: "ts-client", version: "1.0.0"}, {capabilities})
  for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
    client.setRequestHandler(schema, async r => asked(r.method, r.params))
  }
  client.fallbackNotificationHandler = async n => emit("notified", n)
  client.onerror = e => emit("trouble", {message: String(e.message ?? e)})
  await client.connect(transport)
  return {
    client,
    call: (params, options) => client.callTool(params, undefined, options),
    about: {
      protocol: transport.protocolVersion ?? null,
      session: transport.sessionId ?? null,
      server: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions() ?? null,
    },
    end: async () => {
      await transport.terminateSession?.()
      await client.close()
    },
  }
})
