// A client made of the TypeScript client 2.x, which also speaks the revision
// without sessions, 2026-07-28.
//
//   node ts-modern.mjs http://host:port/mcp token [modern|auto|legacy]
import {Client, StreamableHTTPClientTransport} from "@modelcontextprotocol/client"
import {asked, capabilities, emit, run} from "./commands.mjs"

const [url, token, era = "modern"] = process.argv.slice(2)

await run(async () => {
  const transport = new StreamableHTTPClientTransport(new URL(url), {requestInit: {headers: token ? {Authorization: `Bearer ${token}`} : {}}})
  const client = new Client({name: "ts-modern", version: "2.0.0"}, {
    capabilities,
    versionNegotiation: {mode: era === "modern" ? {pin: "2026-07-28"} : era},
  })
  for (const method of ["sampling/createMessage", "elicitation/create", "roots/list"]) {
    client.setRequestHandler(method, async r => asked(r.method, r.params))
  }
  client.fallbackNotificationHandler = async n => emit("notified", n)
  client.onerror = e => emit("trouble", {message: String(e.message ?? e)})
  await client.connect(transport)

  let subscription
  return {
    client,
    call: (params, options) => client.callTool(params, options),
    about: {
      protocol: client.getNegotiatedProtocolVersion(),
      session: transport.sessionId ?? null,
      server: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions() ?? null,
    },
    more: {
      listen: async ({filter}) => {
        subscription = await client.listen(filter)
        subscription.closed.then(how => emit("unlistened", {how}))
        return {honored: subscription.honoredFilter}
      },
      unlisten: async () => {
        await subscription.close()
        return {}
      },
    },
    end: async () => {
      await transport.terminateSession?.()
      await client.close()
    },
  }
})
