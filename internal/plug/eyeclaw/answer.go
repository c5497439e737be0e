package eyeclaw

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/talk"
)

var errAway = errors.New("the plugin is not connected")

// Answer implements [talk.Bot]: it asks the plugin and emits what comes. It has
// no patience of its own except for a plugin that is gone: that may take the
// grace time to come back.
func (h *hub) Answer(ctx context.Context, asked *talk.Turn, emit talk.Emit) error {
	if strings.TrimSpace(asked.Text()) == "" && len(asked.Images()) == 0 {
		return talk.Fail(talk.Unreadable, "", errors.New("the question is empty"))
	}
	t, err := h.openTurn(asked)
	if err != nil {
		return err
	}
	defer h.closeTurn(t)
	if err := h.command(ctx, t, asked); err != nil {
		return err
	}
	for {
		n := h.next(t)
		switch {
		case n.piece != "":
			if err := emit(talk.Text(n.piece)); err != nil {
				h.cancel(t)
				return err
			}
			continue
		case n.done:
			return n.err
		case n.again:
			if err := h.command(ctx, t, asked); err != nil {
				return err
			}
			continue
		}
		if err := t.wait(ctx, n.look); err != nil {
			if unwanted(ctx) {
				h.cancel(t)
			}
			return err
		}
	}
}

// wait returns when there may be something new: at the latest after the given
// time, if that is not zero.
func (t *turn) wait(ctx context.Context, look time.Duration) error {
	var timer <-chan time.Time
	if look > 0 {
		timer = time.After(look)
	}
	select {
	case <-t.wake:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// unwanted says that the context ended because nobody wants the answer, rather
// than because the program stops.
func unwanted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	if errors.Is(cause, talk.ErrHungUp) || errors.Is(cause, context.DeadlineExceeded) {
		return true
	}
	f, ok := errors.AsType[*talk.Failure](cause)
	return ok && f.Code == talk.TimedOut
}

func (h *hub) openTurn(asked *talk.Turn) (*turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		return nil, talk.Fail(talk.Offline, "", errAway)
	}
	if h.turns[asked.ID] != nil {
		return nil, talk.Fail(talk.Internal, "", fmt.Errorf("turn %s runs already", asked.ID))
	}
	t := &turn{id: asked.ID, lang: asked.Lang, wake: make(chan struct{}, 1)}
	h.turns[t.id] = t
	return t, nil
}

// closeTurn ends our interest. If the plugin has not ended the turn, it goes on
// collecting its text.
func (h *hub) closeTurn(t *turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.turns, t.id)
	if !t.sent {
		return
	}
	if t.settled && t.err == nil {
		h.totals.Answers++
		h.answer = time.Now()
	} else {
		h.totals.Failures++
	}
	h.leaves(t)
	h.s.log.Debug("cable: turn closed", "bot", h.bot.Number, "turn", t.id, "chunks", t.received, "bytes", t.text.Len(),
		"summary", t.summary != nil, "overlapped", t.overlapped, "dropped", t.dropped, "failed", t.err != nil)
}

// step is what Answer does next.
type step struct {
	piece string
	done  bool
	err   error
	again bool          // the command never left and has to be sent again
	look  time.Duration // when to look again, if nothing happens before; zero if not
}

func (h *hub) next(t *turn) step {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if t.err != nil || t.holding && !now.Before(t.holdEnd) {
		t.holding, t.free = false, t.text.Len()
	}
	if t.err == nil && !t.settled && (t.ended && t.summary != nil || !t.settleBy.IsZero() && !now.Before(t.settleBy)) {
		h.settle(t)
	}
	if t.taken < t.free {
		piece := t.text.String()[t.taken:t.free]
		t.taken = t.free
		return step{piece: piece}
	}
	if t.over() {
		return step{done: true, err: t.err}
	}
	var look time.Duration
	until := func(at time.Time) {
		if d := at.Sub(now); look == 0 || d < look {
			look = max(d, time.Millisecond)
		}
	}
	if !t.settleBy.IsZero() {
		until(t.settleBy)
	}
	if t.holding {
		until(t.holdEnd)
	}
	if !t.lostAt.IsZero() {
		if !t.delivered.Load() {
			return step{again: true}
		}
		back := t.lostAt.Add(h.s.opt.Grace)
		if !now.Before(back) || h.moved {
			t.fail(t.breakOff("the plugin's connection was lost and it did not come back in time"))
			return step{done: true, err: t.err}
		}
		until(back)
	}
	return step{look: look}
}

