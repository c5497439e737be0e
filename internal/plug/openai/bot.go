// Package openai is a bot that any chat API of OpenAI's kind answers: OpenAI
// itself, DeepSeek, Ollama, vLLM, llama.cpp, an agent gateway's chat endpoint.
//
// The way of a turn: [Bot.Answer] has the request written (prompt.go, memory.go,
// request.go), sends it (client.go) and passes on what comes back, as it comes
// (round.go). A round is one request and the answer to it; how many there are in
// a turn, and with what messages and functions, is decided in answer.go alone.
//
// What the model calls is either a command for the device, which becomes an event
// (tools.go), or a function of the [Toolbox] (toolbox.go): that is carried out
// (errand.go), the person is told when it takes long (news.go), and the results
// (result.go) are what the next round begins with (thread.go).
package openai

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"patchbay/internal/talk"
)

var _ talk.Bot = (*Bot)(nil)

// Options are what a bot gets from the house. All may be left out.
type Options struct {
	// Client sends the requests; its redirect policy and its timeout, which would
	// cut long answers off, are not used. Nil means one of the bot's own, as
	// [NewClient] makes it. Many bots can share one.
	Client *http.Client
	// Trusted reports whether the owner may learn what a server answers that fails: its
	// status, its words, and where it points to. Others learn what is wrong in our own
	// words, so that nobody looks around by bots where the server can reach. Nil: yes.
	Trusted func(context.Context) bool
	// Ended gets, after each answer, what is wrong with the model, and nothing if it has
	// answered. Nil: nobody wants to know.
	Ended func(context.Context, Problem)
	// Logger takes what the owner should know. Nil means nobody does.
	Logger *slog.Logger
	// Toolbox is what the model may call beyond the device. Nil means nothing.
	Toolbox Toolbox
}

// Bot answers turns by asking a model. It is safe for concurrent use and keeps
// nothing from turn to turn: what was said before comes with the turn.
type Bot struct {
	settings Settings
	at       endpoint
	client   *http.Client
	own      bool // the client is ours to close
	log      *slog.Logger
	toolbox  Toolbox
	trusted  func(context.Context) bool
	ended    func(context.Context, Problem)
	// opening is the request up to what depends on the turn, without the brace
	// that closes it.
	opening []byte
	// choices are the owner's words about functions, by [functionFields].
	choices map[string]json.RawMessage
	secrets []string
	// toolless is set when the server turned out to refuse functions.
	toolless atomic.Bool
	// left is what is known about functions that are not offered.
	left leftOut
	// sleep, jitter and notePace are replaced by tests.
	sleep    func(context.Context, time.Duration) error
	jitter   func() float64
	notePace notePace
}

// New makes a bot of valid settings; what is not valid is said as
// [Settings.Validate] does.
func New(s Settings, o Options) (*Bot, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	at, err := parseEndpoint(s.BaseURL)
	if err != nil {
		return nil, err
	}
	b := &Bot{settings: s, at: at, log: o.Logger, toolbox: o.Toolbox, trusted: o.Trusted, ended: o.Ended, sleep: sleep, jitter: rand.Float64, notePace: usualPace}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.trusted == nil {
		b.trusted = func(context.Context) bool { return true }
	}
	if b.ended == nil {
		b.ended = func(context.Context, Problem) {}
	}
	client := o.Client
	if client == nil {
		client, b.own = NewClient(), true
	}
	// A redirect would carry the question, and headers with keys, to somebody
	// else. The owner is told where it points instead.
	still := *client
	still.Timeout = 0
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.client = &still
	b.secrets = s.secrets()
	b.opening, b.choices, err = s.opening(at.host)
	return b, err
}

// Close lets go of idle connections. It is not needed for a bot that was given
// its client.
func (b *Bot) Close() {
	if b.own {
		b.client.CloseIdleConnections()
	}
}

// NewClient makes a client for chat APIs. It goes through the proxy that the
// environment names, and asks for no compression, which would hold pieces of an
// answer back.
func NewClient() *http.Client {
	t := newTransport((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	t.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: t}
}

// NewGuardedClient is [NewClient] with another way to make connections, which says where
// they may lead. There is no proxy: that would be what is guarded.
func NewGuardedClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: newTransport(dial)}
}

func newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    32, // as many as ask one model at once without dialling anew
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

// functionFields of the request are about functions.
var functionFields = []string{"tool_choice", "parallel_tool_calls"}

// opening writes the part of the request that is the same in every turn, and the
// part that is the same wherever there are functions.
func (s *Settings) opening(host string) (opening []byte, choices map[string]json.RawMessage, err error) {
	fields := map[string]any{}
	for name, value := range s.Extra {
		fields[name] = value
	}
	for _, name := range functionFields {
		if value, ok := fields[name]; ok {
			written, err := json.Marshal(value)
			if err != nil {
				return nil, nil, err
			}
			if choices == nil {
				choices = map[string]json.RawMessage{}
			}
			choices[name] = written
			delete(fields, name)
		}
	}
	fields["model"], fields["stream"] = s.Model, true
	if s.Temperature != nil {
		fields["temperature"] = *s.Temperature
	}
	if s.MaxTokens != nil {
		fields[lengthField(host)] = *s.MaxTokens
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, err
	}
	return body[:len(body)-1], choices, nil
}

// lengthField is what limits an answer. OpenAI's newer models refuse the old
// name, other servers do not know the new one.
func lengthField(host string) string {
	if host == "api.openai.com" {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// secrets are the texts that must not show up anywhere.
func (s *Settings) secrets() []string {
	all := []string{s.APIKey}
	for _, value := range s.Headers {
		all = append(all, value)
	}
	if u, err := url.Parse(s.BaseURL); err == nil {
		for _, values := range u.Query() {
			all = append(all, values...)
		}
	}
	// What is shorter is no secret, and hiding it would garble everything.
	const shortest = 4
	var out []string
	for _, secret := range all {
		if len(secret) >= shortest {
			out = append(out, secret)
		}
	}
	return out
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
