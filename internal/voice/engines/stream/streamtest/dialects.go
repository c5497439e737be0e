package streamtest

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
)

// text handles a text message, and reports whether it ends the sound.
func (c *conn) text(message string) (end bool) {
	switch c.s.opt.Dialect {
	case "funasr":
		return c.funasrText(message)
	case "vosk":
		// The server looks for "config" and for the literal end (vosk-server
		// websocket/asr_server.py).
		if strings.Contains(message, `"config"`) {
			if !strings.Contains(message, `"sample_rate":16000`) {
				c.s.violation("Vosk without the sample rate: " + message)
			}
			return false
		}
		end = message == `{"eof" : 1}`
	default:
		end = message == "Done"
	}
	if !end {
		c.s.violation("an unknown message: " + message)
	}
	return end
}

// funasrText handles the configuration and the end (FunASR runtime/docs/websocket_protocol.md).
func (c *conn) funasrText(message string) (end bool) {
	var m struct {
		Mode          string  `json:"mode"`
		WavName       string  `json:"wav_name"`
		WavFormat     string  `json:"wav_format"`
		AudioFS       int     `json:"audio_fs"`
		IsSpeaking    *bool   `json:"is_speaking"`
		ChunkSize     []int   `json:"chunk_size"`
		ChunkInterval int     `json:"chunk_interval"`
		Hotwords      *string `json:"hotwords"`
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil || m.IsSpeaking == nil {
		c.s.violation("not a message for FunASR: " + message)
		return false
	}
	if !*m.IsSpeaking {
		return true
	}
	c.mode = m.Mode
	if m.WavName == "" || m.WavFormat != "pcm" || m.AudioFS != 16000 || len(m.ChunkSize) != 3 || m.ChunkInterval == 0 ||
		m.Mode != "2pass" && m.Mode != "online" && m.Mode != "offline" {
		c.s.violation("incomplete configuration: " + message)
	}
	var weights map[string]int
	if m.Hotwords != nil && json.Unmarshal([]byte(*m.Hotwords), &weights) != nil {
		c.s.violation("hot words that are not an object in a text: " + message)
	}
	return false
}

// decode returns the samples of a message.
func (c *conn) decode(data []byte) (samples []int16) {
	size := 2
	if c.s.opt.Dialect == "sherpa" {
		size = 4
	}
	if len(data) == 0 || len(data)%size != 0 || len(c.got.Texts) == 0 && size == 2 {
		c.s.violation("sound with a part of a sample, or before the configuration")
	}
	for ; len(data) >= size; data = data[size:] {
		if size == 2 {
			samples = append(samples, int16(binary.LittleEndian.Uint16(data)))
			continue
		}
		f := math.Float32frombits(binary.LittleEndian.Uint32(data))
		if !(f >= -1 && f <= 1) {
			c.s.violation("sound outside -1 to 1")
		}
		samples = append(samples, int16(f*(1<<15)))
	}
	return samples
}

// partial sends a text while sound comes.
func (c *conn) partial(p Partial) {
	switch c.s.opt.Dialect {
	case "funasr":
		kind := "online"
		if p.Pause {
			kind = "offline"
		}
		if c.mode == "2pass" {
			kind = "2pass-" + kind
		}
		c.funasrSend(kind, p.Text, false)
	case "vosk":
		name := "partial"
		if p.Pause {
			name = "text"
		}
		c.sendJSON(map[string]any{name: p.Text})
	default:
		c.sendJSON(map[string]any{"text": p.Text, "segment": c.segment})
		if p.Pause {
			c.segment++
		}
	}
}

// last sends the text after the last pause.
func (c *conn) last(text string) {
	switch c.s.opt.Dialect {
	case "funasr":
		kind := map[string]string{"2pass": "2pass-offline"}[c.mode]
		if kind == "" {
			kind = c.mode
		}
		c.funasrSend(kind, text, true)
	case "vosk":
		c.sendJSON(map[string]any{"text": text})
	default:
		c.sendJSON(map[string]any{"text": text, "segment": c.segment})
	}
}

func (c *conn) funasrSend(mode, text string, final bool) {
	c.sendJSON(map[string]any{"mode": mode, "text": text, "wav_name": "patchbay", "is_final": final})
}

func (c *conn) sendJSON(message map[string]any) {
	text, _ := json.Marshal(message) // texts and numbers
	c.send(string(text))
}
