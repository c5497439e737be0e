// Package httpspeech is an engine that requests the sound of each sentence over HTTP, with a URL
// and a body that the owner writes: Piper's HTTP server, GPT-SoVITS, Index-TTS, and whatever else
// answers a request with a sound. The kind is called http.
package httpspeech

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/voice/engine"
)

// client sends the requests of an engine.
type client struct {
	settings Settings
	http     *http.Client
}

// New returns an engine that speaks. The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	if err := s.Validate(); err != nil {
		return engine.Engine{}, err
	}
	c := &client{settings: s, http: engine.NewHTTPClient(o)}
	return engine.Engine{Speaker: engine.SpeakOnce(c.speak), Release: c.http.CloseIdleConnections}, nil
}

// speak requests the sound of a sentence.
func (c *client) speak(ctx context.Context, text string, m engine.Manner) (engine.Clip, error) {
	req, err := c.request(ctx, text, m)
	if err != nil {
		return engine.Clip{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return engine.Clip{}, engine.RequestError(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return engine.Clip{}, engine.ResponseError(resp, c.secrets(text)...)
	}
	return engine.ResponseClip(resp, c.settings.PCMRate)
}

// secrets are what a response may repeat and an error may not.
func (c *client) secrets(text string) []string {
	list := []string{c.settings.APIKey, text, escapeJSON(text), escapeURL(text)}
	for _, value := range c.settings.Headers {
		list = append(list, value)
	}
	return list
}

// request returns the request for a sentence.
func (c *client) request(ctx context.Context, text string, m engine.Manner) (*http.Request, error) {
	s, v := &c.settings, c.values(text, m)
	method, kind := s.Method, ""
	var body io.Reader
	if s.Body != "" {
		escape := func(text string) string { return text }
		kind = "text/plain; charset=utf-8"
		switch {
		case s.isJSON():
			escape, kind = escapeJSON, "application/json"
		case strings.Contains(s.Body, "="):
			escape, kind = escapeURL, "application/x-www-form-urlencoded"
		}
		body = strings.NewReader(v.fill(s.Body, escape))
		if method == "" {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, v.fill(strings.TrimSpace(s.URL), escapeURL), body)
	if err != nil {
		return nil, engine.RequestError(err)
	}
	req.Header.Set("User-Agent", "patchbay")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if s.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.APIKey)
	}
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
	return req, nil
}

// values are what replaces the placeholders.
type values struct {
	text, voice, lang string
	speed             float64
}

func (c *client) values(text string, m engine.Manner) values {
	v := values{text: text, voice: m.Voice, lang: m.Language, speed: m.Speed}
	if v.voice == "" {
		v.voice = c.settings.Voice
	}
	if v.lang == "" {
		v.lang = c.settings.Language
	}
	if v.lang, _, _ = strings.Cut(v.lang, "-"); v.lang == "" {
		v.lang = "auto"
	}
	if v.speed == 0 {
		v.speed = c.settings.Speed
	}
	if v.speed == 0 {
		v.speed = 1
	}
	return v
}

// fill replaces the placeholders of a template by escaped values.
func (v values) fill(template string, escape func(string) string) string {
	return strings.NewReplacer("{text}", escape(v.text), "{voice}", escape(v.voice), "{lang}", escape(v.lang),
		"{speed}", strconv.FormatFloat(v.speed, 'f', -1, 64)).Replace(template)
}

// escapeURL escapes for a path and a query: in the latter, + would be a space.
func escapeURL(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// escapeJSON escapes for the inside of a text in JSON.
func escapeJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can always be encoded
	}
	return string(quoted[1 : len(quoted)-1])
}
