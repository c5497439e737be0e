package openai

import (
	"errors"
	"strings"
	"testing"
)

// usual are chunks as servers in use write them.
var usual = map[string]string{
	"OpenAI":    `{"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"aB3"}`,
	"DeepSeek":  `{"id":"1f633d8bfc032625086f14113c411638","choices":[{"index":0,"delta":{"content":" word","role":"assistant"},"finish_reason":null,"logprobs":null}],"created":1718345013,"model":"deepseek-chat","system_fingerprint":"fp_a49d71b8a1","object":"chat.completion.chunk","usage":null}`,
	"Ollama":    `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1728933352,"model":"llama3.2","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":" word"},"finish_reason":null}]}`,
	"vLLM":      `{"id":"chatcmpl-8e3","object":"chat.completion.chunk","created":1733400000,"model":"Qwen/Qwen2.5-7B-Instruct","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`,
	"llama.cpp": `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" word"}}],"created":1750271648,"id":"chatcmpl-PZ5","model":"","system_fingerprint":"b1-a414a44","object":"chat.completion.chunk"}`,
	"reasoning": `{"id":"a","object":"chat.completion.chunk","created":1,"model":"deepseek-reasoner","choices":[{"index":0,"delta":{"content":" word","reasoning_content":null},"logprobs":null,"finish_reason":null}]}`,
}

func TestUsualPiecesAreReadTheQuickWay(t *testing.T) {
	for name, data := range usual {
		text, finish, ok := quickDelta([]byte(data))
		if !ok || text != " word" || finish != "" {
			t.Errorf("%s: %q, %q, %v", name, text, finish, ok)
		}
	}
}

func TestPieces(t *testing.T) {
	piece := func(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }
	tests := []struct {
		name, data   string
		text, finish string
		quick        bool
	}{
		{"text", piece(`{"content":"a"}`), "a", "", true},
		{"spaces", " { \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } } ] } ", "a", "", true},
		{"finish", `{"choices":[{"delta":{},"finish_reason":"stop","index":0}]}`, "", "stop", true},
		{"empty finish", `{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}`, "a", "", true},
		{"null", piece(`{"content":null,"tool_calls":null,"refusal":null}`), "", "", true},
		{"Chinese", piece(`{"content":"你好"}`), "你好", "", true},
		{"escapes", piece(`{"content":"a\n\t\r\b\f\"\\\/b"}`), "a\n\t\r\b\f\"\\/b", "", true},
		{"unicode escapes", piece(`{"content":"\u4f60\ud83d\ude00"}`), "你😀", "", false},
		{"lone surrogate", piece(`{"content":"\ud83d"}`), "\ufffd", "", false},
		{"bad UTF-8", piece("{\"content\":\"a\xff\"}"), "a\ufffd", "", false},
		{"bad UTF-8 after an escape", piece("{\"content\":\"\\n\xff\"}"), "\n\ufffd", "", false},
		{"content twice", piece(`{"content":"a","content":"b"}`), "b", "", false},
		{"delta twice", `{"choices":[{"delta":{"content":"a"},"delta":{"content":"b"}}]}`, "b", "", false},
		{"capital key", piece(`{"Content":"a"}`), "a", "", false},
		{"key that folds", piece(`{"content":"a","tool_call\u017f":null}`), "a", "", false},
		{"escaped key", piece(`{"\u0063ontent":"a"}`), "a", "", false},
		{"two choices", `{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}`, "a",
			"", false},
		{"no choice", `{"choices":[]}`, "", "", false},
		{"no choices", `{"id":"x"}`, "", "", false},
		{"null choices", `{"choices":null}`, "", "", false},
		{"null delta", `{"choices":[{"delta":null,"finish_reason":"stop"}]}`, "", "stop", false},
		{"logprobs",
			`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.1,"bytes":[97]}]}}]}`, "a", "", false},
		{"usage", `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, "a", "", false},
		{"error null", `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, "a", "", true},
		{"deep", `{"x":[[[[[[[[[[[[1]]]]]]]]]]]],"choices":[{"delta":{"content":"a"}}]}`, "a", "", false},
		{"nested", `{"x":{"y":[1,2.5,"z",true,false,null,{}]},"choices":[{"delta":{"content":"a"}}]}`, "a", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, ok := quickDelta([]byte(tt.data)); ok != tt.quick {
				t.Errorf("quick: %v", ok)
			}
			var d delta
			if err := d.decode([]byte(tt.data)); err != nil || d.text != tt.text || d.finish != tt.finish {
				t.Errorf("got %q, %q, %v; want %q, %q", d.text, d.finish, err, tt.text, tt.finish)
			}
		})
	}
}

