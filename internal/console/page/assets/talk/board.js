// The board: its identity, its configuration, and its conversation with the server, as firmware has
// them (xiaozhi-esp32 docs/websocket.md).

import {Tools} from "./tools.js";
import {decoder, encoder, format} from "./opus.js";

const hex = n => [...crypto.getRandomValues(new Uint8Array(n))].map(x => x.toString(16).padStart(2, "0"));

// newIdentity makes up a MAC address of the range that is nobody's, and a UUID.
function newIdentity() {
  const mac = hex(6), id = hex(16).join("");
  mac[0] = "02";
  return {mac: mac.join(":"), uuid: [id.slice(0, 8), id.slice(8, 12), "4" + id.slice(13, 16), "8" + id.slice(17, 20), id.slice(20)].join("-"), approved: false};
}

// Identity is which board this browser is for the person who is signed in. It is in the browser.
export class Identity {
  constructor(person) {
    this.key = "patchbay-board-" + person;
    Object.assign(this, newIdentity(), JSON.parse(localStorage.getItem(this.key) ?? "null"));
  }

  save() {
    const {mac, uuid, approved} = this;
    localStorage.setItem(this.key, JSON.stringify({mac, uuid, approved}));
  }

  forget() {
    localStorage.removeItem(this.key);
    Object.assign(this, newIdentity());
  }

  get headers() { return {"Device-Id": this.mac, "Client-Id": this.uuid}; }
}

// Board has one conversation at a time. It emits state (idle, connecting, listening, speaking), heard,
// said, face, alert and failed.
export class Board extends EventTarget {
  state = "idle";
  mode = "auto";
  answers = 0;

  constructor(config, identity, sound, face) {
    super();
    Object.assign(this, {config, identity, sound});
    this.tools = new Tools(face, (vision, photo, question) => this.upload(vision, photo, question));
    sound.onFrame = samples => { if (this.sends) this.encode(samples); };
  }

  // sends reports whether what the microphone hears is sent.
  get sends() { return this.state === "listening" || this.state === "speaking" && this.mode === "realtime"; }

  emit(name, detail) { this.dispatchEvent(new CustomEvent(name, {detail})); }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.emit("state", state);
  }

  // configure asks where to connect. A board that nobody has approved gets a code; approve gives it
  // to the server in the person's name.
  async configure(approve) {
    const {mac, uuid} = this.identity;
    const ask = async () => {
      const r = await fetch(this.config.ota, {method: "POST", credentials: "omit",
        headers: {...this.identity.headers, "Content-Type": "application/json", "Accept-Language": document.documentElement.lang},
        body: JSON.stringify({version: 2, language: document.documentElement.lang, mac_address: mac, uuid, application: {name: "patchbay", version: "1.0.0"}, board: {type: "browser", name: "browser", mac}})});
      if (!r.ok) throw new Error(await r.text());
      return r.json();
    };
    let answer = await ask();
    if (answer.activation) {
      await approve(answer.activation.code);
      answer = await ask();
    }
    if (!answer.websocket) throw new Error(this.config.texts.refused); // its owner wants it on MQTT
    return answer.websocket;
  }

  // connect opens the conversation.
  async connect(approve) {
    this.become("connecting");
    try {
      const {token} = await this.configure(approve);
      this.audio = await format();
      await this.open(token);
    } catch (e) {
      this.end();
      throw e;
    }
  }

  open(token) {
    const url = new URL(this.config.socket, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.search = new URLSearchParams({"device-id": this.identity.mac, "client-id": this.identity.uuid, authorization: "Bearer " + token, "protocol-version": 1});
    const socket = this.socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.send({type: "hello", version: 1, transport: "websocket", features: {mcp: true}, audio_params: this.audio});
    socket.onmessage = ({data}) => { if (this.socket === socket) this.receive(data); };
    return new Promise((ready, failed) => {
      this.ready = ready;
      socket.onclose = () => {
        failed(new Error(this.config.texts.refused));
        if (this.socket === socket) this.end();
      };
    });
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({session_id: this.session ?? "", ...message}));
  }

  // end ends the conversation.
  end() {
    this.socket?.close();
    this.socket = this.session = null;
    this.sound.close();
    this.become("idle");
  }

  listen() {
    this.send({type: "listen", state: "start", mode: this.mode});
    this.become("listening");
  }

  // release ends what is said in mode manual.
  release() {
    if (this.state !== "listening") return;
    this.send({type: "listen", state: "stop"});
    this.become("waiting");
  }

  ask(text) { this.send({type: "listen", state: "detect", text}); }

  // interrupt stops the answer. The server says when it is over.
  interrupt() {
    this.send({type: "abort"});
    this.sound.clear();
    this.deaf = true; // to what is on its way
  }

  receive(data) {
    if (typeof data !== "string") {
      if (this.state === "speaking" && !this.deaf) this.decoder.decode(data);
      return;
    }
    const message = JSON.parse(data);
    this["on" + message.type]?.(message);
  }

  onhello({session_id, audio_params}) {
    this.session = session_id;
    this.encode = encoder(this.audio, packet => { if (this.sends) this.socket.send(packet); });
    this.decoder = decoder(audio_params, (samples, rate) => { if (!this.deaf) this.sound.play(samples, rate); });
    this.become("waiting");
    this.ready();
  }

  onstt({text}) { this.emit("heard", text); }
  onllm({emotion}) { this.emit("face", emotion); }
  onalert({status, message}) { this.emit("alert", status + ": " + message); }
  onsystem({command}) { if (command === "reboot") location.reload(); }

  async onmcp({payload}) {
    const answer = await this.tools.answer(payload);
    if (answer) this.send({type: "mcp", payload: answer});
  }

  async ontts({state, text}) {
    switch (state) {
    case "start":
      this.deaf = false;
      this.answers++;
      this.sound.clear();
      this.become("speaking");
      break;
    case "sentence_start":
      this.emit("said", text);
      break;
    case "stop": {
      if (this.state !== "speaking") return;
      const answer = this.answers;
      await this.decoder.flush();
      await this.sound.finish();
      if (this.state !== "speaking" || this.answers !== answer) return;
      if (this.mode === "auto") this.listen();
      else this.become(this.mode === "realtime" ? "listening" : "waiting");
    }
    }
  }

  // upload sends a photo to where the server said, and returns what is seen in it.
  async upload(vision, photo, question) {
    if (!vision?.url) throw new Error("Image explain URL or token is not set");
    const form = new FormData();
    form.append("question", question);
    form.append("file", photo, "camera.jpg");
    const r = await fetch(this.config.vision, {method: "POST", body: form, credentials: "omit",
      headers: {...this.identity.headers, Authorization: "Bearer " + (vision.token ?? "")}});
    if (!r.ok) throw new Error("Failed to upload photo");
    return r.text();
  }
}