// settle ends an answer: what the summary has more is put behind what was
// received. The caller holds h.mu.
func (h *hub) settle(t *turn) {
	t.settled = true
	text := t.text.String()
	held := text[t.free:]
	rest, anomaly := receipt{
		told: text[:t.free], held: held, chunks: t.received, overlapped: t.overlapped, spill: t.spill,
	}.settle(t.summary)
	if anomaly != "" {
		h.anomaly(anomaly)
	}
	t.holding = false
	if rest == held {
		t.free = len(text)
		return
	}
	more := utf8.RuneCountInString(rest) - utf8.RuneCountInString(held)
	h.totals.Compensated += int64(more)
	h.s.metrics.compensated.Add(float64(more))
	// The builder begins anew: what was told stays counted, the rest is the truth.
	told := text[:t.free]
	t.text.Reset()
	t.text.WriteString(told)
	t.text.WriteString(rest)
	t.free = t.text.Len()
}

func (h *hub) anomaly(kind string) {
	h.totals.Anomalies++
	h.s.metrics.anomalies.WithLabelValues(kind).Inc()
}

// command sends the question over the best socket. If there is none, it waits
// for the plugin to come back, as long as the grace time lasts.
func (h *hub) command(ctx context.Context, t *turn, asked *talk.Turn) error {
	for {
		c, ident, err := h.dispatch(ctx, t)
		if err != nil {
			return err
		}
		question := h.question(c, asked)
		if question.Params.Message == "" {
			return talk.Fail(talk.Unreadable, "", errors.New("nothing in the question can be put into words"))
		}
		if c.send(outbound{frame: messageFrame(ident, question), taken: &t.delivered}) {
			if c.quietFor() > h.s.opt.Timings.Ping {
				c.probe() // a socket that fell silent shows itself before the person gives up
			}
			return nil
		}
	}
}

