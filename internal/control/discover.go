package control

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Kinds of [Discovery].
const (
	FoundModel    = "model"    // a model server with an API like OpenAI's
	FoundOpenClaw = "openclaw" // an OpenClaw gateway
	FoundWyoming  = "wyoming"  // a Wyoming server, which hears, speaks or both
)

// Discovery is something on the server's machine or in its network that could be plugged in. All
// but the address is what it claims of itself.
type Discovery struct {
	Kind    string `json:"kind"`    // model, openclaw or wyoming
	Name    string `json:"name"`    // for people
	Address string `json:"address"` // in the form of the setting that takes it
	// Models are the names of the models of a model server, at most 200.
	Models  []string `json:"models,omitempty"`
	Listens bool     `json:"listens,omitempty"`
	Speaks  bool     `json:"speaks,omitempty"`
	// Network reports whether it is announced in the network, and not on the server's machine.
	Network bool `json:"network"`
	// Used reports whether a bot or a speech engine has this address already.
	Used bool `json:"used"`
}

// Discoveries is what was found.
type Discoveries struct {
	Found []Discovery `json:"found"`
}

// discoveryAge is how old a result may be: pages ask repeatedly, and each search takes seconds.
const discoveryAge = 10 * time.Second

// discoveries is the last result of a search.
type discoveries struct {
	mu   sync.Mutex
	at   time.Time
	list []Discovery
}

// Discover looks for what could be plugged in: model servers, OpenClaw gateways and Wyoming servers
// on the server's machine, and those that are announced in its network. It takes up to five
// seconds. Only administrators may call it, because members may not use private addresses.
func (s *Service) Discover(ctx context.Context, c Caller, _ Empty) (out Discoveries, err error) {
	if err := admin(c); err != nil {
		return out, err
	}
	out.Found = []Discovery{}
	list, err := s.discovered(ctx)
	if err != nil {
		return out, err
	}
	used, err := s.usedAddresses(ctx)
	if err != nil {
		return out, err
	}
	for _, d := range list {
		d.Used = used[comparableAddress(d.Address)]
		out.Found = append(out.Found, d)
	}
	return out, nil
}

// discovered returns what a search finds, or found a moment ago.
func (s *Service) discovered(ctx context.Context) ([]Discovery, error) {
	if s.Look == nil {
		return nil, nil
	}
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	if time.Since(s.found.at) < discoveryAge {
		return s.found.list, nil
	}
	list := s.Look(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.found.at, s.found.list = time.Now(), list
	return list, nil
}

// BotSettings returns the settings of a new bot for what was found, and the kind of the bot; empty
// if it is no bot.
func (d Discovery) BotSettings() (kind string, set SettingTexts) {
	switch d.Kind {
	case FoundModel:
		return "openai", SettingTexts{"base_url": d.Address, "model": d.ChatModel()}
	case FoundOpenClaw:
		return "openclaw", SettingTexts{"url": d.Address}
	}
	return "", nil
}

// ChatModel returns the first model whose name is not that of one for other work; empty if there is
// none.
func (d Discovery) ChatModel() string {
	for _, m := range d.Models {
		name := strings.ToLower(m)
		other := false
		for _, word := range []string{"embed", "rerank", "whisper", "kokoro", "piper", "tts", "bge-"} {
			other = other || strings.Contains(name, word)
		}
		if !other {
			return m
		}
	}
	return ""
}

// usedAddresses returns the addresses of all bots and speech engines.
func (s *Service) usedAddresses(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	add := func(set SettingTexts) {
		for _, name := range addressSettings {
			if set[name] != "" {
				used[comparableAddress(set[name])] = true
			}
		}
	}
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, b := range bots {
		if set, err := s.Hub.Registry.SettingsText(b); err == nil {
			add(set)
		}
	}
	if s.Voice.All == nil {
		return used, nil
	}
	engines, err := s.Hub.Store.SpeechEngines.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range s.Voice.All(engines) {
		if set, err := s.Voice.Texts(e); err == nil {
			add(set)
		}
	}
	return used, nil
}

// comparableAddress returns an address without what makes no difference.
func comparableAddress(a string) string {
	a = strings.TrimRight(strings.TrimSpace(a), "/")
	a = strings.TrimPrefix(a, "wyoming://")
	return strings.Replace(a, "localhost", "127.0.0.1", 1)
}
