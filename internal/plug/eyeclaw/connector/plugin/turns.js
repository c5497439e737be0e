// Questions and their answers. A question runs the agent in an OpenClaw session of its
// conversation; what the agent says is sent in numbered pieces, which are kept until Patchbay has
// acknowledged them and sent again over the next connection.

import { randomUUID } from "node:crypto";
import { keepFor } from "./kept.js";
import { runDetachedWebhookWork } from "openclaw/plugin-sdk/webhook-request-guards";

// Pieces of an answer are collected this long, so that a fast model does not cost a message a word.
const collectFor = 40;
// An agent may take this long for one answer. Patchbay has limits of its own and cancels before.
const longestRun = 30 * 60_000;
// The error of an answer that a new question of the same conversation has ended. Patchbay knows it.
const interrupted = "interrupted";

// OpenClaw loads a plugin several times: the tools of a run come from another instance than the
// service. All of them find the turns here.
const turns = (globalThis[Symbol.for("patchbay.turns")] ??= new Map());

/** The turn that a run was started for. */
export function turnOf(toolBindings) {
  return turns.get(toolBindings?.patchbay?.turn);
}

export class Turns {
  #api;
  #agent;
  #send;
  #kept;
  #turns = new Map(); // by session id
  #stopped = false;

  constructor(api, { agent, kept, send }) {
    this.#api = api;
    this.#agent = agent;
    this.#send = send;
    this.#kept = kept;
    for (const { id, at, messages } of kept.load()) {
      this.#add(id).restore(messages, at);
    }
  }

  #add(id, conversation, params = {}) {
    const turn = new Turn(id, conversation, params, {
      send: (message) => this.#send(message),
      keep: (messages) => this.#kept.save(id, messages),
      forget: () => {
        this.#turns.delete(id);
        turns.delete(id);
      },
      drop: () => this.#kept.remove(id),
    });
    this.#turns.set(id, turn);
    return turn;
  }

  /** The session ids of the answers that go on, or whose end was not acknowledged. */
  running() {
    return [...this.#turns.keys()];
  }

  /** Sends again what the last connection may have lost. */
  resend() {
    for (const turn of this.#turns.values()) {
      turn.resend();
    }
  }

  handle(message) {
    switch (message.type) {
      case "execute_command":
        this.#ask(message);
        break;
      case "chunk_received":
        this.#turns.get(message.session_id)?.acknowledge(message.sequence);
        break;
      case "call_result":
        this.#turns.get(message.session_id)?.result(message);
        break;
      case "cancel":
        this.#turns.get(message.session_id)?.cancel();
        break;
    }
  }

  async stop() {
    this.#stopped = true;
    const left = [...this.#turns.values()];
    left.forEach((turn) => turn.abort());
    await Promise.allSettled(left.map((turn) => turn.done));
    left.forEach((turn) => turn.forget());
  }

  #ask(message) {
    const id = message.metadata?.session_id;
    if (!id || this.#turns.has(id) || this.#stopped) {
      return; // the same question, sent again
    }
    const conversation = message.metadata.openclaw_session_id;
    const earlier = [...this.#turns.values()].filter((turn) => turn.conversation === conversation);
    const turn = this.#add(id, conversation, message.params);
    turns.set(id, turn);
    // Who speaks again interrupts. The session is free when the earlier run has ended.
    earlier.forEach((other) => other.abort(interrupted));
    // A question arrives in the context of whatever opened the connection, which is over. It is work
    // of its own, for whose end a gateway that restarts waits.
    turn.done = runDetachedWebhookWork(async () => {
      await Promise.allSettled(earlier.map((other) => other.done));
      await this.#run(turn);
    }).catch((error) => turn.end(String(error?.message ?? error)));
  }

  async #run(turn) {
    try {
      turn.signal.throwIfAborted();
      const error = await this.#answer(turn);
      turn.signal.throwIfAborted(); // a run that is aborted may end as if it were complete
      turn.end(error);
    } catch (error) {
      const text = String((turn.signal.aborted ? turn.signal.reason : error)?.message ?? error);
      if (!turn.signal.aborted) {
        this.#api.logger.warn(`a question was not answered: ${text}`);
      }
      turn.end(text);
    }
  }

  // Runs the agent and returns the agent's own error, if it reports one.
  async #answer(turn) {
    const { agent, config } = this.#api.runtime;
    const cfg = config.current();
    const agentId = (this.#agent || defaultAgent(cfg)).toLowerCase();
    const sessionKey = `agent:${agentId}:${turn.conversation}`;
    const storePath = agent.session.resolveStorePath(cfg.session?.store, { agentId });
    const workspaceDir = agent.resolveAgentWorkspaceDir(cfg, agentId);
    await agent.ensureAgentWorkspace({ dir: workspaceDir });
    const entry = await agent.session.patchSessionEntry({
      agentId, storePath, sessionKey,
      fallbackEntry: { sessionId: "", updatedAt: Date.now() },
      update: (old) => ({ updatedAt: Date.now(), ...(old.sessionId?.trim() ? {} : { sessionId: randomUUID() }) }),
    });
    const { sessionId } = entry;
    const run = (signal) => agent.runEmbeddedAgent({
      sessionId, sessionKey, sessionTarget: { agentId, sessionId, sessionKey, storePath },
      agentId, agentDir: agent.resolveAgentDir(cfg, agentId), workspaceDir, config: cfg,
      runId: turn.id, prompt: turn.prompt, images: turn.images, trigger: "user",
      messageProvider: "patchbay", senderIsOwner: false, disableMessageTool: true,
      permissionMode: entry.permissionMode, toolOverrides: entry.toolOverrides, execSession: entry,
      verboseLevel: "off", reasoningLevel: "off", toolResultFormat: "plain",
      extraSystemPrompt: turn.instructions, toolBindings: { patchbay: { turn: turn.id } }, terminalReplyExpectation: "required",
      timeoutMs: Math.min(agent.resolveAgentTimeoutMs({ cfg }), longestRun), abortSignal: signal,
      onAssistantMessageStart: () => turn.nextMessage(),
      onPartialReply: (piece) => turn.partial(piece),
    });
    const result = await agent.session.runWithWorkAdmission({ storePath, sessionKey },
      (signal) => run(AbortSignal.any([signal, turn.signal])));
    const payloads = (result.payloads ?? []).filter((payload) => !payload.isReasoning);
    turn.whole(payloads.filter((payload) => !payload.isError).map((payload) => payload.text ?? "").join("\n\n"));
    const failed = payloads.find((payload) => payload.isError);
    return turn.isEmpty() && failed ? failed.text || "the agent failed" : "";
  }
}

