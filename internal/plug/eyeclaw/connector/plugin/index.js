// The entry of the plugin: a service that keeps the connection to Patchbay, and the tools that the
// agent has while it answers a question that came over it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Kept } from "./kept.js";
import { Link, parseConnection } from "./link.js";
import { Turns, turnOf } from "./turns.js";
import { toolNames, toolsOf } from "./tools.js";

const { version } = JSON.parse(readFileSync(new URL("./package.json", import.meta.url), "utf8"));

export default {
  id: "patchbay",
  name: "Patchbay",
  description: "Answers for a bot of Patchbay: glasses, voice boards and programs ask this agent",

  register(api) {
    let link;
    let turns;
    api.registerService({
      id: "patchbay-link",
      start({ stateDir }) {
        const { connection, agent } = api.pluginConfig ?? {};
        if (!connection) {
          api.logger.warn("not connected: set plugins.entries.patchbay.config.connection to what Patchbay printed");
          return;
        }
        const kept = new Kept(stateDir ? join(stateDir, "patchbay", "answers") : "", connection, api.logger);
        turns = new Turns(api, { agent, kept, send: (message) => link.send(message) });
        link = new Link({
          ...parseConnection(connection),
          log: api.logger,
          // What this side works on, so that Patchbay knows which answers go on.
          hello: () => ({ type: "hello", version, openclaw: api.runtime.version, sessions: turns.running() }),
          onUp: () => turns.resend(),
          onMessage: (message) => turns.handle(message),
        });
        link.start();
      },
      async stop() {
        // The link goes first: what the runs would say about their end is not an answer. Patchbay
        // asks again, or tells the asker, when the plugin is back; it gets what was complete then.
        link?.stop();
        await turns?.stop();
        link = turns = undefined;
      },
    });
    api.registerTool((context) => toolsOf(turnOf(context.toolBindings)), { names: toolNames });
  },
};
