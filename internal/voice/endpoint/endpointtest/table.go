package endpointtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/opus"
)

const (
	frame = 60 * time.Millisecond
	// pause is what follows each utterance, in samples.
	pause = 3 * second
)

// Noise is what is behind the speech, and how loud it is.
type Noise struct {
	name string
	of   background
	snr  float64 // how much the speech is louder, in dB
}

func (n Noise) String() string {
	if n.of == nil {
		return n.name
	}
	return fmt.Sprintf("%s %g dB", n.name, n.snr)
}

// Noises are those of the table.
var Noises = []Noise{{name: "quiet"}, {"white", white, 10}, {"fan", fan, 10}, {"fan", fan, 5}, {"music", music, 20},
	{"music", music, 10}, {"babble", babble, 15}, {"babble", babble, 8}}

// Counts is how often something went wrong, of a number of utterances: nobody was heard, the end
// was found in a pause within, or not at all, or a beginning where nobody spoke.
type Counts struct {
	Utterances  int             `json:"utterances"`
	Missed      int             `json:"missed"`
	Cut         int             `json:"cut"`
	Stuck       int             `json:"stuck"`
	FalseStarts int             `json:"false_starts"`
	Delays      []time.Duration `json:"-"` // from the end of the speech to its detection, sorted
}

// Delay returns a quantile of the delays.
func (c *Counts) Delay(part float64) time.Duration {
	if len(c.Delays) == 0 {
		return 0
	}
	return c.Delays[min(int(part*float64(len(c.Delays))), len(c.Delays)-1)]
}

// Listen says clips twice with a noise behind them, as a board would send it, and compares what is
// detected with what was said. The voices of babble are those of all. With dtx, the board sends
// nothing while it hears nothing.
func Listen(ctx context.Context, clips, all []Clip, n Noise, dtx bool) (c Counts, err error) {
	encoders := opus.NewEncoderPool(1)
	defer encoders.Close(context.WithoutCancel(ctx)) //nolint:errcheck // its encoder is returned
	random := rand.New(rand.NewPCG(1, 2))
	for _, of := range clips {
		packets, err := encode(ctx, encoders, n.behind(random, of, all), dtx)
		if err != nil {
			return c, err
		}
		c.add(listen(packets), of)
	}
	slices.Sort(c.Delays)
	return c, nil
}

// behind returns a clip twice, each followed by a pause, with the noise.
func (n Noise) behind(random *rand.Rand, c Clip, all []Clip) []int16 {
	each := len(c.pcm) + pause
	pcm := make([]int16, pause+2*each)
	var noise []float64
	scale := 0.0
	if n.of != nil {
		noise = n.of(random, len(pcm), all)
		scale = c.loudness / rms(noise) * math.Pow(10, -n.snr/20)
	}
	for i := range pcm {
		v := 0.0
		if k := i - pause; k >= 0 && k%each < len(c.pcm) {
			v = c.pcm[k%each]
		}
		if noise != nil {
			v += scale * noise[i]
		}
		pcm[i] = int16(max(math.MinInt16, min(math.MaxInt16, v)))
	}
	return pcm
}

// Television has a television play for so long, with voices and music, and nobody speak. It returns
// how long each utterance lasted that was heard, and how much of it was heard at the end.
func Television(ctx context.Context, all []Clip, length time.Duration) (ended []time.Duration, last time.Duration,
	err error) {
	encoders := opus.NewEncoderPool(1)
	defer encoders.Close(context.WithoutCancel(ctx)) //nolint:errcheck // its encoder is returned
	random := rand.New(rand.NewPCG(1, 2))
	n := int(length * second / time.Second)
	voices, tune := babble(random, n, all), music(random, n, all)
	const loudness = math.MaxInt16 / 10
	ofVoices, ofTune := loudness/rms(voices), loudness/rms(tune)/10
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(max(math.MinInt16, min(math.MaxInt16, ofVoices*voices[i]+ofTune*tune[i])))
	}
	packets, err := encode(ctx, encoders, pcm, true)
	if err != nil {
		return nil, 0, err
	}
	began := time.Duration(-1)
	for _, m := range listen(packets) {
		switch m.event {
		case endpoint.Began:
			began = m.at
		case endpoint.Ended:
			ended = append(ended, m.at-began)
			began = -1
		}
	}
	if began >= 0 {
		last = length - began
	}
	return ended, last, nil
}

func encode(ctx context.Context, encoders *opus.EncoderPool, pcm []int16, dtx bool) (packets [][]byte, err error) {
	e := opus.Encoding{SampleRate: second, Frame: frame, DTX: dtx}
	encoder, err := encoders.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer encoder.Close()
	for n := e.Samples(); len(pcm) >= n; pcm = pcm[n:] {
		p, err := encoder.Encode(pcm[:n], nil)
		if err != nil {
			return nil, err
		}
		packets = append(packets, p)
	}
	return packets, nil
}

// moment is an event and its time.
type moment struct {
	event endpoint.Event
	at    time.Duration
}

func listen(packets [][]byte) (heard []moment) {
	d := endpoint.New(endpoint.Options{})
	var at time.Duration
	for _, p := range packets {
		at += max(opus.Duration(p), 0)
		if e := d.Packet(p); e != endpoint.None {
			heard = append(heard, moment{e, at})
		}
	}
	return heard
}

// add compares what was heard with a clip that was said twice.
func (c *Counts) add(heard []moment, of Clip) {
	each := len(of.pcm) + pause
	for k := range 2 {
		first := pause + k*each
		c.compare(heard, at(first+of.begin), at(first+of.end), at(first+each))
	}
	for _, m := range heard {
		if m.event == endpoint.Began && m.at < at(pause+of.begin) {
			c.FalseStarts++
		}
	}
}

// compare looks for one utterance in the events.
func (c *Counts) compare(heard []moment, begin, end, next time.Duration) {
	c.Utterances++
	speaking, began, ended := false, false, false
	for _, m := range heard {
		if m.at >= next {
			break
		}
		switch m.event {
		case endpoint.Began:
			speaking = true
			began = began || m.at >= begin && m.at < end+300*time.Millisecond
			if m.at > end+time.Second {
				c.FalseStarts++
			}
		case endpoint.Ended:
			began = began || speaking && m.at > begin // somebody in the background had begun
			speaking = false
			switch {
			case m.at > begin && m.at < end:
				c.Cut++
			case m.at >= end && !ended:
				ended = true
				c.Delays = append(c.Delays, m.at-end)
			}
		}
	}
	began = began || speaking
	if !began {
		c.Missed++
	}
	if began && !ended {
		c.Stuck++
	}
}