function defaultAgent(cfg) {
  const agents = cfg.agents?.list ?? [];
  return (agents.find((a) => a.default) ?? agents[0])?.id ?? "main";
}

class Turn {
  #link;
  #controller = new AbortController();
  #outbox = []; // messages that were not acknowledged
  #sequence = 0;
  #calls = new Map(); // by call id: {message, settle}
  #said = ""; // of the agent's current message
  #anything = false;
  #text = ""; // collected
  #timer;
  #ended = false;

  constructor(id, conversation, params, link) {
    this.id = id;
    this.conversation = conversation;
    this.prompt = params.message || "Look at the picture.";
    this.images = (params.images ?? []).map(({ mime, data }) => ({ type: "image", mimeType: mime, data }));
    this.functions = params.functions ?? [];
    this.instructions = params.instructions;
    this.#link = link;
  }

  get signal() {
    return this.#controller.signal;
  }

  abort(reason = "nobody waits for this answer any more") {
    this.#controller.abort(new Error(reason));
  }

  /** Nobody wants the answer, or what is left of it. */
  cancel() {
    if (this.#ended) {
      this.#drop();
    } else {
      this.abort();
    }
  }

  isEmpty() {
    return !this.#anything;
  }

  /** A new message of the agent begins, as after a call of a tool. */
  nextMessage() {
    this.#said = "";
  }

  /** Adds what the agent has said meanwhile: its message so far, or what is new of it. */
  partial({ text, delta, replace }) {
    if (replace || text !== undefined) {
      this.#grow(text ?? "");
    } else if (delta) {
      this.#grow(this.#said + delta);
    }
  }

  /** Adds what the whole answer has more than the pieces. */
  whole(text) {
    if (!this.#anything || text.startsWith(this.#said)) {
      this.#grow(text);
    }
  }

  #grow(text) {
    if (!text.startsWith(this.#said)) {
      return; // it was rewritten, and nothing can be unsaid
    }
    const piece = text.slice(this.#said.length);
    if (!piece || this.#ended) {
      return;
    }
    if (!this.#said && this.#anything) {
      this.#text += "\n\n";
    }
    this.#said = text;
    this.#anything = true;
    this.#text += piece;
    this.#timer ??= setTimeout(() => this.#flush(), collectFor);
  }

  #flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#text) {
      this.#post({ type: "stream_chunk", content: this.#text });
      this.#text = "";
    }
  }

  end(error) {
    this.#flush();
    this.#ended = true;
    this.#post(error ? { type: "stream_error", error } : { type: "stream_end" });
    if (!error) {
      this.#link.keep(this.#outbox);
    }
    for (const { settle } of this.#calls.values()) {
      settle({ content: "Error: the answer has ended.", is_error: true });
    }
    this.#waitFor(keepFor);
  }

  /** Makes this the answer that an earlier process has completed. */
  restore(messages, at) {
    this.#outbox = messages;
    this.#ended = true;
    this.#waitFor(at + keepFor - Date.now());
  }

  // Waits for the acknowledgement of what is left.
  #waitFor(time) {
    this.#timer = setTimeout(() => this.#drop(), time);
    this.#timer.unref();
  }

  #drop() {
    this.forget();
    this.#link.drop();
  }

  forget() {
    clearTimeout(this.#timer);
    this.#link.forget();
  }

  #post(message) {
    const numbered = { ...message, session_id: this.id, sequence: this.#sequence++ };
    this.#outbox.push(numbered);
    this.#link.send(numbered);
  }

  acknowledge(sequence) {
    this.#outbox = this.#outbox.filter((message) => message.sequence > sequence);
    if (this.#ended && this.#outbox.length === 0) {
      this.#drop();
    }
  }

  resend() {
    this.#outbox.forEach((message) => this.#link.send(message));
    for (const { message } of this.#calls.values()) {
      this.#link.send(message);
    }
  }

  /** Calls a function of Patchbay. The result is {content, is_error}. */
  call(name, args, signal) {
    this.#flush(); // what was said before comes before
    return new Promise((resolve) => {
      const message = { type: "call", session_id: this.id, call_id: randomUUID(), name, arguments: args ?? {} };
      const settle = (result) => {
        this.#calls.delete(message.call_id);
        resolve(result);
      };
      if (this.#ended || signal?.aborted) {
        settle({ content: "Error: the answer has ended.", is_error: true });
        return;
      }
      signal?.addEventListener("abort", () => settle({ content: "Error: cancelled.", is_error: true }), { once: true });
      this.#calls.set(message.call_id, { message, settle });
      this.#link.send(message);
    });
  }

  result({ call_id, content, is_error }) {
    this.#calls.get(call_id)?.settle({ content, is_error });
  }
}
