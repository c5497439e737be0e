// Package openai implements a bot whose answers come from an OpenAI-compatible chat API: OpenAI
// itself, DeepSeek, Ollama, vLLM, llama.cpp, or the chat endpoint of an agent gateway.
//
// [Bot.Answer] builds the request (prompt.go, memory.go, request.go), sends it (client.go) and
// forwards the response as it arrives (round.go). A round is one request and its response;
// answer.go alone decides how many rounds a turn has, and with which messages and functions.
//
// A function that the model calls is either a command for the device, which becomes an event
// (tools.go), or a function of the [toolbox.Tools] (toolbox.go). A call of the latter is executed
// (pending_call.go), the person gets a note when it takes long (progress_notes.go), and its result
// (result.go) is part of the next round's request (thread.go).
package openai

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
	"patchbay/internal/tracing"
)

var _ talk.Bot = (*Bot)(nil)

// Options are the dependencies of a bot. All are optional.
type Options struct {
	// Client sends the requests; bots can share one. Its redirect policy is not used, nor is its
	// timeout, which would cut off long answers. Nil means a client of the bot's own from
	// [NewClient].
	Client *http.Client
	// Trusted reports whether the owner may see the failed responses of a server: status, text and
	// redirect target. Other owners see only our own description, so that nobody can use a bot to
	// explore the server's network. Nil means yes.
	Trusted func(context.Context) bool
	// OnEnd is called after each answer with the problem of the model, or "" if it has answered.
	// It may be nil.
	OnEnd func(context.Context, Problem)
	// Logger gets what the owner should know. Nil discards it.
	Logger *slog.Logger
	// Tracer traces requests; nil: nothing is traced.
	Tracer *tracing.Tracer
	// Toolbox has the functions that the model may call besides device commands. It may be nil.
	Toolbox toolbox.Tools
}

// Bot answers turns by asking a model. It is safe for concurrent use and stores no conversation:
// each turn carries its history.
type Bot struct {
	settings   Settings
	endpoint   endpoint
	client     *http.Client
	ownsClient bool // the bot made the client and closes it
	log        *slog.Logger
	tracer     *tracing.Tracer
	toolbox    toolbox.Tools
	trusted    func(context.Context) bool
	onEnd      func(context.Context, Problem)
	// opening is the part of the request that does not depend on the turn, without the closing
	// brace.
	opening []byte
	// functionSettings are the owner's values of [functionFields].
	functionSettings map[string]json.RawMessage
	secrets          []string
	// withoutTools is set once the server has refused functions.
	withoutTools atomic.Bool
	// withoutUsage is set once the server has refused to report tokens, or the owner decides it.
	withoutUsage atomic.Bool
	// omitted tracks the functions that are not offered.
	omitted omittedFunctions
	// sleep, jitter and noteInterval are replaced by tests.
	sleep        func(context.Context, time.Duration) error
	jitter       netx.Jitter
	noteInterval noteInterval
}

// New returns a bot with the given settings, or the error of [Settings.Validate] if they are
// invalid.
func New(s Settings, o Options) (*Bot, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	at, err := parseEndpoint(s.BaseURL)
	if err != nil {
		return nil, err
	}
	b := &Bot{settings: s, endpoint: at, log: o.Logger, tracer: o.Tracer, toolbox: o.Toolbox,
		trusted: o.Trusted, onEnd: o.OnEnd, sleep: netx.Wait, jitter: netx.HalfJitter,
		noteInterval: defaultNoteInterval}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.trusted == nil {
		b.trusted = func(context.Context) bool { return true }
	}
	if b.onEnd == nil {
		b.onEnd = func(context.Context, Problem) {}
	}
	client := o.Client
	if client == nil {
		client, b.ownsClient = NewClient(), true
	}
	// The client does not follow redirects, which would send the question, and headers with keys,
	// to another server. The owner is shown the target instead.
	still := *client
	still.Timeout = 0
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.client = &still
	if _, own := s.Extra[streamOptions]; own {
		b.withoutUsage.Store(true)
	}
	b.secrets = s.secrets()
	b.opening, b.functionSettings, err = s.opening(at.host)
	return b, err
}

// Close closes idle connections. It has no effect on a client from [Options].
func (b *Bot) Close() {
	if b.ownsClient {
		b.client.CloseIdleConnections()
	}
}

// NewClient returns a client for chat APIs. It uses the proxy of the environment, and requests no
// compression, which would delay pieces of an answer.
func NewClient() *http.Client {
	t := newTransport((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	t.Proxy = http.ProxyFromEnvironment
	return &http.Client{Transport: t}
}

// NewGuardedClient returns a client like [NewClient] that connects with dial, which decides which
// addresses are allowed. It uses no proxy, since dial would then check only the proxy's address.
func NewGuardedClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: newTransport(dial)}
}

func newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    32, // concurrent requests to one model that reuse connections
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

// functionFields are the request fields that are sent only with functions.
var functionFields = []string{"tool_choice", "parallel_tool_calls"}

// opening returns the part of the request that is the same in every turn, and the fields that are
// the same in every request with functions.
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

// lengthField returns the name of the field that limits the length of an answer. OpenAI's o-series
// and newer models reject max_tokens, which the API reference (Create chat completion, max_tokens)
// calls deprecated; other servers do not support max_completion_tokens.
func lengthField(host string) string {
	if host == "api.openai.com" {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// secrets returns the texts that must not appear in logs or messages.
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
	// A shorter text is no secret, and hiding it would garble messages.
	const shortest = 4
	var out []string
	for _, secret := range all {
		if len(secret) >= shortest {
			out = append(out, secret)
		}
	}
	return out
}
