package realtimetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"patchbay/internal/voice/realtime"
)

// known are the fields of sessions, with dots between their levels; a field without those below it
// is not looked into. They are those of the OpenAI API reference (Realtime, session.update) and of
// Model Studio (client events of Qwen-Omni-, Qwen-ASR- and Qwen-TTS-Realtime).
var known = map[realtime.Spelling]map[realtime.Purpose]string{
	realtime.OpenAI: {
		realtime.Converse: "type instructions output_modalities tools tool_choice audio.input.format.type " +
			"audio.input.format.rate audio.input.transcription.model audio.input.transcription.language " +
			"audio.input.transcription.prompt audio.input.turn_detection audio.output.format.type " +
			"audio.output.format.rate audio.output.voice audio.output.speed",
		realtime.Transcribe: "type audio.input.format.type audio.input.format.rate audio.input.transcription.model " +
			"audio.input.transcription.language audio.input.transcription.prompt audio.input.turn_detection",
	},
	realtime.Qwen: {
		realtime.Converse: "modalities voice input_audio_format output_audio_format instructions turn_detection " +
			"input_audio_transcription.model input_audio_transcription.language tools",
		realtime.Transcribe: "modalities input_audio_format sample_rate input_audio_transcription.model " +
			"input_audio_transcription.language input_audio_transcription.corpus.text turn_detection",
		realtime.Speak: "voice mode language_type response_format sample_rate speech_rate",
	},
}

// checkSession returns what is wrong with a configuration.
func checkSession(spelling realtime.Spelling, purpose realtime.Purpose, raw json.RawMessage) (problems []string) {
	var fields object
	if json.Unmarshal(raw, &fields) != nil {
		return []string{"a session that is no object"}
	}
	allowed := strings.Fields(known[spelling][purpose])
	problems = unknownFields(allowed, "", fields)
	want := map[string]any{"audio.input.format.type": "audio/pcm", "audio.input.format.rate": 24000.0, "type": "realtime"}
	switch {
	case spelling == realtime.OpenAI && purpose == realtime.Transcribe:
		want["type"] = "transcription"
	case spelling == realtime.Qwen && purpose == realtime.Speak:
		want = map[string]any{"response_format": "pcm", "sample_rate": 24000.0}
	case spelling == realtime.Qwen:
		want = map[string]any{"input_audio_format": "pcm"}
	}
	for name, value := range want {
		if got := field(fields, name); got != value {
			problems = append(problems, fmt.Sprintf("%s is %v", name, got))
		}
	}
	tools, _ := fields["tools"].([]any)
	for _, t := range tools {
		tool, _ := t.(object)
		inner, nested := tool["function"].(object)
		if nested != (spelling == realtime.Qwen) {
			problems = append(problems, "a tool in the other spelling")
		}
		if !nested {
			inner = tool
		}
		if inner["name"] == nil || inner["parameters"] == nil || tool["type"] != "function" {
			problems = append(problems, "an incomplete tool")
		}
	}
	return problems
}

func unknownFields(allowed []string, before string, fields object) (problems []string) {
	for name, value := range fields {
		path := before + name
		inner, isObject := value.(object)
		switch {
		case slices.Contains(allowed, path):
		case isObject:
			problems = append(problems, unknownFields(allowed, path+".", inner)...)
		default:
			problems = append(problems, "unknown field "+path)
		}
	}
	return problems
}

func field(fields object, path string) any {
	name, rest, more := strings.Cut(path, ".")
	if !more {
		return fields[name]
	}
	inner, _ := fields[name].(object)
	return field(inner, rest)
}
