package endpoint_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"patchbay/internal/voice/endpoint"
	"patchbay/internal/voice/endpoint/endpointtest"
	"patchbay/internal/voice/opus"
)

func clips(t testing.TB) []endpointtest.Clip {
	t.Helper()
	list, err := endpointtest.Clips("..")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestPhrases checks that every phrase begins soon after it begins to be audible, and ends once, on
// time after its end. The first of two recordings must not change the result of the second.
func TestPhrases(t *testing.T) {
	d := endpoint.New(endpoint.Options{})
	for _, c := range clips(t) {
		var began, ended []time.Duration
		at := time.Duration(0)
		for _, p := range c.Packets {
			at += opus.Duration(p)
			switch d.Packet(p) {
			case endpoint.Began:
				began = append(began, at-c.Begin)
			case endpoint.Ended:
				ended = append(ended, at-c.End)
			}
		}
		switch {
		case c.Packets == nil:
		case len(began) != 1 || len(ended) != 1:
			t.Errorf("%s: begins %d times, ends %d times", c.Name, len(began), len(ended))
		default:
			t.Logf("%s: begins after %s, ends after %s, voiced %s", c.Name, began[0], ended[0], d.VoicedDuration())
			if began[0] > 360*time.Millisecond || ended[0] < 600*time.Millisecond || ended[0] > 960*time.Millisecond {
				t.Errorf("%s: begins after %s, ends after %s", c.Name, began[0], ended[0])
			}
			if d.VoicedDuration() < endpoint.MinVoice || d.VoicedDuration() > c.End-c.Begin+200*time.Millisecond {
				t.Errorf("%s: %s voiced, of %s", c.Name, d.VoicedDuration(), c.End-c.Begin)
			}
		}
	}
}

// TestTable says all clips with backgrounds of all kinds, and limits how often an utterance is
// missed, has no end, or is invented. With CHECK_ALL it uses all clips and backgrounds.
func TestTable(t *testing.T) {
	all := clips(t)
	some, variants := all[10:], []bool{true}
	full := os.Getenv("CHECK_ALL") != ""
	if full {
		some, variants = all, []bool{true, false}
	}
	// Of 30 utterances. Only "no" may be missed, and only in loud noise. The clips have four pauses
	// that are long enough to end an utterance.
	const pauses = 4
	limits := map[string]endpointtest.Counts{"white 10 dB": {Missed: 1}, "fan 5 dB": {Missed: 1},
		"babble 15 dB": {Stuck: 1, FalseStarts: 99}, "babble 8 dB": {Stuck: 8, FalseStarts: 99}}
	always := map[string]bool{"quiet": true, "music 10 dB": true}
	for _, noise := range endpointtest.Noises {
		name := noise.String()
		if !always[name] && !full {
			continue
		}
		for _, dtx := range variants {
			r, err := endpointtest.Listen(t.Context(), some, all, noise, dtx)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-12s DTX %5t  missed %d/%d  cut %d  stuck %d  false starts %d  end after p50 %s, p95 %s", name, dtx,
				r.Missed, r.Utterances, r.Cut, r.Stuck, r.FalseStarts, r.Delay(.5), r.Delay(.95))
			if limit := limits[name]; r.Missed > limit.Missed || r.Stuck > limit.Stuck ||
				r.FalseStarts > limit.FalseStarts || r.Cut > pauses || r.Delay(.5) > 900*time.Millisecond {
				t.Errorf("%s, DTX %t: %+v", name, dtx, r)
			}
		}
	}
}

// TestTelevision checks that an utterance ends after 20 s in a room where voices never stop.
func TestTelevision(t *testing.T) {
	ended, last, err := endpointtest.Television(t.Context(), clips(t), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const longest = 20*time.Second + 120*time.Millisecond // two packets
	if len(ended) == 0 || slices.Max(ended) < 19*time.Second {
		t.Errorf("no utterance lasts until the limit: %v", ended)
	}
	if last > longest || len(ended) > 0 && slices.Max(ended) > longest {
		t.Errorf("an utterance has no end: %v, and %v at the end", ended, last)
	}
}
