package pace

import (
	"testing"
	"time"
)

func TestIntake(t *testing.T) {
	var in ArrivalCounter
	now := time.Unix(1000, 0)
	speech, silence := []byte{0x58, 1, 2, 3}, []byte{0x58}
	at := func(after time.Duration, packet []byte, ok bool) {
		t.Helper()
		now = now.Add(after)
		if in.Packet(now, packet) != ok {
			t.Errorf("%x: %t", packet, !ok)
		}
	}
	for range 10 { // recorded before there was a connection
		at(0, speech, true)
	}
	in.Pause()
	at(5*time.Second, speech, true) // a pause that was announced
	at(60*ms, speech, true)
	at(64*ms, silence, true)
	at(56*ms, silence, true)
	at(0, nil, false)
	at(0, []byte{0x5b, 0}, false)
	at(100*ms, silence, true)
	at(200*ms, speech, true) // more than two packets are missing
	at(5*ms, speech, true)   // right after the one before
	in.Missing(2)
	in.Dropped(3)
	got := in.Stats()
	wantJitter := Histogram{0: 1, 2: 2, 5: 1}
	if got.Jitter != wantJitter {
		t.Errorf("jitter %v", got.Jitter)
	}
	if got.Average <= 0 || got.Average > 4*ms {
		t.Errorf("average %s", got.Average)
	}
	got.Jitter, got.Average = Histogram{}, 0
	want := ArrivalStats{Packets: 17, Bytes: 14*4 + 3, Sound: 17 * 60 * ms, Silent: 3, Malformed: 2, Dropped: 3,
		Missing: 2, Gaps: 1, Bursts: 10}
	if got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if s := got.SilentShare(); s != 3.0/17 {
		t.Errorf("share %v", s)
	}
	if (ArrivalStats{}).SilentShare() != 0 {
		t.Error("a share of nothing")
	}
}
