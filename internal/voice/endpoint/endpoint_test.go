package endpoint

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/vad"
)

const frame = 60 * time.Millisecond

func recording(t testing.TB, name string) (packets [][]byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	if len(packets) == 0 || len(b) != 0 {
		t.Fatalf("%s: %d packets and %d bytes", name, len(packets), len(b))
	}
	return packets
}

func recordings(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.opk")
	if err != nil || len(names) != 10 {
		t.Fatalf("%d recordings: %v", len(names), err)
	}
	return names
}

func (e Event) String() string { return [...]string{"none", "began", "ended"}[e] }

// moment is an event and its time.
type moment struct {
	event Event
	at    time.Duration
}

func listen(d *Detector, packets [][]byte) (heard []moment) {
	var at time.Duration
	for _, p := range packets {
		at += max(opus.Duration(p), 0)
		if e := d.Packet(p); e != None {
			heard = append(heard, moment{e, at})
		}
	}
	return heard
}

// dtx is a packet of 60 ms of silence.
var dtx = []byte{0x58}

func times(n int, packets ...[]byte) [][]byte { return slices.Repeat(packets, n) }

// TestMusic checks that music which goes on after a sentence does not keep its end away.
func TestMusic(t *testing.T) {
	for _, name := range []string{"light_music10_tail40s", "light_music20_tail40s"} {
		d := New(Options{})
		heard := listen(d, recording(t, "testdata/music/"+name+".opk"))
		t.Logf("%s: %v, voiced %s", name, heard, d.VoicedDuration())
		if len(heard) != 2 || heard[1].at > 4*time.Second || d.VoicedDuration() > 2*time.Second {
			t.Errorf("%s: %v", name, heard)
		}
	}
}

// TestSilenceChanges checks that the pause that ends speech can change during the pause.
func TestSilenceChanges(t *testing.T) {
	const ms = time.Millisecond
	packets := recording(t, "testdata/05_tell_me_a_story_about_a_dog.opk")[4:20]
	for _, c := range []struct{ first, then, min, max time.Duration }{
		{1200 * ms, 300 * ms, 540 * ms, 720 * ms}, {600 * ms, 1200 * ms, 1200 * ms, 1400 * ms},
	} {
		d := New(Options{Silence: c.first})
		began := listen(d, packets)
		if len(began) != 1 || d.SureDuration() < 300*time.Millisecond || d.Loudness() <= 0 ||
			d.Lasted() < d.VoicedDuration() {
			t.Fatalf("%v, surely voice for %s, loudness %.0f", began, d.SureDuration(), d.Loudness())
		}
		for range 9 { // 540 ms
			if e := d.Packet(dtx); e != None {
				t.Fatalf("ended after %s of silence", d.Quiet())
			}
		}
		if d.Quiet() < 400*time.Millisecond {
			t.Errorf("quiet for %s after 540 ms", d.Quiet())
		}
		d.SetSilence(c.then)
		ended := time.Duration(0)
		for i := 10; ended == 0 && i < 40; i++ {
			if d.Packet(dtx) == Ended {
				ended = time.Duration(i) * frame
			}
		}
		if ended < c.min || ended > c.max {
			t.Errorf("%s, then %s: ended after %s", c.first, c.then, ended)
		}
	}
}

// TestBeganAgo has somebody speak after somebody else who was louder and has spoken for long: the
// speech lasts as long as theirs alone.
func TestBeganAgo(t *testing.T) {
	speech := recording(t, "testdata/05_tell_me_a_story_about_a_dog.opk")[4:20]
	d := New(Options{MaxSpeech: 3 * time.Second})
	if heard := listen(d, times(2, speech...)); len(heard) != 1 {
		t.Fatalf("heard %v", heard)
	}
	d.BeganAgo(MinVoice)
	if d.VoicedDuration() != MinVoice || d.Lasted() != MinVoice || d.Loudness() <= 0 {
		t.Errorf("voiced %s, lasted %s", d.VoicedDuration(), d.Lasted())
	}
	heard := listen(d, slices.Concat(times(2, speech...), times(20, dtx)))
	if len(heard) != 1 || heard[0].event != Ended || heard[0].at < 1900*time.Millisecond ||
		d.VoicedDuration() < time.Second {
		t.Errorf("heard %v, voiced %s", heard, d.VoicedDuration())
	}
}

