// Answers that are complete, and of which Patchbay has not acknowledged everything, are kept in
// files. They are sent by the next process if this one ends before, even if it is killed.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// Answers are kept this long, also in memory.
export const keepFor = 15 * 60_000;

export class Kept {
  #folder;
  #bot; // whose answers they are: another one, or another Patchbay, must not get them
  #log;

  /** @param folder where nobody else has files, "" for nowhere; connection the setting */
  constructor(folder, connection, log) {
    this.#folder = folder;
    this.#bot = createHash("sha256").update(connection).digest("hex");
    this.#log = log;
  }

  /** Returns the answers that the last process has left: [{id, at, messages}]. */
  load() {
    const answers = [];
    for (const path of this.#paths()) {
      let answer;
      try {
        answer = JSON.parse(readFileSync(path, "utf8"));
      } catch {
        // It was being written when the process ended, and is no answer.
      }
      if (answer?.bot === this.#bot && Date.now() - answer.at < keepFor) {
        answers.push(answer);
      } else {
        rmSync(path, { force: true });
      }
    }
    return answers;
  }

  #paths() {
    try {
      return readdirSync(this.#folder).map((name) => join(this.#folder, name));
    } catch {
      return []; // nothing was kept yet
    }
  }

  #path(id) {
    return join(this.#folder, `${encodeURIComponent(id)}.json`);
  }

  save(id, messages) {
    if (!this.#folder) {
      return;
    }
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      const text = JSON.stringify({ id, bot: this.#bot, at: Date.now(), messages });
      writeFileSync(`${this.#path(id)}.part`, text, { mode: 0o600 });
      renameSync(`${this.#path(id)}.part`, this.#path(id));
    } catch (error) {
      this.#log.warn(`an answer would be lost if OpenClaw ended now: ${error.message}`);
    }
  }

  remove(id) {
    if (this.#folder) {
      rmSync(this.#path(id), { force: true });
    }
  }
}