func TestPiecesThatAreNone(t *testing.T) {
	for data, want := range map[string]error{
		``: errNotJSON, `x`: errNotJSON, `{"choices":[`: errNotJSON, `[]`: errNotJSON, `"x"`: errNotJSON,
		`{} {}`: errNotJSON, usual["OpenAI"] + "x": errNotJSON,
		`{"choices":{}}`: errShape, `{"choices":[{"delta":{"content":1}}]}`: errShape,
	} {
		var d delta
		if _, _, ok := quickDelta([]byte(data)); ok {
			t.Errorf("%s: the quick way takes it", data)
		}
		if err := d.decode([]byte(data)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", data, err, want)
		}
	}
	for _, data := range []string{`{"error":{"message":"m"}}`, `{"error":"m"}`, `{"object":"error","message":"m"}`,
		`{"error":{"message":"m"},"choices":[{"delta":{"content":"a"}}]}`} {
		var d delta
		err := d.decode([]byte(data))
		if e, ok := errors.AsType[*serverError](err); !ok || e.message != "m" {
			t.Errorf("%s: got %v", data, err)
		}
	}
}

// FuzzQuickDelta checks that encoding/json reads the same as the fast path.
func FuzzQuickDelta(f *testing.F) {
	for _, data := range usual {
		f.Add([]byte(data))
	}
	f.Add([]byte(`{"choices":[{"delta":{"content":"a\n\"b"},"finish_reason":"stop","index":0}],"usage":null,"error":null,"object":"x"}`))
	f.Add([]byte(`{"x":[1.5,0,{"a":true}],"choices":[{"delta":{"content":"a","tool_calls":null,"function_call":null}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, finish, ok := quickDelta(data)
		var d delta
		err := d.decodeSlow(data)
		if !ok {
			return
		}
		if err != nil || d.text != text || d.finish != finish || len(d.calls) > 0 || d.usage != nil || d.complete {
			t.Fatalf("quick %q, %q; slow %+v, %v", text, finish, d, err)
		}
	})
}

// FuzzThinking checks that the split of a text into chunks makes no difference, and that no text
// after the reasoning is lost.
func FuzzThinking(f *testing.F) {
	f.Add("<think>a</think> b", uint8(3))
	f.Add("<thin", uint8(1))
	f.Add(" <think>a</thin</think><think></think>c<think>", uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		through := func(n int) string {
			var th reasoningFilter
			var out strings.Builder
			for rest := text; rest != ""; {
				n := min(n, len(rest))
				out.WriteString(th.pass(rest[:n]))
				rest = rest[n:]
			}
			out.WriteString(th.rest())
			return out.String()
		}
		whole, pieces := through(len(text)), through(int(size)+1)
		if whole != pieces {
			t.Fatalf("whole %q, in pieces of %d %q", whole, int(size)+1, pieces)
		}
		if !strings.HasSuffix(text, whole) {
			t.Fatalf("%q became %q", text, whole)
		}
		if !strings.Contains(text, thinkOpen) && whole != strings.TrimLeft(text, " \t\r\n") {
			t.Fatalf("%q became %q", text, whole)
		}
	})
}
