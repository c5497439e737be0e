// Package discovery finds model servers and OpenClaw gateways on this machine, finds services that
// are announced in the local network, and announces this server there.
//
// What it finds is what others claim of themselves: names and addresses are suggestions for a
// person, and nothing is plugged in because of them.
package discovery

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coder/websocket"
)

const (
	// probeTimeout limits a request to a server on this machine. One that loads a model still
	// answers a list at once.
	probeTimeout = 1500 * time.Millisecond
	// maxReply limits the reply of a server, in bytes: aggregators list thousands of models.
	maxReply = 4 << 20
	// maxModels limits the names that are kept of a server.
	maxModels = 200
	// maxName limits a name, in characters. DNS-SD limits instance names to 63 bytes (RFC 6763
	// section 4.1.1); names of models are longer.
	maxName = 120
)

// ModelPlaces are the default addresses of model servers with an API like OpenAI's: Ollama
// (docs/faq.md), LM Studio (lmstudio.ai/docs/local-server), llama.cpp (tools/server/README.md) and
// LocalAI, vLLM (docs, OpenAI-compatible server), and Jan (docs, local API server).
var ModelPlaces = []string{"127.0.0.1:11434", "127.0.0.1:1234", "127.0.0.1:8080", "127.0.0.1:8000", "127.0.0.1:1337"}

// GatewayPlaces is the default address of an OpenClaw gateway (docs/gateway/index.md).
var GatewayPlaces = []string{"127.0.0.1:18789"}

// customary names the programs at [ModelPlaces] where the port tells.
var customary = map[string]string{"11434": "Ollama", "1234": "LM Studio", "1337": "Jan"}

// ModelServer is a server with an API like OpenAI's.
type ModelServer struct {
	Name    string   // of the program, or the address if it is not known
	BaseURL string   // such as http://127.0.0.1:11434/v1
	Models  []string // names of its models, in the server's order; may be empty
}

// Models returns the model servers that answer at places, in their order. It takes less than two
// seconds.
func Models(ctx context.Context, places []string) []ModelServer {
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return eachPlace(places, func(place string) (ModelServer, bool) {
		s := ModelServer{Name: place, BaseURL: "http://" + place + "/v1"}
		if _, port, err := net.SplitHostPort(place); err == nil && customary[port] != "" {
			s.Name = customary[port]
		}
		var ok bool
		s.Models, ok = modelsAt(ctx, client, s.BaseURL)
		return s, ok
	})
}

// modelsAt asks for the list of models (OpenAI API reference, List models).
func modelsAt(ctx context.Context, client *http.Client, base string) (names []string, ok bool) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", http.NoBody)
	if err != nil {
		return nil, false
	}
	r, err := client.Do(q)
	if err != nil {
		return nil, false
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxReply))
	if err != nil || r.StatusCode != http.StatusOK {
		return nil, false
	}
	return parseModels(text)
}

// parseModels reads a list of models. It reports false if text is something else.
func parseModels(text []byte) (names []string, ok bool) {
	var list struct {
		Object string `json:"object"`
		Data   []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(text, &list) != nil || list.Object != "list" {
		return nil, false
	}
	for _, m := range list.Data {
		if name := cleanName(m.ID); name != "" && len(names) < maxModels {
			names = append(names, name)
		}
	}
	return names, true
}

// Gateways returns the addresses (ws://…) of the OpenClaw gateways that answer at places. It takes
// less than two seconds.
func Gateways(ctx context.Context, places []string) []string {
	return eachPlace(places, func(place string) (string, bool) {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		address := "ws://" + place
		c, _, err := websocket.Dial(ctx, address, nil) //nolint:bodyclose // the library closes it
		if err != nil {
			return "", false
		}
		defer c.CloseNow() //nolint:errcheck // nothing follows
		_, text, err := c.Read(ctx)
		return address, err == nil && isChallenge(text)
	})
}

// isChallenge reports whether a frame is the first one of an OpenClaw gateway, connect.challenge
// (openclaw 2026.9.6, docs/gateway/protocol.md).
func isChallenge(frame []byte) bool {
	var f struct{ Type, Event string }
	return json.Unmarshal(frame, &f) == nil && f.Type == "event" && f.Event == "connect.challenge"
}

// eachPlace calls look for all places at once, and returns what it found in their order.
func eachPlace[T any](places []string, look func(string) (T, bool)) (out []T) {
	found := make([]*T, len(places))
	var running sync.WaitGroup
	for i, place := range places {
		running.Go(func() {
			if x, ok := look(place); ok {
				found[i] = &x
			}
		})
	}
	running.Wait()
	for _, x := range found {
		if x != nil {
			out = append(out, *x)
		}
	}
	return out
}

// cleanName returns a name that others gave, without control characters and within [maxName].
func cleanName(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s))
	if r := []rune(s); len(r) > maxName {
		return string(slices.Concat(r[:maxName-1], []rune("…")))
	}
	return s
}
