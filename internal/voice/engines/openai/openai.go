// Package openai is a speech engine with the HTTP interface of OpenAI: its own service, Groq,
// SiliconFlow, speaches, whisper.cpp, Kokoro-FastAPI and others.
//
// It takes whole utterances and whole sentences (OpenAI API reference, Audio: POST
// /audio/transcriptions and /audio/speech). Speech is played while it is received.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pcm"
)

const (
	// maxInput limits a sentence, in characters (OpenAI API reference, Create speech, input).
	maxInput = 4096
	// pcmRate is the rate of the format pcm, in Hz (OpenAI guide, Text to speech, Supported output
	// formats).
	pcmRate = 24000
	// maxReply limits a response with a transcript, in bytes: JSON may escape each character.
	maxReply = 6*engine.MaxTranscript + 64<<10
)

// client sends the requests of an engine.
type client struct {
	settings Settings
	listen   string // address
	speak    string // address
	http     *http.Client
}

// New returns an engine. The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	if err := s.Validate(); err != nil {
		return engine.Engine{}, err
	}
	base, err := s.address()
	if err != nil {
		return engine.Engine{}, err
	}
	c := &client{settings: s, http: engine.NewHTTPClient(o), listen: below(base, "/audio/transcriptions"),
		speak: below(base, "/audio/speech")}
	if strings.HasSuffix(base.Path, inferencePath) {
		c.listen = base.String()
		return engine.Engine{Listener: engine.ListenOnce(c.transcribe), Release: c.http.CloseIdleConnections}, nil
	}
	return engine.Engine{Listener: engine.ListenOnce(c.transcribe), Speaker: engine.SpeakOnce(c.synthesize),
		NeedsWords: readsBadly(s.SpeakModel), Release: c.http.CloseIdleConnections}, nil
}

// readsBadly reports whether a model is one of those small ones that servers at home run.
func readsBadly(model string) bool {
	model = strings.ToLower(model)
	return strings.Contains(model, "kokoro") || strings.Contains(model, "piper")
}

func below(base *url.URL, path string) string {
	u := *base
	u.Path += path
	return u.String()
}

// transcribe sends an utterance as a WAV file.
func (c *client) transcribe(ctx context.Context, samples []int16, h engine.Hints) (engine.Transcript, error) {
	body, kind, err := c.form(samples, h)
	if err != nil {
		return engine.Transcript{}, err
	}
	resp, err := c.post(ctx, c.listen, kind, body)
	if err != nil {
		return engine.Transcript{}, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return engine.Transcript{}, engine.RequestError(err)
	}
	var t struct {
		Text     *string `json:"text"`
		Language string  `json:"language"`
		Usage    usage   `json:"usage"`
	}
	switch {
	case len(reply) > maxReply:
		return engine.Transcript{}, engine.Errorf(engine.Broken, "a transcript of more than %d bytes", maxReply)
	case json.Unmarshal(reply, &t) != nil || t.Text == nil:
		return engine.Transcript{}, engine.Errorf(engine.Broken, "the response has no text")
	}
	return engine.Transcript{Text: strings.TrimSpace(*t.Text), Language: t.Language, Billed: t.Usage.sound()}, nil
}

// usage is what the service bills, in seconds for some models and in tokens for others (OpenAI API
// reference, The transcription object, usage).
type usage struct {
	duration float64
}

// UnmarshalJSON implements [json.Unmarshaler]. What servers say in another way is no error.
func (u *usage) UnmarshalJSON(data []byte) error {
	var said struct {
		Type    string  `json:"type"`
		Seconds float64 `json:"seconds"`
	}
	if json.Unmarshal(data, &said) == nil && said.Type == "duration" {
		u.duration = said.Seconds
	}
	return nil
}

// sound returns the sound that is billed; 0: the service does not tell. It may be as much as a
// number can say.
func (u usage) sound() time.Duration {
	return time.Duration(min(u.duration, engine.MaxBilled.Seconds()+1) * float64(time.Second))
}

// form returns the form with an utterance, and its content type.
func (c *client) form(samples []int16, h engine.Hints) (*bytes.Buffer, string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "speech.wav") // servers tell the format by the name
	if err != nil {
		return nil, "", err
	}
	if err := pcm.WriteWAV(file, engine.Rate, samples); err != nil {
		return nil, "", err
	}
	prompt := strings.Join(append(h.Words, c.settings.Prompt), ", ")
	language, _, _ := strings.Cut(h.Language, "-") // ISO 639-1
	for _, field := range [][2]string{{"model", orDefault(c.settings.ListenModel, DefaultListenModel)},
		{"language", language}, {"prompt", strings.TrimSuffix(prompt, ", ")}, {"response_format", "json"}} {
		if field[1] == "" {
			continue
		}
		if err := form.WriteField(field[0], field[1]); err != nil {
			return nil, "", err
		}
	}
	return &body, form.FormDataContentType(), form.Close()
}

// speechRequest is the body of a request for speech.
type speechRequest struct {
	Model        string  `json:"model"`
	Input        string  `json:"input"`
	Voice        string  `json:"voice"`
	Format       string  `json:"response_format"`
	Speed        float64 `json:"speed,omitempty"`
	Instructions string  `json:"instructions,omitempty"`
}

// synthesize requests the sound of a sentence.
func (c *client) synthesize(ctx context.Context, text string, m engine.Manner) (engine.Clip, error) {
	if r := []rune(text); len(r) > maxInput {
		text = string(r[:maxInput])
	}
	s := &c.settings
	r := speechRequest{Model: orDefault(s.SpeakModel, DefaultSpeakModel), Input: text,
		Voice: orDefault(m.Voice, orDefault(s.Voice, DefaultVoice)), Format: orDefault(s.Format, DefaultFormat),
		Speed: m.Speed, Instructions: s.Instructions}
	if r.Speed == 0 {
		r.Speed = s.Speed
	}
	body, err := json.Marshal(r)
	if err != nil {
		return engine.Clip{}, err
	}
	resp, err := c.post(ctx, c.speak, "application/json", bytes.NewReader(body))
	if err != nil {
		return engine.Clip{}, err
	}
	rate := 0
	if r.Format == "pcm" {
		rate = pcmRate
	}
	return engine.ResponseClip(resp, rate) // some servers ignore response_format
}

// post sends a request. Its response has status 200.
func (c *client) post(ctx context.Context, address, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "patchbay")
	if c.settings.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.settings.APIKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, engine.RequestError(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, engine.ResponseError(resp, c.settings.APIKey)
	}
	return resp, nil
}
