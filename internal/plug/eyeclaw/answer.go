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

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/talk"
)

var errOffline = errors.New("the plugin is not connected")

// Answer implements [talk.Bot]: it sends the question to the plugin and emits the answer. It has no
// timeout of its own except for a disconnected plugin, which may reconnect within the grace time.
func (h *pluginBot) Answer(ctx context.Context, asked *talk.Turn, emit talk.Emit) error {
	if strings.TrimSpace(asked.Text()) == "" && len(asked.Images()) == 0 {
		return talk.Fail(talk.Unreadable, "", errors.New("the question is empty"))
	}
	t, err := h.openTurn(asked)
	if err != nil {
		return err
	}
	defer h.closeTurn(t)
	h.prepare(ctx, t)
	if err := h.sendQuestion(ctx, t, asked, emit); err != nil {
		return err
	}
	for {
		n := h.next(t)
		switch {
		case n.note:
			if err := emit(talk.Waiting(talk.MsgReconnecting.In(asked.Lang))); err != nil {
				h.cancel(t)
				return err
			}
			continue
		case n.command != nil:
			if err := emit(*n.command); err != nil {
				h.cancel(t)
				return err
			}
			continue
		case n.piece != "":
			e := talk.Text(n.piece)
			e.Mark = n.mark
			if err := emit(e); err != nil {
				h.cancel(t)
				return err
			}
			h.acknowledge(t, n.mark)
			continue
		case n.stalled:
			if err := emit(talk.Stalled()); err != nil {
				return err
			}
			continue
		case n.done:
			if n.err == nil && h.isConnector() {
				if err := emit(talk.Complete()); err != nil {
					return err
				}
			}
			h.acknowledgeEnd(t)
			return n.err
		case n.resend:
			if err := h.sendQuestion(ctx, t, asked, emit); err != nil {
				return err
			}
			continue
		}
		if err := t.wait(ctx, n.recheckAfter); err != nil {
			if isUnwanted(ctx) {
				h.cancel(t)
			} else {
				h.leave(t)
			}
			return err
		}
	}
}

// wait returns when there may be news, at the latest after recheckAfter if that is not zero.
func (t *turn) wait(ctx context.Context, recheckAfter time.Duration) error {
	var timer <-chan time.Time
	if recheckAfter > 0 {
		timer = time.After(recheckAfter)
	}
	select {
	case <-t.wake:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// isUnwanted reports whether the context ended because nobody wants the answer, rather than because
// the program stops.
func isUnwanted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	if errors.Is(cause, talk.ErrDisconnected) || errors.Is(cause, talk.ErrStopped) ||
		errors.Is(cause, context.DeadlineExceeded) {
		return true
	}
	f, ok := errors.AsType[*talk.Failure](cause)
	return ok && f.Code == talk.TimedOut
}

func (h *pluginBot) openTurn(asked *talk.Turn) (*turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		return nil, talk.Fail(talk.Offline, "", errOffline)
	}
	if h.turns[asked.ID] != nil {
		return nil, talk.Fail(talk.Internal, "", fmt.Errorf("turn %s runs already", asked.ID))
	}
	t := &turn{id: asked.ID, lang: asked.Lang, wake: make(chan struct{}, 1), connector: connectorTurn{asked: asked}}
	h.turns[t.id] = t
	return t, nil
}

// closeTurn ends the interest in a turn. If the plugin has not ended it, the plugin goes on
// collecting its text.
func (h *pluginBot) closeTurn(t *turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.turns, t.id)
	if t.connector.cancel != nil {
		t.connector.cancel()
	}
	if !t.sent {
		return
	}
	if t.settled && t.err == nil {
		h.lastAnswer = time.Now()
	} else {
		h.totals.Failures++
	}
	h.recordLeftover(t)
	h.s.log.Debug("cable: turn closed", "bot", h.info.Number, "turn", t.id, "chunks", t.chunkCount,
		"bytes", t.text.Len(),
		"summary", t.summary != nil, "overlapped", t.overlapped, "dropped", t.connLost, "failed", t.err != nil)
}

// step is the next action of Answer.
type step struct {
	piece        string
	mark         int64 // with a piece of a connector: how many of its messages are emitted with it
	command      *talk.Event
	note         bool // the asker has to be told that the connection broke
	stalled      bool // the plugin may have lost the answer, so the next question may start
	done         bool
	err          error
	resend       bool          // the command was never sent and has to be sent again
	recheckAfter time.Duration // when to check again if nothing happens before; zero for never
}

