package realtime

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"strings"
)

// Spelling is how a service spells what it gets.
type Spelling string

// The spellings.
const (
	OpenAI Spelling = "openai" // OpenAI since general availability
	Qwen   Spelling = "qwen"   // OpenAI's beta, as Alibaba's services have it
)

// SpellingOf returns the spelling of the service at an address, with a model.
func SpellingOf(u *url.URL, model string) Spelling {
	host := strings.ToLower(u.Hostname())
	if strings.HasSuffix(host, ".aliyuncs.com") || strings.HasPrefix(strings.ToLower(model), "qwen") {
		return Qwen
	}
	return OpenAI
}

// OutputRate is the sample rate of the sound of all services, in Hz.
const OutputRate = 24000

// InputRate is the sample rate of the sound for a service, in Hz. OpenAI takes PCM at 24 kHz only
// (API reference, Realtime, session.audio.input.format.rate).
func (s Spelling) InputRate() int {
	if s == Qwen {
		return 16000
	}
	return OutputRate
}

// CanTruncate reports whether a service takes back what the person did not hear. Qwen's events do
// not include conversation.item.truncate.
func (s Spelling) CanTruncate() bool { return s != Qwen }

// Purpose is what a session is for.
type Purpose int

// The purposes.
const (
	Converse Purpose = iota
	Transcribe
	Speak // Qwen only
)

// Values of [Session].Detection; empty: the client commits.
const (
	ServerVAD   = "server_vad"
	SemanticVAD = "semantic_vad"
)

// Session configures a session.
type Session struct {
	Purpose      Purpose
	Instructions string
	Voice        string
	Speed        float64 // 0: the service's
	Silent       bool    // the answers have no sound
	// Detection is how the service finds the end of speech.
	Detection string
	// TranscriptionModel, Language and Prompt are for what the person says. Without a model OpenAI
	// does not transcribe it.
	TranscriptionModel, Language, Prompt string
	Tools                                []Function
	// Mode of Speak: commit or server_commit.
	Mode string
}

// Function is a tool of a session.
type Function struct {
	Name, Description string
	Parameters        json.RawMessage // a JSON schema
}

type object = map[string]any

// Update returns the session.update event.
func (s *Session) Update(spelling Spelling) any {
	fields := s.qwen
	if spelling == OpenAI {
		fields = s.openai
	}
	return object{"type": "session.update", "session": fields()}
}

func (s *Session) openai() object {
	transcription := object{"model": s.TranscriptionModel}
	set(transcription, "language", s.Language)
	set(transcription, "prompt", s.Prompt)
	input := object{"format": pcmFormat(), "turn_detection": s.detection(OpenAI)}
	if s.TranscriptionModel != "" {
		input["transcription"] = transcription
	}
	if s.Purpose == Transcribe {
		return object{"type": "transcription", "audio": object{"input": input}}
	}
	output := object{"format": pcmFormat()}
	set(output, "voice", s.Voice)
	if s.Speed > 0 {
		output["speed"] = s.Speed
	}
	modality := "audio"
	if s.Silent {
		modality = "text"
	}
	out := object{"type": "realtime", "output_modalities": []string{modality},
		"audio": object{"input": input, "output": output}, "tools": s.tools(OpenAI)}
	set(out, "instructions", s.Instructions)
	return out
}

func pcmFormat() object { return object{"type": "audio/pcm", "rate": OutputRate} }

