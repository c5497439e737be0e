// The microphone instead of a file: what is recorded is sent as the file of the form.

import {Sound} from "./sound.js";
import {RATE} from "./opus.js";

const button = document.getElementById("record");
const form = document.getElementById("hear");
const most = 60; // seconds

// wav returns a WAV file of 16 bits (RFC 2361, and Microsoft's "Multimedia Programming Interface").
function wav(frames) {
  const length = frames.reduce((sum, frame) => sum + frame.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * length));
  const text = (at, s) => [...s].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * length, true);
  text(8, "WAVEfmt ");
  [[16, 16], [24, RATE], [28, 2 * RATE], [40, 2 * length]].forEach(([at, n]) => view.setUint32(at, n, true));
  [[20, 1], [22, 1], [32, 2], [34, 16]].forEach(([at, n]) => view.setUint16(at, n, true));
  text(36, "data");
  let at = 44;
  for (const frame of frames) for (const x of frame) {
    view.setInt16(at, Math.max(-1, Math.min(1, x)) * 0x7fff, true);
    at += 2;
  }
  return new File([view.buffer], "recording.wav", {type: "audio/wav"});
}

if (button && navigator.mediaDevices) {
  let frames, seconds;
  const sound = new Sound(frame => {
    frames?.push(frame);
    seconds += frame.length / RATE;
    if (frames && seconds > most) end();
  });
  const end = () => {
    const files = new DataTransfer();
    files.items.add(wav(frames));
    frames = null;
    sound.close();
    form.elements.file.files = files.files;
    form.requestSubmit();
  };
  button.hidden = false;
  button.onclick = async () => {
    if (frames) return end();
    try {
      await sound.open();
    } catch (e) {
      button.textContent = e.message;
      return;
    }
    [frames, seconds] = [[], 0];
    button.textContent = button.dataset.end;
  };
}