func (h *pluginBot) next(t *turn) step {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if t.err != nil || t.buffering && !now.Before(t.bufferUntil) {
		t.buffering, t.emittable = false, t.text.Len()
	}
	if t.err == nil && !t.settled && (t.ended && t.summary != nil ||
		!t.settleDeadline.IsZero() && !now.Before(t.settleDeadline)) {
		h.applySummary(t)
	}
	// Commands come before the text, because the platform of the glasses was seen to ignore a
	// command after text (davexxx1214/openclaw-lingzhu-skill at 176fde9,
	// EasyAR-WebAR-Demo/lingzhu-server/README.md).
	if x := &t.connector; len(x.commands) > 0 {
		next := x.commands[0]
		x.commands = x.commands[1:]
		return step{command: &next}
	}
	if t.emitted < t.emittable {
		piece := t.text.String()[t.emitted:t.emittable]
		t.emitted = t.emittable
		n := step{piece: piece}
		if h.isConnector() && t.emitted == t.text.Len() {
			n.mark = int64(t.nextSequence)
		}
		return n
	}
	if t.isDone() {
		return step{done: true, err: t.err}
	}
	var recheckAfter time.Duration
	until := func(at time.Time) {
		if d := at.Sub(now); recheckAfter == 0 || d < recheckAfter {
			recheckAfter = max(d, time.Millisecond)
		}
	}
	if !t.settleDeadline.IsZero() {
		until(t.settleDeadline)
	}
	if t.buffering {
		until(t.bufferUntil)
	}
	if quiet := t.quietAt(); !t.noted && !quiet.IsZero() {
		if !now.Before(quiet) {
			t.noted = true
			return step{note: true}
		}
		until(quiet)
	}
	if !t.disconnectedAt.IsZero() {
		if !t.delivered.Load() {
			return step{resend: true}
		}
		back := t.disconnectedAt.Add(h.s.opt.Grace)
		if !now.Before(back) || h.moved {
			t.fail(t.interruptedError("the plugin's connection was lost and it did not come back in time"))
			return step{done: true, err: t.err}
		}
		if note := t.disconnectedAt.Add(h.s.opt.Timings.Note); !t.noted && now.Before(note) {
			until(note)
		} else if !t.noted {
			t.noted = true
			return step{note: true}
		}
		if stall := t.disconnectedAt.Add(h.s.opt.Timings.Stall); t.stalled || now.Before(stall) {
			until(back)
			if !t.stalled {
				until(stall)
			}
		} else {
			t.stalled = true
			return step{stalled: true}
		}
	}
	return step{recheckAfter: recheckAfter}
}

// quietAt returns the time at which the asker is told that the connector does not answer pings;
// zero if the turn has no connected connector. Its socket is closed later. The caller holds h.mu.
func (t *turn) quietAt() time.Time {
	if t.conn == nil || !t.disconnectedAt.IsZero() || !t.conn.bot.isConnector() {
		return time.Time{}
	}
	return time.Unix(0, t.conn.lastSeen.Load()).Add(quietPings * t.conn.s.opt.Timings.Ping)
}

// applySummary ends an answer: the text that the summary has in addition is appended to the
// received text. The caller holds h.mu.
func (h *pluginBot) applySummary(t *turn) {
	t.settled = true
	text := t.text.String()
	held := text[t.emittable:]
	rest, anomaly := receipt{
		emitted: text[:t.emittable], buffered: held, chunks: t.chunkCount, overlapped: t.overlapped,
		leftover: t.leftover,
	}.reconcile(t.summary)
	if anomaly != "" {
		h.recordAnomaly(anomaly)
	}
	t.buffering = false
	if rest == held {
		t.emittable = len(text)
		return
	}
	more := utf8.RuneCountInString(rest) - utf8.RuneCountInString(held)
	h.s.metrics.compensated.Add(float64(more))
	// The text is rebuilt: the emitted part stays, and the rest replaces the buffered part.
	told := text[:t.emittable]
	t.text.Reset()
	t.text.WriteString(told)
	t.text.WriteString(rest)
	t.emittable = t.text.Len()
}

func (h *pluginBot) recordAnomaly(kind string) {
	h.s.metrics.anomalies.WithLabelValues(kind).Inc()
}

// sendQuestion sends the question over the best socket. If there is none, it waits up to the grace
// time for the plugin to reconnect.
func (h *pluginBot) sendQuestion(ctx context.Context, t *turn, asked *talk.Turn, emit talk.Emit) error {
	for {
		c, ident, err := h.dispatch(ctx, t, emit)
		if err != nil {
			return err
		}
		question := h.question(c, t)
		if question.Params.Message == "" && len(question.Params.Images) == 0 {
			return talk.Fail(talk.Unreadable, "", errors.New("nothing in the question can be put into words"))
		}
		if c.send(outbound{frame: messageFrame(ident, question), written: &t.delivered}) {
			if c.silentFor() > h.s.opt.Timings.Ping {
				c.probe() // a dead socket is detected before the person gives up
			}
			return nil
		}
	}
}

