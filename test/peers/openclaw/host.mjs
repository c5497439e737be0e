// Runs our connector as OpenClaw does, with an agent that counts: it is asked "count q1n2 5 200" and
// says q1n2p0of5 to q1n2p4of5, one every 200 ms. Starting OpenClaw takes 20 seconds; this takes a
// tenth of one, so that it can be restarted often.
//
// Usage: node host.mjs PLUGIN-FOLDER CONNECTION STATE-FOLDER. It reads commands (reload, stop) from standard
// input, and writes what happens to standard output: up and stopped, and with a question began,
// finished, delivered.

import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

// The only part of OpenClaw that the connector imports. There it gives the work a context of its own.
const guards = "export const runDetachedWebhookWork = (work) => work();";
registerHooks({
  resolve: (name, context, next) => name === "openclaw/plugin-sdk/webhook-request-guards"
    ? { url: `data:text/javascript,${encodeURIComponent(guards)}`, shortCircuit: true }
    : next(name, context),
});

const tell = (what, question = "") => process.stdout.write(`${what} ${question}\n`);

// The connector forgets a turn when Patchbay has acknowledged all of it, or when it is stopped.
const questions = new Map(); // by turn
let stopping = false;
globalThis[Symbol.for("patchbay.turns")] = new (class extends Map {
  delete(turn) {
    if (this.has(turn) && !stopping) {
      tell("delivered", questions.get(turn));
    }
    questions.delete(turn);
    return super.delete(turn);
  }
})();

async function runEmbeddedAgent({ runId, prompt, abortSignal, onAssistantMessageStart, onPartialReply }) {
  const [, question, pieces, gap] = prompt.split(" ");
  questions.set(runId, question);
  tell("began", question);
  onAssistantMessageStart();
  let text = "";
  for (let i = 0; i < pieces; i++) {
    await pause(Number(gap), undefined, { signal: abortSignal });
    text += `${question}p${i}of${pieces} `;
    onPartialReply({ text });
  }
  setImmediate(() => tell("finished", question)); // when the connector has the answer
  return { payloads: [{ text }] };
}

const [folder, connection, stateDir] = process.argv.slice(2);
const { default: plugin } = await import(pathToFileURL(`${folder}/index.js`));
let service;
plugin.register({
  pluginConfig: { connection },
  logger: {
    info: (text) => tell(text === "connected to Patchbay" ? "up" : "log", text),
    warn: (text) => tell("log", text),
    error: (text) => tell("log", text),
  },
  runtime: {
    version: "2026.9.6",
    config: { current: () => ({}) },
    agent: {
      session: {
        resolveStorePath: () => "",
        patchSessionEntry: ({ update, fallbackEntry }) => ({ ...fallbackEntry, ...update(fallbackEntry) }),
        runWithWorkAdmission: (_, run) => run(new AbortController().signal),
      },
      resolveAgentWorkspaceDir: () => "",
      ensureAgentWorkspace: () => {},
      resolveAgentDir: () => "",
      resolveAgentTimeoutMs: () => 60_000,
      runEmbeddedAgent,
    },
  },
  registerService: (s) => { service = s; },
  registerTool: () => {},
});

async function stop() {
  stopping = true;
  await service.stop();
  stopping = false;
  tell("stopped");
}

await service.start({ stateDir });
for await (const command of createInterface({ input: process.stdin })) {
  await stop();
  if (command === "stop") {
    break;
  }
  await service.start({ stateDir });
}
process.exit(0);
