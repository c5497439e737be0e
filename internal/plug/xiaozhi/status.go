package xiaozhi

import (
	"context"
	"time"

	"patchbay/internal/voice/pace"
)

// Status describes a board for its owner. The tool status returns it.
type Status struct {
	Online   bool      `json:"online"`
	Via      string    `json:"via,omitempty"` // store.TransportSocket or store.TransportMQTT
	Since    time.Time `json:"since,omitzero"`
	Address  string    `json:"address,omitempty"`
	Board    string    `json:"board,omitempty"`
	Firmware string    `json:"firmware,omitempty"`
	// State is asleep, idle, listening or speaking.
	State            string             `json:"state"`
	Mode             string             `json:"mode,omitempty"`
	Tools            int                `json:"tools"` // the board's own
	Waiting          int                `json:"waiting,omitempty"`
	Conversation     *conversationStats `json:"conversation,omitempty"`
	LastConversation *conversationStats `json:"last_conversation,omitempty"`
	// Listeners are active now; LastListener is the last one that ended.
	Listeners    []Listener     `json:"listeners,omitempty"`
	LastListener *Listener      `json:"last_listener,omitempty"`
	Output       map[string]any `json:"plays,omitempty"` // output format
}

// conversationStats count the audio of a conversation.
type conversationStats struct {
	Session string        `json:"session"`
	Via     string        `json:"via"`
	Began   time.Time     `json:"began"`
	Seconds float64       `json:"seconds"`
	Ended   string        `json:"ended,omitempty"`
	Up      uplinkStats   `json:"from_board"`
	Down    downlinkStats `json:"to_board"`
}

type uplinkStats struct {
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

type downlinkStats struct {
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

// stats returns the conversation's counters so far.
func (c *Conversation) stats() conversationStats {
	in := c.intake.Stats()
	c.mu.Lock()
	out, spoken, aborts := c.played, c.answerCount, c.abortCount
	c.mu.Unlock()
	return conversationStats{
		Session: c.id, Via: c.via, Began: c.began.UTC(), Seconds: time.Since(c.began).Seconds(),
		Up: uplinkStats{
			Packets: in.Packets, Bytes: in.Bytes, Seconds: in.Sound.Seconds(), Silent: in.SilentShare(),
			Malformed: in.Malformed,
			Dropped:   in.Dropped, Missing: in.Missing, Gaps: in.Gaps, Bursts: in.Bursts, JitterMS: ms(in.Average),
			Jitter99: jitter(&in.Jitter),
		},
		Down: downlinkStats{
			Answers: spoken, Packets: out.Frames, Aborted: aborts, Gaps: out.Gaps, Late: out.Late,
			LatestMS: ms(out.MaxLateness), Jitter99: jitter(&out.Jitter),
		},
	}
}

func jitter(h *pace.Histogram) float64 { return ms(h.Quantile(0.99)) }

// Status returns the board's current status.
func (b *Board) Status(ctx context.Context) Status {
	out := b.output()
	b.mu.Lock()
	s := Status{
		State: "asleep", Tools: len(b.toolset.Tools), Board: b.toolset.Board, Firmware: b.device.Version,
		LastConversation: b.lastStats,
		Output:           map[string]any{"sample_rate": out.SampleRate, "frame_ms": out.FrameDuration},
	}
	l, c := b.conn, b.conv
	s.Listeners, s.LastListener = b.listeners()
	b.mu.Unlock()
	if l != nil {
		s.Online, s.Via, s.Since, s.State = true, l.via, l.since.UTC().Truncate(time.Millisecond), "idle"
		if l.from.Addr().IsValid() {
			s.Address = l.from.Addr().String()
		}
	}
	if c != nil {
		stats := c.stats()
		s.Conversation = &stats
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
	if items, err := b.boards.Store.Outbox.For(ctx, b.number, time.Now()); err == nil {
		s.Waiting = len(items)
	}
	return s
}
