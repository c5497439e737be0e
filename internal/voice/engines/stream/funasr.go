package stream

import (
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
)

// Constants of FunASR's WebSocket protocol (FunASR runtime/docs/websocket_protocol.md and
// runtime/python/websocket/funasr_wss_client.py).
const (
	funasrSubprotocol = "binary"
	funasrEnd         = `{"is_speaking":false}`
	// funasrInterval is how many messages of 60 ms the first pass recognises at once.
	funasrInterval = 10
	// hotwordWeight is the weight of the examples in the documentation.
	hotwordWeight = 20
)

// funasrChunks are the look-back, the chunk and the look-ahead of the first pass, in units of
// 60 ms (FunASR runtime/docs/websocket_protocol.md, chunk_size).
var funasrChunks = []int{5, funasrInterval, 5}

// funasrFirst is the configuration.
type funasrFirst struct {
	Mode          string `json:"mode"`
	WavName       string `json:"wav_name"`
	WavFormat     string `json:"wav_format"`
	AudioFS       int    `json:"audio_fs"`
	IsSpeaking    bool   `json:"is_speaking"`
	ChunkSize     []int  `json:"chunk_size"`
	ChunkInterval int    `json:"chunk_interval"`
	ITN           bool   `json:"itn"`
	Hotwords      string `json:"hotwords,omitempty"` // an object as a text
}

// funasr is a dialect.
type funasr struct {
	config     []byte
	afterEnd   bool
	segments   string // texts of the second pass
	pieces     string // of the first pass since then
	lang, mood string
}

// newFunASR returns the dialect of an utterance. Words that are no hot words, or too many, are left
// out.
func newFunASR(s *Settings, words []string) *funasr {
	first := funasrFirst{Mode: s.Mode, WavName: "patchbay", WavFormat: "pcm", AudioFS: engine.Rate, IsSpeaking: true,
		ChunkSize: funasrChunks, ChunkInterval: funasrInterval, ITN: true}
	if first.Mode == "" {
		first.Mode = TwoPass
	}
	weights := map[string]int{}
	for _, list := range [][]string{s.Hotwords, words} {
		for _, word := range list {
			if len(weights) < maxHotwords && isHotword(word) {
				weights[strings.TrimSpace(word)] = hotwordWeight
			}
		}
	}
	if len(weights) > 0 {
		hotwords, _ := json.Marshal(weights) // a map of numbers
		first.Hotwords = string(hotwords)
	}
	config, _ := json.Marshal(first) // texts and numbers
	return &funasr{config: config}
}

func (f *funasr) first() []byte                           { return f.config }
func (f *funasr) encode(b []byte, samples []int16) []byte { return appendPCM(b, samples) }
func (f *funasr) end() []byte                             { return []byte(funasrEnd) }
func (f *funasr) ended(int)                               { f.afterEnd = true }

// patience: FunASR may send nothing after the end if the rest was silence. After pieces of the
// first pass the second one follows, which takes a while on a small machine.
func (f *funasr) patience(l limits) (time.Duration, bool) {
	if f.pieces != "" {
		return l.result, true
	}
	return l.silence, true
}

func (f *funasr) transcript() engine.Transcript {
	text := strings.TrimSpace(engine.JoinTexts(f.segments, f.pieces))
	return engine.Transcript{Text: text, Language: f.lang, Emotion: f.mood}
}

// accept appends pieces of the first pass. A text of the second pass replaces them, and is the last
// one after the end. Before the end, the server has found a pause, and more follows. The field
// is_final does not tell: some servers set it while somebody speaks (funasr_wss_server.py).
func (f *funasr) accept(message []byte) (last bool, err error) {
	var m struct {
		Mode    string `json:"mode"`
		Text    string `json:"text"`
		IsFinal bool   `json:"is_final"`
	}
	if err := decode(message, &m); err != nil {
		return false, err
	}
	text, lang, mood := cutTags(m.Text)
	if lang != "" {
		f.lang = lang
	}
	if mood != "" {
		f.mood = mood
	}
	switch m.Mode {
	case "online", "2pass-online":
		f.pieces += text
		return f.afterEnd && m.Mode == "online" && m.IsFinal, nil
	case "offline", "2pass-offline":
		f.segments, f.pieces = engine.JoinTexts(f.segments, text), ""
		return f.afterEnd, nil
	}
	return false, engine.Errorf(engine.Broken, "a message of the server has an unknown mode")
}
