package xiaozhi

import (
	"context"
	"time"

	"patchbay/internal/voice/pace"
)

// Status is how a board is, for its owner. Its tool status returns it.
type Status struct {
	Online   bool      `json:"online"`
	Via      string    `json:"via,omitempty"` // websocket or mqtt
	Since    time.Time `json:"since,omitzero"`
	Address  string    `json:"address,omitempty"`
	Board    string    `json:"board,omitempty"`
	Firmware string    `json:"firmware,omitempty"`
	// State is asleep, idle, listening or speaking.
	State   string  `json:"state"`
	Mode    string  `json:"mode,omitempty"`
	Tools   int     `json:"tools"` // of its own
	Waiting int     `json:"waiting,omitempty"`
	Talk    *counts `json:"conversation,omitempty"`
	Last    *counts `json:"last_conversation,omitempty"`
	// Listeners hear or see now what is near the board; Listened is who did last.
	Listeners []Ear          `json:"listeners,omitempty"`
	Listened  *Ear           `json:"last_listener,omitempty"`
	Taking    map[string]any `json:"plays,omitempty"` // how it is sent sound
}

// counts are how the sound of a conversation has travelled.
type counts struct {
	Session string    `json:"session"`
	Via     string    `json:"via"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Ended   string    `json:"ended,omitempty"`
	Up      upCounts  `json:"from_board"`
	Down    downCount `json:"to_board"`
}

type upCounts struct {
	Packets   int     `json:"packets"`
	Bytes     int     `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	Silent    float64 `json:"silent_share"`
	Malformed int     `json:"malformed,omitempty"`
	Dropped   int     `json:"dropped,omitempty"`
	Missing   int     `json:"missing,omitempty"`
	Gaps      int     `json:"gaps,omitempty"`
	Bursts    int     `json:"bursts,omitempty"`
	JitterMS  float64 `json:"jitter_ms"`
	Jitter99  float64 `json:"jitter_p99_ms"`
}

type downCount struct {
	Answers  int     `json:"answers"`
	Packets  int     `json:"packets"`
	Aborted  int     `json:"aborted,omitempty"`
	Gaps     int     `json:"gaps,omitempty"`
	Late     int     `json:"late,omitempty"`
	LatestMS float64 `json:"latest_ms"`
	Jitter99 float64 `json:"jitter_p99_ms"`
}

func ms(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// counts are the conversation's so far.
func (c *Conversation) counts() counts {
	in := c.intake.Arrivals()
	c.mu.Lock()
	out, spoken, aborts := c.played, c.spoken, c.aborts
	c.mu.Unlock()
	return counts{
		Session: c.id, Via: c.via, Began: c.began.UTC(), Seconds: time.Since(c.began).Seconds(),
		Up: upCounts{
			Packets: in.Packets, Bytes: in.Bytes, Seconds: in.Sound.Seconds(), Silent: in.SilentShare(), Malformed: in.Malformed,
			Dropped: in.Dropped, Missing: in.Missing, Gaps: in.Gaps, Bursts: in.Bursts, JitterMS: ms(in.Average), Jitter99: jitter(&in.Jitter),
		},
		Down: downCount{
			Answers: spoken, Packets: out.Frames, Aborted: aborts, Gaps: out.Gaps, Late: out.Late, LatestMS: ms(out.Latest), Jitter99: jitter(&out.Jitter),
		},
	}
}

func jitter(h *pace.Histogram) float64 { return ms(h.Quantile(0.99)) }

// Status is how the board is now.
func (b *Board) Status(ctx context.Context) Status {
	out := b.output()
	b.mu.Lock()
	s := Status{
		State: "asleep", Tools: len(b.can.Tools), Board: b.can.Board, Firmware: b.device.Version, Last: b.last,
		Taking: map[string]any{"sample_rate": out.SampleRate, "frame_ms": out.FrameDuration},
	}
	l, c := b.line, b.talk
	s.Listeners, s.Listened = b.listeners()
	b.mu.Unlock()
	if l != nil {
		s.Online, s.Via, s.Since, s.State = true, l.via, l.since.UTC().Truncate(time.Millisecond), "idle"
		if l.from.Addr().IsValid() {
			s.Address = l.from.Addr().String()
		}
	}
	if c != nil {
		sums := c.counts()
		s.Talk = &sums
		c.mu.Lock()
		s.Mode = c.mode
		switch {
		case c.speaking:
			s.State = "speaking"
		case c.listening:
			s.State = "listening"
		}
		c.mu.Unlock()
	}
	if items, err := b.house.Store.Outbox.For(ctx, b.number, time.Now()); err == nil {
		s.Waiting = len(items)
	}
	return s
}