func (s *Session) qwen() object {
	transcription := object{}
	set(transcription, "model", s.TranscriptionModel)
	set(transcription, "language", s.Language)
	if s.Prompt != "" {
		transcription["corpus"] = object{"text": s.Prompt}
	}
	switch s.Purpose {
	case Transcribe:
		return object{"modalities": []string{"text"}, "input_audio_format": "pcm", "sample_rate": Qwen.InputRate(),
			"input_audio_transcription": transcription, "turn_detection": s.detection(Qwen)}
	case Speak:
		out := object{"mode": s.Mode, "response_format": "pcm", "sample_rate": OutputRate}
		set(out, "voice", s.Voice)
		set(out, "language_type", s.Language)
		if s.Speed > 0 {
			out["speech_rate"] = s.Speed
		}
		return out
	}
	modalities := []string{"text", "audio"}
	if s.Silent {
		modalities = modalities[:1]
	}
	out := object{"modalities": modalities, "input_audio_format": "pcm", "output_audio_format": "pcm",
		"turn_detection": s.detection(Qwen)}
	set(out, "voice", s.Voice)
	set(out, "instructions", s.Instructions)
	if len(transcription) > 0 {
		out["input_audio_transcription"] = transcription
	}
	if len(s.Tools) > 0 {
		out["tools"] = s.tools(Qwen)
	}
	return out
}

// detection returns turn_detection. The service does not answer by itself where that can be asked
// for: somebody else decides whether a bot may answer.
func (s *Session) detection(spelling Spelling) any {
	if s.Detection == "" {
		return nil
	}
	d := object{"type": s.Detection}
	if spelling == OpenAI && s.Purpose == Converse {
		d["create_response"], d["interrupt_response"] = false, false
	}
	return d
}

// AnswersUnasked reports whether a service answers by itself when it has found the end of speech.
func (s *Session) AnswersUnasked(spelling Spelling) bool {
	return s.Detection != "" && spelling == Qwen
}

func (s *Session) tools(spelling Spelling) []object {
	list := []object{}
	for _, f := range s.Tools {
		tool := object{"name": f.Name, "description": f.Description, "parameters": f.Parameters}
		if spelling == Qwen {
			tool = object{"function": tool}
		}
		tool["type"] = "function"
		list = append(list, tool)
	}
	return list
}

func set(o object, name, value string) {
	if value != "" {
		o[name] = value
	}
}

// AppendAudio returns an event with samples at [Spelling.InputRate].
func AppendAudio(samples []int16) any {
	pcm := make([]byte, 0, 2*len(samples))
	for _, s := range samples {
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(s))
	}
	return object{"type": "input_audio_buffer.append", "audio": base64.StdEncoding.EncodeToString(pcm)}
}

// CommitAudio marks the end of what the person said; ClearAudio drops it.
func CommitAudio() any { return object{"type": "input_audio_buffer.commit"} }

// ClearAudio drops the sound that was not committed.
func ClearAudio() any { return object{"type": "input_audio_buffer.clear"} }

// AppendText adds a text to speak, and CommitText has it spoken.
func AppendText(text string) any { return object{"type": "input_text_buffer.append", "text": text} }

// CommitText has the texts so far spoken.
func CommitText() any { return object{"type": "input_text_buffer.commit"} }

// Finish ends a session of Qwen after its last result.
func Finish() any { return object{"type": "session.finish"} }

// Respond asks for an answer.
func Respond() any { return object{"type": "response.create"} }

// Cancel stops the answer.
func Cancel() any { return object{"type": "response.cancel"} }

// Truncate takes back what the person did not hear of an item.
func Truncate(item string, heardMS int64) any {
	return object{"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": heardMS}
}

// Delete removes an item.
func Delete(item string) any { return object{"type": "conversation.item.delete", "item_id": item} }

// PersonSaid adds a text of the person to the conversation, BotSaid one of the bot.
func PersonSaid(text string, pictures ...string) any {
	content := []object{}
	if text != "" {
		content = append(content, object{"type": "input_text", "text": text})
	}
	for _, p := range pictures {
		content = append(content, object{"type": "input_image", "image_url": p})
	}
	return item(object{"type": "message", "role": "user", "content": content})
}

// BotSaid adds a text of the bot to the conversation.
func BotSaid(spelling Spelling, text string) any {
	kind := "output_text"
	if spelling == Qwen {
		kind = "text"
	}
	return item(object{"type": "message", "role": "assistant", "content": []object{{"type": kind, "text": text}}})
}

// CallResult returns the result of a call.
func CallResult(call, output string) any {
	return item(object{"type": "function_call_output", "call_id": call, "output": output})
}

func item(o object) any { return object{"type": "conversation.item.create", "item": o} }
