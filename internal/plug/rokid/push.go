package rokid

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plain"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// pusher sends late answers to glasses through the platform's push service.
type pusher struct {
	registry   *hub.Registry
	url        string
	client     *http.Client
	retryDelay time.Duration // before the first retry; doubled for the second
}

const (
	// The push service of the platform, as @yodaos-pkg/cloud-integration on npm calls it
	// (sendNotification): POST /metis/callback/message with the account's SK as bearer token. A
	// response with code 1 and data.success means success.
	pushPath        = "/metis/callback/message"
	maxPushAttempts = 3
	maxPushChars    = 500      // of an answer; the rest is available in the next turn as "more"
	maxPushReply    = 64 << 10 // bytes of the service's response that are read
	pushTimeout     = 10 * time.Second
)

func newPusher(o Options) *pusher {
	client := &http.Client{
		Timeout: pushTimeout,
		// A redirect would send the bot's push_key, and the answer, to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &pusher{registry: o.Hub.Registry, url: strings.TrimRight(o.PushURL, "/") + pushPath, client: client,
		retryDelay: time.Second}
}

// ErrNoPushKey means that nothing can be pushed: the bot has no push_key, the service has no
// address, or the wearer has no user id.
var ErrNoPushKey = errors.New("the bot has no push_key")

// Notice is a text to show on glasses without a request.
type Notice struct {
	// ID is the same in every attempt. The service drops repeated ids.
	ID      string
	UserID  string // of the wearer
	AgentID string // with which the wearer reaches the bot
	Text    string
	Lang    i18n.Lang
}

// Push shows a notice on a wearer's glasses in the name of a bot.
func (h *Handler) Push(ctx context.Context, bot store.Bot, n Notice) error {
	if h.pusher == nil || n.UserID == "" {
		return ErrNoPushKey
	}
	return h.pusher.send(ctx, bot, n)
}

type pushMessage struct {
	MessageID string      `json:"message_id"` // the service drops repeated ids
	AccountID string      `json:"account_id"`
	Message   pushContent `json:"message"`
}

type pushContent struct {
	AgentID string `json:"agent_id"`
	Content string `json:"content"`
}

// pushLate pushes a late answer. Its id is that of the turn, so that a retry is not shown twice.
func (p *pusher) pushLate(ctx context.Context, bot store.Bot, l hub.Late) error {
	if l.Turn.UserID == "" {
		return ErrNoPushKey
	}
	return p.send(ctx, bot, Notice{ID: l.Turn.ID, UserID: l.Turn.UserID, AgentID: l.Turn.AgentID,
		Text: talk.MsgLate.In(l.Turn.Lang) + l.Answer, Lang: l.Turn.Lang})
}

// send sends a notice, with up to [maxPushAttempts] attempts.
func (p *pusher) send(ctx context.Context, bot store.Bot, n Notice) error {
	var s Settings
	if err := p.registry.Settings(bot, &s); err != nil {
		return err
	}
	if s.PushKey == "" {
		return ErrNoPushKey
	}
	f := s.filter(n.Lang)
	text := f.Write(n.Text) + f.Flush()
	if utf8.RuneCountInString(text) > maxPushChars {
		text, _ = plain.Page(text, maxPushChars)
		text += "…"
	}
	body, err := json.Marshal(pushMessage{n.ID, n.UserID, pushContent{n.AgentID, text}})
	if err != nil {
		return err
	}
	wait := netx.Backoff{First: p.retryDelay}
	for try := 1; ; try++ {
		final, err := p.post(ctx, s.PushKey, body)
		if err == nil || final || try == maxPushAttempts {
			return err
		}
		if netx.Wait(ctx, wait.Next()) != nil {
			return err
		}
	}
}

// post makes one attempt. final reports whether a retry is pointless.
func (p *pusher) post(ctx context.Context, key string, body []byte) (final bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return true, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return false, fmt.Errorf("push: %w", err)
	}
	defer res.Body.Close()
	var reply struct {
		Code int `json:"code"`
		Data struct {
			Success bool `json:"success"`
		} `json:"data"`
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxPushReply))
	if err != nil {
		return false, fmt.Errorf("push: %w", err)
	}
	final = res.StatusCode >= 400 && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests
	if res.StatusCode != http.StatusOK {
		return final, fmt.Errorf("push: the service answered %s", res.Status)
	}
	if json.Unmarshal(text, &reply) != nil || reply.Code != 1 || !reply.Data.Success {
		return false, fmt.Errorf("push: the service answered code %d, success %t", reply.Code, reply.Data.Success)
	}
	return true, nil
}
