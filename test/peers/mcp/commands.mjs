// What the client programs here have in common: each reads commands and prints
// events, one JSON object per line, and ends with its standard input. It ends
// with a status other than 0 if it cannot connect.
//
// A command is {"do": …, "tag": …, …}. Its answer is an event of the same name
// and tag, or {"event": "failed", "do": …, "tag": …, "code": …, "message": …}.
// What the server sends on its own is told as
//
//   {"event": "progress", "tag": …, "progress": …, "total": …}
//   {"event": "asked", "method": …, "params": …}       and answered, see below
//   {"event": "notified", "method": …, "params": …}    anything else
//   {"event": "trouble", "message": …}                 what the library reports
//
// Commands:
//
//   list, resources, templates, prompts, ping
//   call {name, args, progress: true}, cancel {call: the call's tag}
//   read {uri}, subscribe {uri}, unsubscribe {uri}
//   prompt {name, args}, complete {ref, argument}, level {level}
//   answers {elicit: result, sample: result, roots: [root]}: what is answered
//     from now on; without it a form is filled in with what its schema allows
//   listen {filter}, unlisten: only in the 2026-07-28 era
//   close
import {createInterface} from "node:readline"

export const emit = (event, more = {}) => process.stdout.write(JSON.stringify({event, ...more}) + "\n")

export const capabilities = {sampling: {}, elicitation: {}, roots: {listChanged: true}}

const answers = {
  sample: {role: "assistant", model: "peer", content: {type: "text", text: "Paris"}, stopReason: "endTurn"},
  roots: [{uri: "file:///test/root", name: "Test Root"}],
}

export function asked(method, params) {
  emit("asked", {method, params})
  switch (method) {
    case "elicitation/create": return answers.elicit ?? {action: "accept", content: fill(params.requestedSchema)}
    case "sampling/createMessage": return answers.sample
    case "roots/list": return {roots: answers.roots}
  }
}

// fill makes a form's content that its schema allows.
function fill({properties}) {
  const value = p => {
    const choice = p.enum?.[0] ?? (p.oneOf ?? p.anyOf)?.[0]?.const
    if (choice !== undefined) return choice
    switch (p.type) {
      case "string": return "Alice"
      case "boolean": return true
      case "array": return [value(p.items)]
      default: return p.minimum ?? 1
    }
  }
  return Object.fromEntries(Object.entries(properties).map(([name, p]) => [name, value(p)]))
}

// run connects and then obeys. connect returns {client, call, about, more, end}:
// the library's client, its callTool with (params, options), what to tell about
// the connection, further commands, and what ends it.
export async function run(connect) {
  let session
  try {
    session = await connect()
  } catch (e) {
    emit("failed", {do: "connect", ...told(e)})
    process.exit(1)
  }
  const {client} = session
  const running = new Map()
  const commands = {
    list: async () => ({tools: await all(c => client.listTools(c), "tools")}),
    resources: async () => ({resources: await all(c => client.listResources(c), "resources")}),
    templates: async () => ({templates: await all(c => client.listResourceTemplates(c), "resourceTemplates")}),
    prompts: async () => ({prompts: await all(c => client.listPrompts(c), "prompts")}),
    ping: () => client.ping(),
    call: async ({name, args = {}, tag, progress}) => {
      const stop = new AbortController()
      running.set(tag, stop)
      try {
        return {result: await session.call({name, arguments: args}, {
          signal: stop.signal,
          ...(progress && {onprogress: p => emit("progress", {tag, ...p})}),
        })}
      } finally {
        running.delete(tag)
      }
    },
    cancel: async ({call}) => {
      running.get(call).abort("not wanted any more")
      return {}
    },
    read: async ({uri}) => ({result: await client.readResource({uri})}),
    subscribe: ({uri}) => client.subscribeResource({uri}),
    unsubscribe: ({uri}) => client.unsubscribeResource({uri}),
    prompt: async ({name, args}) => ({result: await client.getPrompt({name, ...(args && {arguments: args})})}),
    complete: async ({ref, argument}) => ({result: await client.complete({ref, argument})}),
    level: ({level}) => client.setLoggingLevel(level),
    answers: async ({do: _, tag: __, ...more}) => Object.assign(answers, more),
    close: async () => {
      await session.end()
      return {}
    },
    ...session.more,
  }
  emit("connected", session.about)

  createInterface({input: process.stdin})
    .on("line", async line => {
      const command = JSON.parse(line)
      const {do: what, tag} = command
      try {
        emit(what, {...(await commands[what](command)), tag})
      } catch (e) {
        emit("failed", {do: what, tag, ...told(e)})
      }
    })
    .on("close", async () => {
      await session.end().catch(() => {})
      process.exit(0)
    })
}

async function all(page, what) {
  const list = []
  for (let cursor; ;) {
    const got = await page(cursor === undefined ? undefined : {cursor})
    list.push(...got[what])
    if (!(cursor = got.nextCursor)) return list
  }
}

const told = e => ({code: e?.code ?? null, message: String(e?.message ?? e), data: e?.data ?? null})
