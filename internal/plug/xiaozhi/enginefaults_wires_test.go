package xiaozhi_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/dashscope"
	"patchbay/internal/voice/engines/dashscope/dashscopetest"
	"patchbay/internal/voice/engines/edge"
	"patchbay/internal/voice/engines/edge/edgetest"
	"patchbay/internal/voice/engines/httpspeech"
	"patchbay/internal/voice/engines/httpspeech/httpspeechtest"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
	realtimeengine "patchbay/internal/voice/engines/realtime"
	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/engines/stream"
	"patchbay/internal/voice/engines/stream/streamtest"
	"patchbay/internal/voice/engines/volcengine"
	"patchbay/internal/voice/engines/volcengine/volcenginetest"
	"patchbay/internal/voice/engines/wyoming"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// failingWire is an engine that fails, behind its wire on loopback, with the outcome of each fault
// when it listens and when it speaks. A fault at a stage of a protocol is "fault@stage".
type failingWire struct {
	listen, speak map[string]outcome
	open          func(t testing.TB, fault, stage string, o engine.Options) (engine.Engine, error)
}

// outcome is what becomes of a turn whose engine has a fault.
type outcome int

const (
	fails   outcome = iota // another engine goes on, or the person is told why none does
	works                  // nobody notices
	nothing                // nothing was said, as far as the engine knows
)

// failing are faults that are failures, in one map with others.
func failing[F ~string](others map[string]outcome, faults ...F) map[string]outcome {
	all := map[string]outcome{}
	for _, f := range faults {
		all[string(f)] = fails
	}
	maps.Copy(all, others)
	return all
}

// staged are the faults of sockettest before a WebSocket stands, and at stages of a protocol.
func staged(stages ...string) []sockettest.Fault {
	list := slices.Clone(sockettest.BeforeFaults)
	for _, f := range sockettest.StageFaults {
		for _, stage := range stages {
			list = append(list, f+sockettest.Fault("@"+stage))
		}
	}
	return list
}

// without leaves faults out.
func without[F ~string](all []F, not ...F) []F {
	return slices.DeleteFunc(slices.Clone(all), func(f F) bool { return slices.Contains(not, f) })
}

func tellMore([]int16) string { return heardText }

// failingWires are those of all engines.
var failingWires = map[string]failingWire{
	"openai": {
		failing(map[string]outcome{"double end": works, "empty text": nothing},
			without(openaitest.Faults, openaitest.EndlessSound)...),
		failing(map[string]outcome{"double end": works}, without(openaitest.Faults, openaitest.LongText,
			openaitest.HugeText)...),
		func(t testing.TB, fault, _ string, o engine.Options) (engine.Engine, error) {
			server := openaitest.NewFailing(t, openaitest.Fault(fault))
			server.Transcript = tellMore
			return openai.New(openai.Settings{BaseURL: server.URL, APIKey: openaitest.Key, Format: "wav"}, o)
		}},
	"http": {
		nil, failing(map[string]outcome{"burst": works}, httpspeechtest.Faults...),
		func(t testing.TB, fault, _ string, o engine.Options) (engine.Engine, error) {
			server := httpspeechtest.New(t, httpspeechtest.Options{Fault: httpspeechtest.Fault(fault), Key: httpKey})
			return httpspeech.New(httpspeech.Settings{URL: server.URL, Body: `{"text":"{text}"}`, APIKey: httpKey}, o)
		}},
	"edge": {
		nil, failing(nil, without(edgetest.Faults, edgetest.DoubleEnd)...), // its sound is none
		func(t testing.TB, fault, _ string, o engine.Options) (engine.Engine, error) {
			server := edgetest.New(t, edgetest.Options{Fault: edgetest.Fault(fault)})
			return edge.New(edge.Settings{URL: server.URL}, o)
		}},
	"wyoming": {
		failing(map[string]outcome{"empty text": nothing, "double end": works},
			without(wyomingtest.Faults, wyomingtest.EndlessSound, wyomingtest.WrongFormat)...),
		failing(map[string]outcome{"double end": works}, without(wyomingtest.Faults, wyomingtest.HugeText,
			wyomingtest.LongText)...),
		func(t testing.TB, fault, stage string, o engine.Options) (engine.Engine, error) {
			server := wyomingtest.New(t, wyomingtest.Options{Fault: wyomingtest.Fault(fault),
				Stage: wyomingtest.Stage(stage), Transcript: tellMore})
			return wyoming.New(wyoming.Settings{Address: server.Address}, o)
		}},
	"vosk":   failingStream(stream.Vosk, nil),
	"sherpa": failingStream(stream.Sherpa, nil),
	// FunASR tells by its silence that nobody has spoken.
	"funasr": failingStream(stream.FunASR, map[string]outcome{"hang after": nothing, "silence after end": nothing}),
	"dashscope": {
		failing(map[string]outcome{"empty text": nothing, "double end": works}, append(staged(dashscopetest.Start,
			dashscopetest.First, dashscopetest.Middle, dashscopetest.Last), dashscopetest.WrongID,
			dashscopetest.Throttled, dashscopetest.Internal, dashscopetest.NoModel, dashscopetest.Early,
			dashscopetest.LongText)...),
		failing(map[string]outcome{"double end": works}, append(staged(dashscopetest.Start, dashscopetest.First,
			dashscopetest.Middle, dashscopetest.Last), dashscopetest.WrongID, dashscopetest.Throttled,
			dashscopetest.Internal, dashscopetest.NoModel, dashscopetest.Early, dashscopetest.NoSound,
			dashscopetest.Endless)...),
		func(t testing.TB, fault, stage string, o engine.Options) (engine.Engine, error) {
			server := dashscopetest.New(t, dashscopetest.Options{Options: sockettest.Options{
				Fault: sockettest.Fault(fault), Stage: stage}, Transcript: tellMore})
			return dashscope.New(dashscope.Settings{URL: server.URL, APIKey: dashscopetest.Key}, o)
		}},
	"volcengine": {
		failing(map[string]outcome{"empty text": nothing, "double end": works, "code 1013": nothing},
			append(staged(volcenginetest.First, volcenginetest.Middle, volcenginetest.Last), volcenginetest.WrongLength,
				volcenginetest.BadGzip, volcenginetest.Busy, volcenginetest.Parameters, volcenginetest.Internal,
				volcenginetest.NoQuota, volcenginetest.LongText)...),
		failing(map[string]outcome{"double end": works}, append(staged(volcenginetest.Connect, volcenginetest.Start,
			volcenginetest.First, volcenginetest.Middle, volcenginetest.Last), volcenginetest.WrongID,
			volcenginetest.WrongLength, volcenginetest.BadGzip, volcenginetest.Busy, volcenginetest.Parameters,
			volcenginetest.Internal, volcenginetest.NoQuota, volcenginetest.NoSound, volcenginetest.Endless)...),
		func(t testing.TB, fault, stage string, o engine.Options) (engine.Engine, error) {
			server := volcenginetest.New(t, volcenginetest.Options{Options: sockettest.Options{
				Fault: sockettest.Fault(fault), Stage: stage}, Transcript: tellMore})
			return volcengine.New(volcengine.Settings{URL: server.URL, AppKey: volcenginetest.AppKey,
				AccessKey: volcenginetest.AccessKey}, o)
		}},
	"realtime": failingRealtime(realtime.OpenAI),
	"qwen":     failingRealtime(realtime.Qwen),
}

