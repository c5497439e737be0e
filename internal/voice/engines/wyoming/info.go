package wyoming

import (
	"context"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
)

// infoTTL is how long the description of a server is used. Voices are rarely added.
const infoTTL = 10 * time.Minute

// info is the description of a server (rhasspy/wyoming wyoming/info.py).
type info struct {
	ASR []program `json:"asr"`
	TTS []program `json:"tts"`

	read time.Time
}

// program is a service of a server.
type program struct {
	Models    []model `json:"models"`
	Voices    []model `json:"voices"`
	Streaming bool    `json:"supports_synthesize_streaming"`
}

// model is a model that listens, or a voice.
type model struct {
	Name      string   `json:"name"`
	Languages []string `json:"languages"`
	Installed bool     `json:"installed"` // voices that are not are downloaded when they are used
}

// describe returns the description of the server, which is asked for it from time to time.
func (c *client) describe(ctx context.Context) (*info, error) {
	if in := c.info.Load(); in != nil && time.Since(in.read) < infoTTL {
		return in, nil
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	conn.expect(c.limits.describe)
	if err := conn.send(describe, nil, nil); err != nil {
		return nil, conn.failure(err)
	}
	for {
		e, err := conn.events.next()
		if err != nil {
			return nil, conn.failure(err)
		}
		switch e.kind {
		case infoEvent:
			in := &info{read: time.Now()}
			if err := e.decode(in); err != nil {
				return nil, err
			}
			c.info.Store(in)
			return in, nil
		case errorEvent:
			return nil, e.failure()
		}
	}
}

// Describe returns the address of a server with its port, and what it can do.
func Describe(ctx context.Context, s Settings, o engine.Options) (address string, listens, speaks bool, err error) {
	c, err := newClient(s, o)
	if err != nil {
		return "", false, false, err
	}
	in, err := c.describe(ctx)
	if err != nil {
		return c.address, false, false, c.failed(err)
	}
	return c.address, len(in.ASR) > 0, len(in.TTS) > 0, nil
}

var (
	errDeaf = engine.Errorf(engine.Input, "the server recognises no speech")
	errMute = engine.Errorf(engine.Input, "the server has no voices")
)

// transcribe returns the model and the language for a listener.
func (in *info) transcribe(s *Settings, h engine.Hints) (transcribeData, error) {
	if len(in.ASR) == 0 {
		return transcribeData{}, errDeaf
	}
	t := transcribeData{Name: s.ListenModel}
	if h.Language == "" {
		return t, nil
	}
	listed := false
	for _, p := range in.ASR {
		for _, m := range p.Models {
			if t.Name != "" && m.Name != t.Name {
				continue
			}
			listed = listed || len(m.Languages) > 0
			if l := bestLanguage(m.Languages, h.Language); l != "" {
				t.Language = l
				return t, nil
			}
		}
	}
	if !listed {
		t.Language = base(h.Language)
	}
	return t, nil
}

// voice returns the voice for a manner of speaking; nil: that of the server. A voice that the
// server does not have is that of another engine.
func (in *info) voice(s *Settings, m engine.Manner) (*voiceData, error) {
	if len(in.TTS) == 0 {
		return nil, errMute
	}
	var byLanguage string
	for _, p := range in.TTS {
		for _, v := range p.Voices {
			if m.Voice != "" && v.Name == m.Voice {
				return &voiceData{Name: v.Name}, nil
			}
			if byLanguage == "" && v.Installed && bestLanguage(v.Languages, m.Language) != "" {
				byLanguage = v.Name
			}
		}
	}
	switch {
	case s.Voice != "":
		return &voiceData{Name: s.Voice, Speaker: s.Speaker}, nil
	case byLanguage != "":
		return &voiceData{Name: byLanguage, Speaker: s.Speaker}, nil
	case m.Language != "":
		return &voiceData{Language: base(m.Language)}, nil
	}
	return nil, nil
}

// streams reports whether the server takes text in pieces.
func (in *info) streams() bool { return in.TTS[0].Streaming }

// bestLanguage returns the language of a list that is wanted, as the list spells it, or else one
// with the same base. Servers write zh, zh-CN or zh_CN.
func bestLanguage(list []string, want string) (best string) {
	for _, l := range list {
		switch {
		case want == "":
			return ""
		case strings.EqualFold(strings.ReplaceAll(l, "_", "-"), strings.ReplaceAll(want, "_", "-")):
			return l
		case best == "" && strings.EqualFold(base(l), base(want)):
			best = l
		}
	}
	return best
}

// base returns the language of a BCP 47 tag, without script and region.
func base(tag string) string {
	before, _, _ := strings.Cut(strings.ReplaceAll(tag, "_", "-"), "-")
	return before
}
