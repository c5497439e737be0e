// The microphone, the speaker and the camera of the computer.

import {FRAME, RATE} from "./opus.js";

// Sound owns the audio of the page. onFrame gets what the microphone hears, in frames of 60 ms.
export class Sound {
  constructor(onFrame) {
    this.onFrame = onFrame;
  }

  // open starts the speaker, and the microphone unless it fails. It needs a click before.
  async open() {
    if (!this.context) {
      const context = new AudioContext({latencyHint: "interactive"});
      await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
      this.speaker = new AudioWorkletNode(context, "speaker", {numberOfInputs: 0, outputChannelCount: [1]});
      this.speaker.port.onmessage = () => this.over?.();
      this.volume = new GainNode(context, {gain: this.gain ?? 1});
      this.played = new AnalyserNode(context, {fftSize: 1024});
      this.heard = new AnalyserNode(context, {fftSize: 1024});
      this.speaker.connect(this.volume).connect(this.played).connect(context.destination);
      this.context = context;
    }
    await this.context.resume();
    await this.listen();
  }

  async listen() {
    if (this.microphone?.active) return;
    // The echo of the answer is removed here: a person can speak while it is heard.
    this.microphone = await navigator.mediaDevices.getUserMedia({audio: {echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1}});
    const from = this.context.createMediaStreamSource(this.microphone);
    // What 16 kHz cannot hold would come out as noise.
    const low = new BiquadFilterNode(this.context, {type: "lowpass", frequency: 7000});
    const frames = new AudioWorkletNode(this.context, "microphone", {numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit", processorOptions: {rate: RATE, frame: FRAME}});
    frames.port.onmessage = ({data}) => this.onFrame(data);
    from.connect(low).connect(frames);
    low.connect(this.heard);
  }

  // close lets the microphone go, so that the browser shows that nobody listens.
  close() {
    for (const track of this.microphone?.getTracks() ?? []) track.stop();
    this.microphone = null;
    this.clear();
    this.context?.suspend();
  }

  play(samples, rate) {
    this.speaker.port.postMessage({samples, rate}, [samples.buffer]);
  }

  // finish returns when everything has been played, or was cleared.
  finish() {
    return new Promise(over => {
      this.over = over;
      this.speaker.port.postMessage("end");
    });
  }

  clear() {
    this.speaker?.port.postMessage("clear");
    this.over?.();
  }

  setVolume(percent) {
    this.gain = percent / 100;
    if (this.volume) this.volume.gain.value = this.gain;
  }

  // level is how loud it is now, from 0 to 1: the answer, or the person.
  level(answer) {
    const node = answer ? this.played : this.heard;
    if (!node) return 0;
    const samples = new Float32Array(node.fftSize);
    node.getFloatTimeDomainData(samples);
    return Math.min(1, Math.hypot(...samples) / Math.sqrt(samples.length) * 4);
  }
}

// Camera is the camera, while the person lets it be used.
export class Camera {
  constructor(video) {
    this.video = video;
  }

  get on() { return Boolean(this.stream); }

  async open() {
    this.stream = await navigator.mediaDevices.getUserMedia({video: {width: {ideal: 1280}, facingMode: "environment"}});
    this.video.srcObject = this.stream;
    await this.video.play();
  }

  close() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = this.video.srcObject = null;
  }

  // photo returns what the camera sees as a JPEG, not larger than boards send it.
  photo() {
    const {videoWidth: width, videoHeight: height} = this.video;
    const scale = Math.min(1, 1024 / Math.max(width, height));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width * scale, height * scale];
    canvas.getContext("2d").drawImage(this.video, 0, 0, canvas.width, canvas.height);
    return new Promise(done => canvas.toBlob(done, "image/jpeg", 0.8));
  }
}
