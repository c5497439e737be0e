// Opus by the browser's own codecs (https://www.w3.org/TR/webcodecs/), or samples of 16 bits where
// it has none.

const RATE = 16000; // Hz, of the microphone
const FRAME = 960;  // samples: 60 ms
const encoding = {codec: "opus", sampleRate: RATE, numberOfChannels: 1, bitrate: 24000,
  opus: {frameDuration: 60000, application: "voip"}};
const decoding = {codec: "opus", sampleRate: 24000, numberOfChannels: 1};

// format returns what this browser speaks, as in a hello.
export async function format() {
  const opus = {format: "opus", sample_rate: RATE, channels: 1, frame_duration: 60};
  try {
    const able = await Promise.all([AudioEncoder.isConfigSupported(encoding), AudioDecoder.isConfigSupported(decoding)]);
    if (able.every(a => a.supported)) return opus;
  } catch { /* this browser has no codecs */ }
  return {...opus, format: "pcm"};
}

// encoder returns a function that takes frames of samples; each gets the packets.
export function encoder({format}, each) {
  if (format === "pcm") return samples => each(Int16Array.from(samples, x => Math.max(-1, Math.min(1, x)) * 32767));
  let at = 0;
  const codec = new AudioEncoder({
    output(chunk) {
      const packet = new Uint8Array(chunk.byteLength);
      chunk.copyTo(packet);
      each(packet);
    },
    error(e) { console.error(e); },
  });
  codec.configure(encoding);
  return samples => {
    const data = new AudioData({format: "f32", sampleRate: RATE, numberOfFrames: samples.length, numberOfChannels: 1, timestamp: at, data: samples});
    at += samples.length / RATE * 1e6;
    codec.encode(data);
    data.close();
  };
}

// decoder returns a function that takes packets; each gets samples and their rate. flush waits until
// each has got all.
export function decoder({format, sample_rate: rate}, each) {
  if (format === "pcm") {
    return {
      decode: packet => each(Float32Array.from(new Int16Array(packet), x => x / 32768), rate),
      async flush() {},
    };
  }
  let at = 0;
  const codec = new AudioDecoder({
    output(data) {
      const samples = new Float32Array(data.numberOfFrames);
      data.copyTo(samples, {planeIndex: 0, format: "f32-planar"});
      each(samples, data.sampleRate);
      data.close();
    },
    error(e) { console.error(e); },
  });
  codec.configure(decoding);
  return {
    decode(packet) {
      codec.decode(new EncodedAudioChunk({type: "key", timestamp: at, data: packet}));
      at += 60000;
    },
    flush: () => codec.flush(),
  };
}

export {RATE, FRAME};
