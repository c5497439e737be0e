// The connection to Patchbay: an ActionCable channel over a WebSocket that this side opens, and
// opens again whenever it ends.

// A server sends a ping frame every 3 s. One that is silent for this long is gone.
const staleAfter = 10_000;
const firstDelay = 500;
const maxDelay = 30_000;
// A key that is refused may be good again after the bot's owner has changed it here or there.
const refusedDelay = 60_000;

/** Splits the setting "connection": http(s)://KEY@HOST[:PORT][/PATH]. */
export function parseConnection(connection) {
  let url;
  try {
    url = new URL(connection);
  } catch {
    throw new Error("connection is not an address such as https://KEY@board.example.org");
  }
  const secure = { "https:": true, "wss:": true, "http:": false, "ws:": false }[url.protocol];
  const token = decodeURIComponent(url.username);
  if (secure === undefined || !token) {
    throw new Error("connection must have the form https://KEY@HOST");
  }
  if (!secure && !isNearby(url.hostname)) {
    throw new Error(`connection must begin with https://: anybody on the way to ${url.hostname} could read the key`);
  }
  const path = url.pathname.replace(/\/+$/, "");
  return { address: `${secure ? "wss" : "ws"}://${url.host}${path}/cable`, token };
}

/** Reports whether a host is on this machine or in a private network. */
function isNearby(host) {
  const name = host.toLowerCase().replace(/\.$/, "").replace(/^\[|\]$/g, "");
  return name === "localhost" || name.endsWith(".local") || name.endsWith(".ts.net") ||
    /^(127\.|10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.)[\d.]+$/.test(name) ||
    /^(::1$|fe[89ab][0-9a-f]:|f[cd][0-9a-f]{2}:)/.test(name);
}

// Announces this plugin, so that Patchbay sends what an EyeClaw plugin does not understand.
const identifier = JSON.stringify({ channel: "BotChannel", connector: 1 });

export class Link {
  #options;
  #socket;
  #up = false;
  #stopped = false;
  #delay = firstDelay;
  #timer; // until the next attempt, or until the server counts as gone
  #complained = "";

  /** @param options address, token, log, hello(), onUp(), onMessage(message) */
  constructor(options) {
    this.#options = options;
  }

  start() {
    this.#connect();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#up = false;
    this.#socket?.close(1000);
    this.#socket = undefined;
  }

  /** Sends a message if there is a connection. Who needs it to arrive sends it again in onUp. */
  send(message) {
    if (this.#up) {
      this.#command("message", { data: JSON.stringify(message) });
    }
  }

  #command(command, more) {
    try {
      this.#socket.send(JSON.stringify({ command, identifier, ...more }));
    } catch {
      // the socket has just ended, and its close event follows
    }
  }

  #connect() {
    const { address, token, log } = this.#options;
    const socket = new WebSocket(address, {
      protocols: ["actioncable-v1-json"],
      headers: { Authorization: `Bearer ${token}` },
    });
    this.#socket = socket;
    this.#watch();
    let refused = false;
    socket.onmessage = ({ data }) => {
      if (this.#socket !== socket) {
        return;
      }
      this.#watch();
      let frame;
      try {
        frame = JSON.parse(data);
      } catch {
        return;
      }
      if (!frame || typeof frame !== "object") {
        return;
      }
      switch (frame.type) {
        case "welcome":
          this.#command("subscribe", {});
          break;
        case "ping":
          // The server finds out soon, too, if nothing arrives any more.
          this.send({ type: "pong" });
          break;
        case "confirm_subscription":
          this.#up = true;
          this.#delay = firstDelay;
          this.#complained = "";
          log.info("connected to Patchbay");
          this.send(this.#options.hello());
          this.#options.onUp();
          break;
        case "reject_subscription":
          refused = true;
          this.#complain("Patchbay refuses the connection: the key in the setting \"connection\" is that of another kind of bot");
          socket.close(1000);
          break;
        case "disconnect":
          refused = frame.reconnect === false;
          if (refused) {
            this.#complain(`Patchbay refuses the connection: ${frame.reason}; is the key in the setting "connection" still good?`);
          }
          break;
        default:
          if (frame.message) {
            try {
              this.#options.onMessage(frame.message);
            } catch (error) {
              // An exception here would end the whole gateway.
              log.error(`a message of Patchbay could not be handled: ${error}`);
            }
          }
      }
    };
    const ended = () => {
      if (this.#socket !== socket) {
        return;
      }
      this.#socket = undefined;
      if (this.#up) {
        log.info("the connection to Patchbay ended; connecting again");
      } else if (!refused) {
        this.#complain("Patchbay cannot be reached; trying again");
      }
      this.#up = false;
      this.#later(refused ? refusedDelay : this.#nextDelay());
    };
    socket.onclose = ended;
    socket.onerror = ended;
  }

  // Says the same thing once, not at every attempt.
  #complain(text) {
    if (this.#complained !== text) {
      this.#complained = text;
      this.#options.log.warn(text);
    }
  }

  #nextDelay() {
    const delay = this.#delay * (0.75 + Math.random() / 2);
    this.#delay = Math.min(this.#delay * 2, maxDelay);
    return delay;
  }

  #later(delay) {
    clearTimeout(this.#timer);
    if (!this.#stopped) {
      this.#timer = setTimeout(() => this.#connect(), delay);
    }
  }

  // Counts the server as gone after a silence. A socket whose other side has vanished says nothing
  // of it for minutes.
  #watch() {
    clearTimeout(this.#timer);
    if (this.#stopped) {
      return;
    }
    const socket = this.#socket;
    this.#timer = setTimeout(() => {
      socket.close();
      socket.onclose({});
    }, staleAfter);
  }
}