// dispatch picks the socket and records that the turn runs on it. The asker is told if it has to
// wait for one.
func (h *pluginBot) dispatch(ctx context.Context, t *turn, emit talk.Emit) (c *conn, ident rawJSON, err error) {
	note := time.Now().Add(h.s.opt.Timings.Note)
	for {
		h.mu.Lock()
		if h.retired {
			h.mu.Unlock()
			return nil, nil, talk.Fail(talk.Offline, "", errOffline)
		}
		if c = h.pickConn(); c != nil {
			t.conn, t.sent, t.disconnectedAt = c, true, time.Time{}
			t.leftover = h.leftover.copy()
			// each plugin has leftover text of its own
			t.leftover.uncertain = t.leftover.uncertain || len(h.subscribedConns()) > 1
			h.markInProgress(t.id)
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
		case !h.disconnectedAt.IsZero():
			left = time.Until(h.disconnectedAt.Add(h.s.opt.Grace))
		case len(h.subscribedConns()) > 0:
			left = h.s.opt.Grace // they are dead and about to be removed
		}
		noted := t.noted
		t.noted = noted || left > 0 && time.Now().After(note)
		tell := t.noted && !noted
		h.mu.Unlock()
		switch {
		case left <= 0:
			return nil, nil, talk.Fail(talk.Offline, "", errOffline)
		case tell:
			if err := emit(talk.Waiting(talk.MsgReconnecting.In(t.connector.asked.Lang))); err != nil {
				return nil, nil, err
			}
		case !noted:
			left = min(left, max(time.Until(note), time.Millisecond))
		}
		netx.WaitUnless(ctx, changed, left)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// cancel sends the plugin a cancel message for the turn. EyeClaw's plugin has no such message and
// ignores it; other connectors may stop.
func (h *pluginBot) cancel(t *turn) {
	h.mu.Lock()
	c := t.conn
	var ident rawJSON
	if c != nil {
		ident = c.ident
	}
	_, working := h.inProgress[t.id]
	h.mu.Unlock()
	if c == nil || ident == nil || !working {
		return
	}
	select {
	case c.out <- outbound{frame: messageFrame(ident, cancelMessage{"cancel", t.id})}:
	default: // optional, so it does not wait
	}
}

// commandMessage is a question to the plugin, in the form of EyeClaw's
// app/controllers/rokid_sse_controller.rb. EyeClaw's plugin uses only params.message, session_id
// and openclaw_session_id (sdk/src/websocket-client.ts); the rest is for other connectors.
type commandMessage struct {
	Type      string          `json:"type"`
	Command   string          `json:"command"`
	Params    commandParams   `json:"params"`
	Metadata  commandMetadata `json:"metadata"`
	Timestamp string          `json:"timestamp"`
}

type commandParams struct {
	Message string `json:"message"`
	connectorParams
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

// lingzhuMessage is a message in the form of the glasses' platform (EyeClaw,
// docs/ROKID_LINGZHU_SSE_API.md, Message Object).
type lingzhuMessage struct {
	Role     string  `json:"role"`
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *string `json:"image_url"`
}

const (
	msgPhoto   = i18n.Message("The user took a photo: %s")
	msgNoPhoto = i18n.Message("The user took a photo, but it cannot be passed on.")
)

func (h *pluginBot) question(c *conn, t *turn) commandMessage {
	asked := t.connector.asked
	if h.isConnector() {
		return h.connectorQuestion(t)
	}
	base := strings.TrimSuffix(orDefault(h.s.opt.PublicURL, c.baseURL), "/")
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
			lines = append(lines, msgNoPhoto.In(asked.Lang))
		} else {
			address := base + "/media/" + p.Image.Media
			m.ImageURL = &address
			lines = append(lines, msgPhoto.In(asked.Lang, address))
		}
		full = append(full, m)
	}
	source := asked.Channel
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
			OpenClawSession: fmt.Sprintf("eyeclaw:%d:%s", h.info.Number, shortHash(contextKey(asked))),
			TraceID:         "trace_" + shortHash(asked.ID),
		},
		Timestamp: timestamp(),
	}
}

// contextKey returns the key of the context in OpenClaw that a question belongs to: the person's,
// or the conversation's, or the question's own, so that strangers never share a context.
func contextKey(asked *talk.Turn) string {
	switch {
	case asked.Person != "":
		return asked.Person
	case asked.Conversation != "":
		return asked.Channel + "\x00" + asked.Conversation
	}
	return asked.ID
}

// shortHash returns the hash of a name in 16 hex digits.
func shortHash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}
