// The two ends of the sound, in the thread that may not be late: microphone makes frames of
// 60 ms at 16 kHz, and speaker plays what arrives, after a short wait that hides uneven arrival.

// Resampler changes the rate of a stream by straight lines between samples.
class Resampler {
  constructor(from, to) {
    this.step = from / to;
    this.at = 0; // position in the input of the next output, counted from last
    this.last = 0;
  }

  feed(samples, each) {
    for (const x of samples) {
      while (this.at < 1) {
        each(this.last + (x - this.last) * this.at);
        this.at += this.step;
      }
      this.at -= 1;
      this.last = x;
    }
  }
}

registerProcessor("microphone", class extends AudioWorkletProcessor {
  constructor({processorOptions: {rate, frame}}) {
    super();
    this.resampler = new Resampler(sampleRate, rate);
    this.frame = new Float32Array(frame);
    this.filled = 0;
  }

  process([[samples]]) {
    if (samples) this.resampler.feed(samples, x => {
      this.frame[this.filled++] = x;
      if (this.filled < this.frame.length) return;
      this.port.postMessage(this.frame.slice());
      this.filled = 0;
    });
    return true;
  }
});

// Seconds of sound that are waited for before the first is played, and again after a gap.
const WAIT = 0.12;
// The longest sound that is kept: a server that sends faster than it plays loses the rest.
const MOST = 20;

registerProcessor("speaker", class extends AudioWorkletProcessor {
  constructor() {
    super();
    this.clear();
    this.port.onmessage = ({data}) => {
      if (data === "clear") this.clear();
      else if (data === "end") this.ended = true;
      else this.add(data);
    };
  }

  clear() {
    this.queue = [];
    this.read = this.length = 0;
    this.playing = this.ended = false;
    this.resampler = null;
  }

  add({samples, rate}) {
    if (this.length > MOST * sampleRate) return;
    if (this.resampler?.step !== rate / sampleRate) this.resampler = new Resampler(rate, sampleRate);
    const out = [];
    this.resampler.feed(samples, x => out.push(x));
    this.queue.push(out);
    this.length += out.length;
    this.ended = false;
  }

  process(_, [[out]]) {
    if (!this.playing && (this.ended || this.length >= WAIT * sampleRate)) this.playing = true;
    if (this.playing) this.play(out);
    return true;
  }

  play(out) {
    let i = 0;
    while (i < out.length && this.queue.length) {
      out[i++] = this.queue[0][this.read++];
      this.length--;
      if (this.read < this.queue[0].length) continue;
      this.queue.shift();
      this.read = 0;
    }
    if (this.queue.length) return;
    this.playing = false;
    if (this.ended) this.port.postMessage("over");
    this.ended = false;
  }
});