// dispatch picks the socket and notes that the turn runs on it.
func (h *hub) dispatch(ctx context.Context, t *turn) (c *conn, ident rawJSON, err error) {
	for {
		h.mu.Lock()
		if h.retired {
			h.mu.Unlock()
			return nil, nil, talk.Fail(talk.Offline, "", errAway)
		}
		if c = h.line(); c != nil {
			t.conn, t.sent, t.lostAt = c, true, time.Time{}
			t.spill = h.spill.copy()
			t.spill.unsure = t.spill.unsure || len(h.lines()) > 1 // each plugin has leavings of its own
			h.ask(t.id)
			ident = c.ident
			h.mu.Unlock()
			return c, ident, nil
		}
		if h.moved {
			h.mu.Unlock()
			return nil, nil, talk.ErrMoved
		}
		changed := h.changed
		var left time.Duration
		switch {
		case !h.gone.IsZero():
			left = time.Until(h.gone.Add(h.s.opt.Grace))
		case len(h.lines()) > 0:
			left = h.s.opt.Grace // they are dead and about to leave
		}
		h.mu.Unlock()
		if left <= 0 {
			return nil, nil, talk.Fail(talk.Offline, "", errAway)
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// cancel tells the plugin that nobody wants the answer. EyeClaw's own plugin
// does not know the word and goes on; other connectors may stop.
func (h *hub) cancel(t *turn) {
	h.mu.Lock()
	c := t.conn
	var ident rawJSON
	if c != nil {
		ident = c.ident
	}
	_, working := h.asked[t.id]
	h.mu.Unlock()
	if c == nil || ident == nil || !working {
		return
	}
	select {
	case c.out <- outbound{frame: messageFrame(ident, cancelMessage{"cancel", t.id})}:
	default: // it is a courtesy, not worth waiting for
	}
}

// commandMessage asks the plugin a question. Of all this, EyeClaw's plugin uses
// params.message, session_id and openclaw_session_id; the rest is for others.
type commandMessage struct {
	Type      string          `json:"type"`
	Command   string          `json:"command"`
	Params    commandParams   `json:"params"`
	Metadata  commandMetadata `json:"metadata"`
	Timestamp string          `json:"timestamp"`
}

type commandParams struct {
	Message string `json:"message"`
}

type commandMetadata struct {
	Source           string           `json:"source"`
	AgentID          string           `json:"agent_id"`
	UserID           string           `json:"user_id"`
	FullMessages     []lingzhuMessage `json:"full_messages"`
	OriginalMetadata json.RawMessage  `json:"original_metadata"`
	SessionID        string           `json:"session_id"`
	OpenClawSession  string           `json:"openclaw_session_id"`
	TraceID          string           `json:"trace_id"`
}

// lingzhuMessage is a message in the shape in which the glasses' platform sends
// it.
type lingzhuMessage struct {
	Role     string  `json:"role"`
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *string `json:"image_url"`
}

var (
	sayPhoto   = talk.Say{Zh: "用户拍了一张照片：%s", En: "The user took a photo: %s"}
	sayNoPhoto = talk.Say{Zh: "用户拍了一张照片，但照片无法转发。", En: "The user took a photo, but it cannot be passed on."}
)

func (h *hub) question(c *conn, asked *talk.Turn) commandMessage {
	base := strings.TrimSuffix(or(h.s.opt.PublicURL, c.base), "/")
	var lines []string
	var full []lingzhuMessage
	for _, p := range asked.Parts {
		if p.Text != "" {
			lines = append(lines, p.Text)
			full = append(full, lingzhuMessage{Role: "user", Type: "text", Text: &p.Text})
		}
		if p.Image == nil {
			continue
		}
		m := lingzhuMessage{Role: "user", Type: "image"}
		if p.Image.Media == "" {
			lines = append(lines, sayNoPhoto.In(asked.Lang))
		} else {
			address := base + "/media/" + p.Image.Media
			m.ImageURL = &address
			lines = append(lines, sayPhoto.In(asked.Lang, address))
		}
		full = append(full, m)
	}
	source := asked.Door
	if source == "lingzhu" {
		source = "rokid_lingzhu"
	}
	metadata := asked.Metadata
	if len(metadata) == 0 || !json.Valid(metadata) {
		metadata = json.RawMessage("{}")
	}
	return commandMessage{
		Type: "execute_command", Command: "chat",
		Params: commandParams{Message: strings.Join(lines, "\n")},
		Metadata: commandMetadata{
			Source: source, AgentID: asked.AgentID, UserID: asked.UserID,
			FullMessages: full, OriginalMetadata: metadata,
			SessionID:       asked.ID,
			OpenClawSession: fmt.Sprintf("eyeclaw:%d:%s", h.bot.Number, short(contextOf(asked))),
			TraceID:         "trace_" + short(asked.ID),
		},
		Timestamp: timestamp(),
	}
}

// contextOf names whose context a question belongs to, which OpenClaw keeps.
// Without a person it is the conversation's, and at worst the question's alone:
// strangers never share one.
func contextOf(asked *talk.Turn) string {
	switch {
	case asked.Person != "":
		return asked.Person
	case asked.Conversation != "":
		return asked.Door + "\x00" + asked.Conversation
	}
	return asked.ID
}

// short is a name's hash in 16 hex digits.
func short(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}
