package eyeclaw

import (
	"bytes"
	"strconv"
	"time"
)

// Reasons why a frame was dropped, for metrics.
const (
	dropBinary       = "binary"
	dropMalformed    = "malformed"
	dropCommand      = "unknown_command"
	dropUnsubscribed = "unsubscribed"
	dropType         = "unknown_type"
	dropLate         = "late"         // of a turn that nobody waits for any more
	dropUnknownTurn  = "unknown_turn" // of a turn that is unknown or that the plugin had ended
)

// maxLogEcho limits what is echoed of a plugin's log lines, in bytes.
const maxLogEcho = 4 << 10

// handle executes one frame. It runs in the reader goroutine.
func (c *conn) handle(b []byte) {
	f, err := parseFrame(b)
	if err != nil {
		c.recordDropped(dropMalformed)
		return
	}
	switch f.Command {
	case "subscribe":
		c.subscribe(f.Identifier)
	case "unsubscribe":
		c.unsubscribe(f.Identifier)
	case "message":
		c.handleMessage(f)
	default:
		c.recordDropped(dropCommand)
	}
}

// subscribe subscribes the client to its bot's channel. A repeated subscription gets no answer:
// after a second confirmation, the plugin starts a second ping timer.
func (c *conn) subscribe(raw rawJSON) {
	key, ch, err := parseIdentifier(raw)
	if err != nil || len(raw) > maxIdentifier {
		c.recordDropped(dropMalformed)
		return
	}
	if _, ok := c.subs[key]; ok {
		return
	}
	if ch.Channel != "BotChannel" || len(c.subs) >= maxSubs || !c.bot.accepts(ch) {
		c.send(outbound{frame: subscriptionFrame(raw, "reject_subscription")})
		c.log.Warn("cable: subscription rejected", "bot_channel", ch.Channel == "BotChannel",
			"subscriptions", len(c.subs))
		return
	}
	if own := strconv.FormatInt(c.bot.info.Number, 10); ch.BotID != "" && string(ch.BotID) != own {
		c.log.Info("cable: the plugin is set up for another bot number, its token decides",
			"bot_id", truncate(string(ch.BotID), 32))
	}
	ident := append(rawJSON(nil), raw...)
	c.subs[key] = ident
	c.send(outbound{frame: messageFrame(ident, connectedMessage{
		"connected", c.bot.info.Number, c.session, "Successfully connected to EyeClaw"})})
	c.send(outbound{frame: subscriptionFrame(ident, "confirm_subscription")})
	if len(c.subs) == 1 {
		// A question is sent to one subscription only, or it would be answered twice.
		c.bot.onSubscribed(c, ident)
	}
}

func (c *conn) unsubscribe(raw rawJSON) {
	key, _, err := parseIdentifier(raw)
	if _, ok := c.subs[key]; err != nil || !ok {
		c.recordDropped(dropUnsubscribed)
		return
	}
	delete(c.subs, key)
	for _, other := range c.subs {
		c.bot.onSubscribed(c, other)
		return
	}
	c.bot.onUnsubscribed(c)
}

func (c *conn) handleMessage(f frame) {
	ident, ok := c.subscription(f.Identifier)
	if !ok {
		c.recordDropped(dropUnsubscribed)
		return
	}
	m, err := parseMessage(f.Data)
	if err != nil {
		c.recordDropped(dropMalformed)
		return
	}
	what := m.Action
	if what == "" || what == "receive" {
		what = m.Type
	}
	if c.bot.isConnector() && c.handleConnector(ident, &m) {
		return
	}
	switch what {
	case "stream_chunk":
		c.handleChunk(ident, &m)
	case "stream_end":
		c.recordUnmatched(c.bot.onStreamEnd(c, string(m.SessionID)))
	case "stream_summary":
		c.recordUnmatched(c.bot.onSummary(c, string(m.SessionID),
			&summary{string(m.TotalContent), parseCount(string(m.TotalChunks))}))
	case "stream_error":
		c.recordUnmatched(c.bot.onError(c, string(m.SessionID), string(m.Error)))
	case "response":
		c.handleResponse(ident, &m)
	case "ping":
		c.reply(ident, pongMessage{"pong", timestamp()})
	case "pong":
		// An unsolicited pong. It shows that the client is alive.
	case "status":
		c.reply(ident, c.bot.statusMessage(c))
	case "log":
		c.reply(ident, logMessage{"log", orDefault(string(m.Level), "info"), truncate(string(m.Message), maxLogEcho),
			timestamp()})
	case "execute_command":
		c.reply(ident, receivedMessage{Type: "command_received", Command: m.Command, Status: "processing"})
	case "command_result":
		// Unsolicited: the server sends chats only.
	default:
		c.recordDropped(dropType)
	}
}

// subscription returns the subscription with an identifier. Clients write it the same way each
// time.
func (c *conn) subscription(raw rawJSON) (ident rawJSON, ok bool) {
	for _, ident := range c.subs {
		if bytes.Equal(ident, raw) {
			return ident, true
		}
	}
	key, _, err := parseIdentifier(raw)
	if err != nil {
		return nil, false
	}
	ident, ok = c.subs[key]
	return ident, ok
}

// handleChunk adds a chunk to its answer, and then acknowledges it, even if it is dropped: the
// plugin waits two seconds for missing acknowledgements before it ends an answer
// (sdk/src/websocket-client.ts, waitForAllAcks). What comes over another connection after the
// acknowledgement finds the chunk processed.
func (c *conn) handleChunk(ident rawJSON, m *message) {
	c.recordUnmatched(c.bot.onChunk(c, string(m.SessionID), m.text(), m.sequence()))
	if seq := m.sequence(); seq >= 0 {
		session := orDefault(string(m.SessionID), c.session)
		c.reply(ident, ackMessage{"chunk_received", m.Sequence, session, timestamp()})
	}
}

// handleResponse handles a whole answer in one message, and then acknowledges it.
func (c *conn) handleResponse(ident rawJSON, m *message) {
	if m.Content == "" || m.SessionID == "" {
		c.recordDropped(dropMalformed)
		return
	}
	dropped := c.bot.onChunk(c, string(m.SessionID), string(m.Content), -1)
	if dropped == "" {
		dropped = c.bot.onComplete(c, string(m.SessionID))
	}
	c.recordUnmatched(dropped)
	c.reply(ident, receivedMessage{Type: "response_received", SessionID: string(m.SessionID), Status: "success"})
}

func (c *conn) reply(ident rawJSON, v any) {
	c.send(outbound{frame: messageFrame(ident, v)})
}

// recordUnmatched counts a frame without a turn.
func (c *conn) recordUnmatched(dropped string) {
	if dropped != "" {
		c.recordDropped(dropped)
	}
}

func (h *pluginBot) statusMessage(c *conn) statusMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return statusMessage{
		Type:           "status_response",
		Status:         "online",
		Online:         true,
		ActiveSessions: len(h.subscribedConns()),
		TotalSessions:  h.totals.Connections,
		Uptime:         int64(time.Since(c.connectedAt) / time.Second),
	}
}

// orDefault returns v, or otherwise if v is the zero value.
func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// truncate returns at most n bytes of a text, without a partial character.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