// TestEvents repeats a sentence with pauses of all kinds.
func TestEvents(t *testing.T) {
	story := recording(t, "testdata/05_tell_me_a_story_about_a_dog.opk")
	speech := story[4:20] // without the silence at its ends
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		options Options
		packets [][]byte
		events  []Event
	}{
		"silence":              {packets: times(1000, dtx)},
		"nothing that is Opus": {packets: times(300, []byte{}, []byte{0xff}, []byte{0x5b, 0x80})},
		"speech":               {packets: speech, events: []Event{Began}},
		"it ends":              {packets: slices.Concat(speech, times(30, dtx)), events: []Event{Began, Ended}},
		"a shorter pause is enough": {options: Options{Silence: 300 * ms},
			packets: slices.Concat(speech, times(7, dtx)), events: []Event{Began, Ended}},
		"a pause that is short enough": {packets: slices.Concat(speech, times(4, dtx), speech), events: []Event{Began}},
		"twice":                        {packets: times(2, slices.Concat(speech, times(20, dtx))...), events: []Event{Began, Ended, Began, Ended}},
		"malformed packets end it":     {packets: slices.Concat(speech, times(30, []byte{})), events: []Event{Began, Ended}},
		"too long": {options: Options{MaxSpeech: 2 * time.Second}, packets: times(3, speech...),
			events: []Event{Began, Ended, Began}},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(c.options)
			var events []Event
			for _, m := range listen(d, c.packets) {
				events = append(events, m.event)
			}
			if !slices.Equal(events, c.events) {
				t.Errorf("heard %v, want %v", events, c.events)
			}
			if want := len(c.events)%2 == 1; d.IsSpeaking() != want {
				t.Errorf("speaking: %t", d.IsSpeaking())
			}
			d.Reset()
			if d.IsSpeaking() || d.VoicedDuration() != 0 || len(d.Samples()) != 0 {
				t.Error("Reset does not forget")
			}
		})
	}
}

// TestIdle checks that silence is not looked at, and that speech after it is detected all the same.
func TestIdle(t *testing.T) {
	d := New(Options{})
	refresh := recording(t, "testdata/00_turn_on_the_light_in_the_kitchen.opk")[1]
	listenOnly(d, times(10, slices.Concat(times(6, dtx), times(1, refresh))...))
	if !d.skipped || len(d.Samples()) != vad.SampleRate*60/1000 {
		t.Errorf("skipped %t, %d samples", d.skipped, len(d.Samples()))
	}
	heard := listen(d, recording(t, "testdata/08_yes.opk"))
	if len(heard) != 2 {
		t.Errorf("heard %v", heard)
	}
}

// TestPacketAllocates limits the garbage of a packet: the decoder makes some.
func TestPacketAllocates(t *testing.T) {
	packets := recording(t, "testdata/00_turn_on_the_light_in_the_kitchen.opk")
	d := New(Options{})
	if n := testing.AllocsPerRun(10, func() { listenOnly(d, packets) }); n > float64(len(packets)) {
		t.Errorf("%v allocations for %d packets", n, len(packets))
	}
}

func listenOnly(d *Detector, packets [][]byte) {
	for _, p := range packets {
		d.Packet(p)
	}
}

func BenchmarkPacket(b *testing.B) {
	packets := recording(b, "testdata/00_turn_on_the_light_in_the_kitchen.opk")
	d := New(Options{})
	for i := 0; b.Loop(); i++ {
		d.Packet(packets[i%len(packets)])
	}
}

// FuzzPacket feeds arbitrary packets to a detector. Began and Ended must alternate, and there is
// never more voice than audio.
func FuzzPacket(f *testing.F) {
	for _, name := range recordings(f) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(800), uint16(2000))
	}
	f.Add([]byte("\x00\x04\xb8abc\x00\x01\xb8\x00\x00\x00\x02\x4b\x83"), uint16(1), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, silence, longest uint16) {
		o := Options{Silence: time.Duration(silence) * time.Millisecond,
			MaxSpeech: time.Duration(longest) * time.Millisecond}
		d := New(o)
		var sound time.Duration
		for len(b) >= 2 {
			n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
			p := b[2 : 2+n]
			b = b[2+n:]
			before := d.IsSpeaking()
			e := d.Packet(p)
			sound += opus.Duration(p)
			if want := map[Event]bool{None: before, Began: true, Ended: false}[e]; d.IsSpeaking() != want ||
				e != None && before == want {
				t.Fatalf("%s, speaking before %t, after %t", e, before, d.IsSpeaking())
			}
			if d.VoicedDuration() < 0 || d.VoicedDuration() > recentWindows*window+sound {
				t.Fatalf("%s voiced in %s", d.VoicedDuration(), sound)
			}
		}
	})
}