func failingStream(dialect string, others map[string]outcome) failingWire {
	faults := failing(map[string]outcome{"empty text": nothing, "double end": works}, streamtest.Faults...)
	maps.Copy(faults, others)
	return failingWire{faults, nil, func(t testing.TB, fault, _ string, o engine.Options) (engine.Engine, error) {
		server := streamtest.New(t, streamtest.Options{Dialect: dialect, Fault: streamtest.Fault(fault),
			Transcribe: tellMore, LeaveOpen: dialect != stream.Sherpa})
		return stream.New(stream.Settings{URL: server.URL, Dialect: dialect}, o)
	}}
}

func failingRealtime(spelling realtime.Spelling) failingWire {
	ofSound := []realtimetest.Fault{realtimetest.BadSound, realtimetest.OddSound, realtimetest.Endless,
		realtimetest.FailedSound}
	ofText := []realtimetest.Fault{realtimetest.EmptyText, realtimetest.HugeText, realtimetest.LongText,
		realtimetest.FailedText}
	w := failingWire{listen: failing(map[string]outcome{"empty text": nothing, "double end": works},
		without(realtimetest.Faults, ofSound...)...)}
	if spelling == realtime.Qwen { // OpenAI's services speak in conversations only
		w.speak = failing(map[string]outcome{"double end": works}, without(realtimetest.Faults, ofText...)...)
	}
	w.open = func(t testing.TB, fault, _ string, o engine.Options) (engine.Engine, error) {
		server := realtimetest.New(t, realtimetest.Options{Spelling: spelling, Fault: realtimetest.Fault(fault),
			Transcript: tellMore})
		return realtimeengine.New(realtimeengine.Settings{URL: server.URL + "/v1/realtime",
			APIKey: realtimetest.Key, Spelling: string(spelling)}, o)
	}
	return w
}

const httpKey = "sk-http-secret"

// secrets are what no log may have.
var secrets = []string{openaitest.Key, httpKey, dashscopetest.Key, volcenginetest.AccessKey, realtimetest.Key}

// hasSecret returns a secret that a log has, or what was said or heard.
func hasSecret(log string) string {
	for _, s := range append(secrets, heardText, answerText) {
		if strings.Contains(log, s) {
			return s
		}
	}
	return ""
}
