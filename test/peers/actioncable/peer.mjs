// A client made of what others wrote, for the tests of /cable.
//
//   node peer.mjs rails ws://host:port/cable?… [stale threshold in seconds]
//     @rails/actioncable, with ws as its WebSocket
//   node peer.mjs plain ws://host:port/cable?…
//     ws alone, without a subprotocol, as the EyeClaw plugin uses it
//
// It reads commands and prints events, one JSON object per line, and ends with
// its standard input.
import {createInterface} from "node:readline"
import WebSocket from "ws"

const [mode, url, stale] = process.argv.slice(2)
const emit = (event, more = {}) => process.stdout.write(JSON.stringify({event, ...more}) + "\n")

// Counted tells of every socket that is tried.
class Counted extends WebSocket {
  constructor(...args) {
    super(...args)
    emit("socket")
    this.on("upgrade", r => emit("upgrade", {
      protocol: r.headers["sec-websocket-protocol"] ?? null,
      extensions: r.headers["sec-websocket-extensions"] ?? null,
    }))
    this.on("close", (code, reason) => emit("closed", {code, reason: reason.toString()}))
    this.on("error", e => emit("error", {message: e.message}))
  }
}

const commands = mode === "rails" ? await rails() : plain()

createInterface({input: process.stdin})
  .on("line", line => {
    const {do: what, ...args} = JSON.parse(line)
    commands[what](args)
  })
  .on("close", () => process.exit(0))

async function rails() {
  // What the library expects of a browser.
  globalThis.addEventListener ??= () => {}
  globalThis.removeEventListener ??= () => {}
  globalThis.document ??= {visibilityState: "visible"}
  const {default: cable} = await import("@rails/actioncable")
  cable.adapters.WebSocket = Counted
  if (stale) cable.ConnectionMonitor.staleThreshold = Number(stale)

  const consumer = cable.createConsumer(url)
  let subscription
  return {
    connect: () => consumer.connect(),
    subscribe: ({channel}) => {
      subscription = consumer.subscriptions.create(channel, {
        connected: args => emit("connected", args),
        disconnected: args => emit("disconnected", args),
        rejected: () => emit("rejected"),
        received: message => emit("received", {message}),
      })
    },
    // What the library repeats every 500 ms while it is not confirmed.
    again: () => consumer.send({command: "subscribe", identifier: subscription.identifier}),
    perform: ({action, data}) => subscription.perform(action, data),
    send: ({data}) => subscription.send(data),
    unsubscribe: () => subscription.unsubscribe(),
  }
}

function plain() {
  const ws = new Counted(url)
  ws.on("message", data => emit("frame", {frame: JSON.parse(data)}))
  ws.on("ping", () => emit("wsping"))
  return {
    send: ({data}) => ws.send(JSON.stringify(data)),
    close: () => ws.close(),
  }
}
