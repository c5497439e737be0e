// The page: its buttons, what was said, and the face of the board.

import {Board, Identity} from "./board.js";
import {Camera, Sound} from "./sound.js";

const config = JSON.parse(document.getElementById("talk-config").textContent);
const {texts} = config;
const at = id => document.getElementById(id);
const faces = {neutral: "😐", happy: "🙂", laughing: "😆", funny: "😂", sad: "😔", angry: "😠", crying: "😭", loving: "😍", embarrassed: "😳", surprised: "😯", shocked: "😱", thinking: "🤔", winking: "😉", cool: "😎", relaxed: "😌", delicious: "🤤", kissy: "😘", confident: "😏", sleepy: "😴", silly: "😜", confused: "🙄"};

const identity = new Identity(config.person);
const sound = new Sound();
const camera = new Camera(at("camera-view"));
const board = new Board(config, identity, sound, {
  get volume() { return Number(at("volume").value); },
  set volume(percent) { at("volume").value = percent; sound.setVolume(percent); },
  get theme() { return document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"); },
  set theme(name) { document.documentElement.dataset.theme = name; },
  photo() {
    if (!camera.on) throw new Error(texts.cameraOff);
    return camera.photo();
  },
});

// note shows what is wrong, or nothing.
function note(text = "") {
  at("wrong").textContent = text;
  at("wrong").hidden = !text;
}

// add adds a line to what was said. Sentences of one answer are one line.
function add(text, mine) {
  const log = at("said");
  let line = log.lastElementChild;
  if (mine || line?.className !== "said" || line.dataset.answer !== String(board.answers)) {
    line = document.createElement("div");
    line.className = mine ? "said mine" : "said";
    line.dataset.answer = board.answers;
    const who = document.createElement("span"), words = document.createElement("div");
    who.className = "unseen";
    who.textContent = mine ? texts.you : texts.bot;
    words.className = "words";
    line.append(who, words);
    log.append(line);
  }
  const words = line.lastElementChild;
  words.textContent += (words.textContent ? " " : "") + text;
  log.scrollTop = log.scrollHeight;
}

// call asks the server about this board, or changes it.
async function call(path, form) {
  const r = await fetch(path, form && {method: "POST", body: new URLSearchParams(form)});
  if (!r.headers.get("Content-Type")?.startsWith("application/json")) location.assign(config.confirm); // the password is asked for
  const answer = await r.json();
  if (!r.ok) throw new Error(answer.error);
  return answer;
}

function show(device) {
  at("device").hidden = !device;
  if (!device) return;
  at("device-name").textContent = device.name;
  at("device-name").href = "/devices/" + device.id;
  at("bot").value = device.bot;
}

// approve makes the board the person's.
async function approve(code) {
  show(await call(config.approve, {code, bot: at("bot").value}));
  identity.approved = true;
  identity.save();
}

// known reports whether the person's board is still theirs, and forgets it otherwise.
async function known() {
  if (!identity.approved) return;
  const device = await call(config.board + "?" + new URLSearchParams({device: identity.mac}));
  show(device);
  if (device) return;
  identity.forget();
  note(texts.removed);
}

async function start() {
  note();
  identity.save();
  try {
    if (navigator.mediaDevices) await sound.open();
    else note(texts.insecure);
  } catch (e) {
    note(texts.noMicrophone + " (" + e.message + ")");
  }
  try {
    await known();
    await board.connect(approve);
    if (!identity.approved) { // the server approves boards by itself, as in a demonstration
      identity.approved = true;
      identity.save();
      await known();
    }
    if (board.mode !== "manual") board.listen();
  } catch (e) {
    note(e.message);
  }
}

function toggle() {
  if (board.state === "idle") start();
  else board.end();
}

board.addEventListener("state", ({detail: state}) => {
  at("board").dataset.state = state;
  at("state").textContent = texts[state === "waiting" && board.mode === "manual" ? "hold" : state];
  at("start").textContent = state === "idle" ? texts.start : texts.end;
  at("interrupt").hidden = state !== "speaking";
  at("hold").hidden = board.mode !== "manual" || state === "idle" || state === "connecting";
  at("mode").disabled = state !== "idle";
  at("ask").disabled = state === "idle" || state === "connecting";
  if (state === "listening") at("face").textContent = faces.neutral;
});
board.addEventListener("heard", ({detail}) => add(detail, true));
board.addEventListener("said", ({detail}) => add(detail, false));
board.addEventListener("face", ({detail}) => { at("face").textContent = faces[detail] ?? faces.neutral; });
board.addEventListener("alert", ({detail}) => note(detail));

at("start").addEventListener("click", toggle);
at("interrupt").addEventListener("click", () => board.interrupt());
at("mode").addEventListener("change", e => { board.mode = e.target.value; });
at("volume").addEventListener("input", e => sound.setVolume(e.target.value));
at("say").addEventListener("submit", e => {
  e.preventDefault();
  const text = at("text").value.trim();
  if (text) board.ask(text);
  at("text").value = "";
});
at("bot").addEventListener("change", async e => {
  if (!identity.approved) return;
  try {
    show(await call(config.bot, {device: identity.mac, bot: e.target.value}));
  } catch (e) {
    note(e.message);
  }
});
at("camera").addEventListener("change", async e => {
  at("camera-view").hidden = !e.target.checked;
  if (!e.target.checked) {
    camera.close();
    return;
  }
  try {
    if (!navigator.mediaDevices) throw new Error(texts.insecure);
    await camera.open();
  } catch (error) {
    e.target.checked = false;
    at("camera-view").hidden = true;
    note(texts.noCamera + " (" + error.message + ")");
  }
});

// The button to hold, by pointer and by keyboard.
const hold = at("hold");
const press = () => {
  if (board.state === "speaking") board.interrupt();
  else if (board.state === "waiting") board.listen();
  hold.setAttribute("aria-pressed", "true");
};
const release = () => {
  board.release();
  hold.setAttribute("aria-pressed", "false");
};
hold.addEventListener("pointerdown", e => { hold.setPointerCapture(e.pointerId); press(); });
hold.addEventListener("pointerup", release);
hold.addEventListener("pointercancel", release);
hold.addEventListener("keydown", e => {
  if (e.key !== " " && e.key !== "Enter") return;
  e.preventDefault();
  if (!e.repeat) press();
});
hold.addEventListener("keyup", e => { if (e.key === " " || e.key === "Enter") release(); });
hold.addEventListener("blur", release);
hold.addEventListener("contextmenu", e => e.preventDefault()); // a long touch

// The level shows that the microphone works, and who is talking.
function draw() {
  at("level").value = board.state === "idle" ? 0 : sound.level(board.state === "speaking");
  requestAnimationFrame(draw);
}

if (!window.isSecureContext) note(texts.insecure);
known().catch(e => note(e.message));
at("start").disabled = false;
draw();
